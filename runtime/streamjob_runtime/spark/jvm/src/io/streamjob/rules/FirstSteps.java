package io.streamjob.rules;

import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.HashAggregateExec;
import scala.jdk.javaapi.CollectionConverters;

/** A rule for the first steps of aggregations, those that read rows and are followed by a shuffle. */
abstract class FirstSteps extends Rule<SparkPlan> {
  private final String key;

  /**
   * @param key turns the rule off for a session whose setting of this name is `false`.
   */
  protected FirstSteps(String key) {
    this.key = key;
  }

  /** Returns a plan with the same output as a first step, or the step itself. */
  protected abstract SparkPlan better(HashAggregateExec aggregate);

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return Boolean.parseBoolean(conf().getConfString(key, "true")) ? rewritten(plan) : plan;
  }

  private SparkPlan rewritten(SparkPlan plan) {
    SparkPlan result = plan.mapChildren(this::rewritten);
    return result instanceof HashAggregateExec && isFirst((HashAggregateExec) result)
        ? better((HashAggregateExec) result)
        : result;
  }

  private static boolean isFirst(HashAggregateExec aggregate) {
    for (AggregateExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      if (!each.mode().equals(Partial$.MODULE$)) {
        return false;
      }
    }
    // Without functions, the steps of an aggregation differ only in what they require of their rows.
    return aggregate.requiredChildDistributionExpressions().isEmpty();
  }
}
