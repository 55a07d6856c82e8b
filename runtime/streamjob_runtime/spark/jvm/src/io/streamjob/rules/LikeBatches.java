package io.streamjob.rules;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a streaming query treat keys as the same query over a table does, where Spark does not.
 *
 * <ul>
 *   <li>A full outer join of streams finds its rows by the bytes of their keys, so that NULL equals NULL. The other joins
 *       are given rows without NULLs by Spark's optimizer. Here a row whose key is NULL fails a condition of the join,
 *       and Spark returns such a row at once, as one without a partner.
 *   <li>A join of streams takes comparisons of other columns for bounds of its event times: see {@link JoinTimes}.
 *   <li>{@code dropDuplicates} compares the bytes of its keys, too, so that 0.0 and -0.0 differ, and two kinds of NaN.
 *       Here the keys are normalized, as they are before an aggregation.
 * </ul>
 */
final class LikeBatches extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.isStreaming() ? changed(plan) : plan;
  }

  private static LogicalPlan changed(LogicalPlan plan) {
    LogicalPlan below = plan.mapChildren(LikeBatches::changed);
    if (below instanceof Join join && join.left().isStreaming() && join.right().isStreaming()) {
      return JoinTimes.marked(join.joinType().equals(FullOuter$.MODULE$) ? withoutNullKeys(join) : join);
    }
    if (below instanceof Deduplicate unique && unique.isStreaming()) {
      LogicalPlan child = normalized(unique.keys(), unique.child());
      return unique.copy(unique.keys(), child, unique.dedupSpec());
    }
    if (below instanceof DeduplicateWithinWatermark unique && unique.isStreaming()) {
      return unique.copy(unique.keys(), normalized(unique.keys(), unique.child()), unique.dedupSpec());
    }
    return below;
  }

  private static Join withoutNullKeys(Join join) {
    var found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (found.isEmpty()) {
      return join;
    }
    List<Expression> keys = new ArrayList<>(CollectionConverters.asJava(found.get()._2()));
    keys.addAll(CollectionConverters.asJava(found.get()._3()));
    Expression condition = join.condition().get();
    for (Expression key : keys) {
      // That of `<=>` is an expression that is never NULL.
      condition = key.nullable() ? new And(condition, new IsNotNull(key)) : condition;
    }
    return new Join(join.left(), join.right(), join.joinType(), Option.apply(condition), join.hint());
  }

  private static LogicalPlan normalized(Seq<Attribute> keys, LogicalPlan child) {
    NormalizeFloatingNumbers$ numbers = NormalizeFloatingNumbers$.MODULE$;
    Set<ExprId> floating =
        CollectionConverters.asJava(keys).stream()
            .filter(each -> numbers.needNormalize(each.dataType()))
            .map(Attribute::exprId)
            .collect(Collectors.toSet());
    if (floating.isEmpty()) {
      return child;
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute each : CollectionConverters.asJava(child.output())) {
      columns.add(
          floating.contains(each.exprId())
              ? Plans.alias(
                  numbers.normalize((Expression) each), each.name(), each.exprId(), Option.apply(each.metadata()))
              : (NamedExpression) each);
    }
    return new Project(Plans.seq(columns), child);
  }
}
