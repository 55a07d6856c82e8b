package io.streamjob.pinning;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.CurrentTime;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectList;
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectSet;
import org.apache.spark.sql.catalyst.expressions.aggregate.ListAgg;
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxMinBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.Mode;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInPandasWithState;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** On what the rows of a query's batch depend beside its input, its state, its time and its watermark. */
public final class Dependence {
  /** Functions for which the order of rows does not matter, and not how they are divided among tasks. */
  private static final Set<String> WITHOUT_ORDER =
      Set.of(
          "approx_count_distinct", "bit_and", "bit_or", "bit_xor", "count", "count_min_sketch", "max", "min", "percentile");

  /** Functions that take the elements of an array in any order. */
  private static final Set<String> OF_ANY_ORDER =
      Set.of("array_contains", "array_max", "array_min", "size", "sort_array");

  private final Set<String> found = new LinkedHashSet<>();

  private Dependence() {}

  /**
   * Returns what else a query depends on, each in a line: its kind, a blank, and its name.
   *
   * <p>Kinds: {@code value} is random or comes from a clock, {@code function} is a Python function that is declared not
   * deterministic, {@code table} may have other rows when it is read again. The others depend on the order of rows that come from several tasks: {@code
   * sum} of floating numbers, {@code aggregate}, {@code duplicates} with the columns that one of them gives, {@code
   * limit}, {@code state} of a function, {@code versions} of a temporal join.
   *
   * @param analyzed the plan of the query.
   * @param optimized the plan of a batch.
   */
  public static String of(LogicalPlan analyzed, LogicalPlan optimized) {
    Dependence dependence = new Dependence();
    dependence.clocks(analyzed);
    dependence.plan(optimized);
    return String.join("\n", dependence.found);
  }

  /** Looks for the one clock that Spark does not set to the time of the batch; optimized, it is a constant. */
  private void clocks(LogicalPlan plan) {
    if (java(plan.expressions()).stream().anyMatch(each -> each.exists(part -> part instanceof CurrentTime))) {
      add("value", "current_time");
    }
    java(plan.children()).forEach(this::clocks);
  }

  private void plan(LogicalPlan plan) {
    boolean isConstant = plan instanceof LocalRelation || plan instanceof OneRowRelation || plan instanceof Range;
    if (plan.children().isEmpty() && !plan.isStreaming() && !isConstant) {
      add("table", names(java(plan.output())));
    } else if (plan instanceof Sample) {
      add("value", "sample");
    } else if (plan instanceof Deduplicate deduplicate) {
      duplicates(java(deduplicate.keys()), deduplicate.child());
    } else if (plan instanceof DeduplicateWithinWatermark deduplicate) {
      duplicates(java(deduplicate.keys()), deduplicate.child());
    } else if (plan instanceof GlobalLimit limit && limit.isStreaming() && !isOrdered(limit.child())) {
      add("limit", limit.limitExpr().sql());
    } else if (plan instanceof FlatMapGroupsInPandasWithState) {
      add("state", "applyInPandasWithState");
    } else if (plan instanceof TransformWithStateInPySpark) {
      add("state", "transformWithState");
    } else if (plan instanceof TransformWithState) {
      add("versions", "of one time");
    }
    java(plan.expressions()).forEach(each -> expression(each, false));
    java(plan.children()).forEach(this::plan);
  }

  private static boolean isOrdered(LogicalPlan plan) {
    return plan instanceof Sort || plan instanceof LocalLimit limit && isOrdered(limit.child());
  }

  private void duplicates(List<Attribute> keys, LogicalPlan child) {
    Set<Object> ids = keys.stream().map(Attribute::exprId).collect(Collectors.toSet());
    List<Attribute> kept = java(child.output()).stream().filter(each -> !ids.contains(each.exprId())).toList();
    if (!kept.isEmpty()) {
      add("duplicates", names(kept));
    }
  }

  private void expression(Expression expression, boolean inAnyOrder) {
    List<Expression> parts = java(expression.children());
    // Our own expressions change no value. One that observes a time uses the partition's number only for its report.
    boolean own = expression.getClass().getName().startsWith("io.streamjob.");
    if (expression instanceof AggregateExpression aggregate) {
      function(aggregate.aggregateFunction(), inAnyOrder);
      // Spark calls what depends on the order not deterministic, too.
      parts = java(aggregate.aggregateFunction().children());
      java(aggregate.filter().toList()).forEach(each -> expression(each, false));
    } else if (expression instanceof PlanExpression<?> of && of.plan() instanceof LogicalPlan plan) {
      plan(plan);
    } else if (!own && !expression.deterministic() && parts.stream().allMatch(Expression::deterministic)) {
      boolean python = expression instanceof PythonUDF;
      add(python ? "function" : "value", python ? ((PythonUDF) expression).name() : expression.prettyName());
    }
    boolean free = OF_ANY_ORDER.contains(expression.prettyName());
    parts.stream()
        .filter(each -> !(own && each instanceof SparkPartitionID))
        .forEach(each -> expression(each, free));
  }

  private void function(AggregateFunction function, boolean inAnyOrder) {
    if (function instanceof Sum || function instanceof Average) {
      DataType type = function.children().head().dataType();
      if (type.equals(DataTypes.DoubleType) || type.equals(DataTypes.FloatType)) {
        add("sum", function.prettyName());
      }
      return;
    }
    boolean free =
        (function instanceof CollectList || function instanceof CollectSet) && inAnyOrder
            || function instanceof MaxMinBy by && hasNoTies(by)
            || function instanceof Mode mode && mode.reverseOpt().isDefined()
            || function instanceof ListAgg list && !list.orderExpressions().isEmpty()
            || WITHOUT_ORDER.contains(function.prettyName());
    if (!free) {
      add("aggregate", function.prettyName());
    }
  }

  /** Returns whether rows of the same rank have the same value, since the value is part of the rank. */
  private static boolean hasNoTies(MaxMinBy by) {
    Expression rank = by.orderingExpr();
    return rank.semanticEquals(by.valueExpr())
        || rank instanceof CreateNamedStruct struct
            && java(struct.valExprs()).stream().anyMatch(each -> each.semanticEquals(by.valueExpr()));
  }

  private void add(String kind, String name) {
    found.add(kind + " " + name);
  }

  private static String names(List<Attribute> columns) {
    return columns.stream().map(Attribute::name).collect(Collectors.joining(", "));
  }

  private static <T> List<T> java(Seq<T> values) {
    return CollectionConverters.asJava(values);
  }
}
