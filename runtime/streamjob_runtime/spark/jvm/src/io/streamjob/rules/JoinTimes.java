package io.streamjob.rules;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper$;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Lets a join of streams derive the end of its rows only from comparisons of the two event times.
 *
 * <p>Spark takes each comparison of a column with less for such a bound: from {@code v > 1}, that rows can go when the
 * event time of all others is a second after 1970. So rows without a partner never came out, or came too early.
 */
final class JoinTimes {
  /** Any watermark: what is asked is whether there is a bound. */
  private static final Object SOME = 1_000_000L;

  private JoinTimes() {}

  /** Returns the join with the comparisons of other columns marked, so that Spark only tests rows by them. */
  static Join marked(Join join) {
    if (!ofStreams(join)) {
      return join;
    }
    Expression condition = null;
    boolean changed = false;
    for (Expression each : parts(join)) {
      boolean hides = isComparison(each) && !isOfTimes(each, join);
      changed |= hides;
      // The mark returns the value of its child. A bare negation would be simplified to the comparison.
      Expression part = hides ? new KnownNullable(each) : each;
      condition = condition == null ? part : new And(condition, part);
    }
    return changed
        ? new Join(join.left(), join.right(), join.joinType(), Option.apply(condition), join.hint())
        : join;
  }

  private static boolean ofStreams(Join join) {
    return join.condition().isDefined() && join.left().isStreaming() && join.right().isStreaming();
  }

  private static List<Expression> parts(Join join) {
    return CollectionConverters.asJava(
        StreamingJoinHelper$.MODULE$.splitConjunctivePredicates(join.condition().get()));
  }

  private static boolean isComparison(Expression part) {
    return part instanceof LessThan
        || part instanceof LessThanOrEqual
        || part instanceof GreaterThan
        || part instanceof GreaterThanOrEqual;
  }

  private static boolean isOfTimes(Expression part, Join join) {
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(part.references().toSeq()));
    return columns.stream().allMatch(each -> each.metadata().contains(EventTimeWatermark.delayKey()))
        && columns.stream().anyMatch(join.left().outputSet()::contains)
        && columns.stream().anyMatch(join.right().outputSet()::contains)
        && !rounds(part);
  }

  /** Returns whether an expression reads a time as whole seconds, by which Spark would end rows up to a second early. */
  private static boolean rounds(Expression part) {
    if (part instanceof Cast cast
        && cast.child().dataType().equals(DataTypes.TimestampType)
        && !cast.dataType().equals(DataTypes.TimestampType)
        && !cast.dataType().equals(DataTypes.DoubleType)) {
      return true;
    }
    return CollectionConverters.asJava(part.children()).stream().anyMatch(JoinTimes::rounds);
  }

  /** Refuses an outer join of streams whose rows without a partner would never come out, though Spark accepts it. */
  static final class Check extends AbstractFunction1<LogicalPlan, BoxedUnit> {
    @Override
    public BoxedUnit apply(LogicalPlan plan) {
      if (plan.isStreaming()) {
        check(plan);
      }
      return BoxedUnit.UNIT;
    }

    private static void check(LogicalPlan plan) {
      CollectionConverters.asJava(plan.children()).forEach(Check::check);
      if (plan instanceof Join join && ofStreams(join) && !StreamingJoinHelper$.MODULE$.isWatermarkInJoinKeys(join)) {
        Join marked = marked(join);
        boolean lost =
            keeps(join, LeftOuter$.MODULE$) && ends(join, true) && !ends(marked, true)
                || keeps(join, RightOuter$.MODULE$) && ends(join, false) && !ends(marked, false);
        if (lost) {
          throw refused(join);
        }
      }
    }

    private static boolean keeps(Join join, JoinType side) {
      return join.joinType().equals(side) || join.joinType().equals(FullOuter$.MODULE$);
    }

    private static boolean ends(Join join, boolean left) {
      AttributeSet of = left ? join.left().outputSet() : join.right().outputSet();
      AttributeSet other = left ? join.right().outputSet() : join.left().outputSet();
      return StreamingJoinHelper$.MODULE$
          .getStateValueWatermark(of, other, join.condition(), Option.apply(SOME))
          .isDefined();
    }

    private static IllegalArgumentException refused(Join join) {
      String message =
          ("The %s join of two streams ON %s does not say when a row has no partner: it has no range of the two event"
                  + " times, the columns of withWatermark. Comparisons of other columns, or of times in whole seconds, do"
                  + " not count. Add one, such as `AND b_time BETWEEN a_time - INTERVAL 1 HOUR AND a_time + INTERVAL 1"
                  + " HOUR`.")
              .formatted(join.joinType().sql(), join.condition().get().sql());
      return new IllegalArgumentException(message);
    }
  }
}
