package io.streamjob.rules;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a running query with a join of streams keep its state by {@link JoinCountsProvider}.
 *
 * <p>A query has settings of its own, so nothing else gets this class. Its checkpoint names Spark's class, which was set
 * when the query began. An operator with {@code transformWithState} accepts Spark's class only.
 */
final class JoinStores extends Rule<SparkPlan> {
  /** Turns the rule off for a session if it is `false`. */
  static final String SWITCH = "spark.streamjob.joinCounts";

  private static final String PROVIDER = "spark.sql.streaming.stateStore.providerClass";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    boolean wanted =
        conf().getConfString(PROVIDER, "").equals(RocksDBStateStoreProvider.class.getName())
            && Boolean.parseBoolean(conf().getConfString(SWITCH, "true"))
            && has(plan, StreamingSymmetricHashJoinExec.class::isInstance)
            && !has(plan, TransformWithStateExecBase.class::isInstance)
            && isOfQuery();
    if (!wanted) {
      return plan;
    }
    conf().setConfString(PROVIDER, JoinCountsProvider.class.getName());
    return again(plan);
  }

  private static boolean isOfQuery() {
    return SparkSession.active().sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY()) != null;
  }

  private static boolean has(SparkPlan plan, Predicate<SparkPlan> wanted) {
    return wanted.test(plan)
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(child -> has(child, wanted));
  }

  /** Returns a plan with its joins made again: a join takes the class from the settings when it is made. */
  private static SparkPlan again(SparkPlan plan) {
    SparkPlan result = plan.mapChildren(JoinStores::again);
    if (!(result instanceof StreamingSymmetricHashJoinExec)) {
      return result;
    }
    List<Object> arguments = new ArrayList<>();
    CollectionConverters.asJava(result.productIterator()).forEachRemaining(arguments::add);
    return result.makeCopy(arguments.toArray());
  }
}
