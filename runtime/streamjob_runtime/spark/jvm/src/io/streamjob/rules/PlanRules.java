package io.streamjob.rules;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Adds our rules, and the extensions on the class path, to a session: the class for `spark.sql.extensions`. */
public final class PlanRules extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(new ForSession());
    extensions.injectPreCBORule(new Optimizing());
    extensions.injectCheckRule(new Checking());
    FoundExtensions.add(extensions);
    return BoxedUnit.UNIT;
  }

  private static final class ForSession extends AbstractFunction1<SparkSession, ColumnarRule> {
    @Override
    public ColumnarRule apply(SparkSession session) {
      return new OfPlans();
    }
  }

  /** Spark applies this rule once, when it has optimized a query. */
  private static final class Optimizing extends AbstractFunction1<SparkSession, Rule<LogicalPlan>> {
    @Override
    public Rule<LogicalPlan> apply(SparkSession session) {
      return new LikeBatches();
    }
  }

  /** Spark applies this check to each query that it has analyzed. */
  private static final class Checking
      extends AbstractFunction1<SparkSession, Function1<LogicalPlan, BoxedUnit>> {
    @Override
    public Function1<LogicalPlan, BoxedUnit> apply(SparkSession session) {
      return new JoinTimes.Check();
    }
  }

  /** Spark applies these rules last, before it generates code. */
  private static final class OfPlans extends ColumnarRule {
    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return new All();
    }
  }

  private static final class All extends Rule<SparkPlan> {
    private final WindowPanes panes = new WindowPanes();
    private final JoinStores joins = new JoinStores();
    private final NullTimes times = new NullTimes();

    @Override
    public SparkPlan apply(SparkPlan plan) {
      return times.apply(joins.apply(panes.apply(plan)));
    }
  }
}
