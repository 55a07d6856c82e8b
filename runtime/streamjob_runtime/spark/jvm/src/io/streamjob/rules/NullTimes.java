package io.streamjob.rules;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RaiseError;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreSaveExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a query fail at a row without an event time that an operator would keep for ever, and never return.
 *
 * <p>Such are the groups of an aggregation in append mode, and the rows of an outer join that have no partner. Rows of a
 * source have an event time; those of an outer join may have none.
 */
final class NullTimes extends Rule<SparkPlan> {
  /** Marks the message for `null_event_times.py`. */
  private static final String MESSAGE = "streamjob:null-event-time:{\"column\":\"%s\"}:streamjob";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return checked(plan);
  }

  private static SparkPlan checked(SparkPlan plan) {
    SparkPlan below = plan.mapChildren(NullTimes::checked);
    if (below instanceof StateStoreSaveExec save && save.outputMode().contains(OutputMode.Append())) {
      return save.withNewChildInternal(withTimes(save.child(), save.keyExpressions()));
    }
    if (below instanceof StreamingSymmetricHashJoinExec join) {
      return join.withNewChildrenInternal(
          keeps(join.joinType(), LeftOuter$.MODULE$) ? withTimes(join.left(), join.left().output()) : join.left(),
          keeps(join.joinType(), RightOuter$.MODULE$) ? withTimes(join.right(), join.right().output()) : join.right());
    }
    return below;
  }

  private static boolean keeps(JoinType type, JoinType side) {
    return type.equals(side) || type.equals(FullOuter$.MODULE$);
  }

  private static SparkPlan withTimes(SparkPlan rows, Seq<Attribute> columns) {
    SparkPlan result = rows;
    for (Attribute each : CollectionConverters.asJava(columns)) {
      if (each.metadata().contains(EventTimeWatermark.delayKey()) && each.nullable()) {
        String message = MESSAGE.formatted(each.name().replace("\\", "\\\\").replace("\"", "\\\""));
        Expression error = new RaiseError(Literal.create(message, DataTypes.StringType));
        Expression known = new IsNotNull((Expression) each);
        Expression fails = new Cast(error, DataTypes.BooleanType, Option.empty());
        result = new FilterExec(new If(known, Literal.create(true, DataTypes.BooleanType), fails), result);
      }
    }
    return result;
  }
}
