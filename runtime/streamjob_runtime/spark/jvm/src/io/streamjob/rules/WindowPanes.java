package io.streamjob.rules;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.HyperLogLogPlusPlus;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.expressions.aggregate.PartialMerge$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.HashAggregateExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets the first step of an aggregation over sliding windows aggregate each row once, instead of once for each window.
 *
 * <p>Spark repeats each row for each of its windows, and aggregates the copies. All rows of a pane, the time between two
 * starts of windows, are in the same windows. So the rows of each pane are aggregated first, and these results are
 * repeated and merged ("No pane, no gain", Li et al., SIGMOD Record 2005; Flink calls the panes slices). What is shuffled
 * and stored in the state is the same.
 *
 * <p>This is exact for any expressions: the pane is a part of the expressions that compute the windows, and nothing else
 * in these depends on the row. Only functions whose result does not depend on the order of the rows are computed so.
 */
final class WindowPanes extends Rule<SparkPlan> {
  /** Turns the rule off for a session if it is `false`. */
  private static final String SWITCH = "spark.streamjob.windowPanes";

  /** With two windows for each row, another step costs more than it saves where few rows share a pane. */
  private static final int FEWEST_WINDOWS = 3;

  private static final Set<DataType> INTEGERS =
      Set.of(DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return Boolean.parseBoolean(conf().getConfString(SWITCH, "true")) ? rewritten(plan) : plan;
  }

  private static SparkPlan rewritten(SparkPlan plan) {
    SparkPlan result = plan.mapChildren(WindowPanes::rewritten);
    return result instanceof HashAggregateExec && isFirst((HashAggregateExec) result)
        ? better((HashAggregateExec) result)
        : result;
  }

  /** Whether a step reads rows and is followed by a shuffle. */
  private static boolean isFirst(HashAggregateExec aggregate) {
    for (AggregateExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      if (!each.mode().equals(Partial$.MODULE$)) {
        return false;
      }
    }
    // Without functions, the steps of an aggregation differ only in what they require of their rows.
    return aggregate.requiredChildDistributionExpressions().isEmpty();
  }

  /** Returns a plan with the same output as a first step, or the step itself. */
  private static SparkPlan better(HashAggregateExec aggregate) {
    if (aggregate.aggregateExpressions().isEmpty() || !hasNoOrder(aggregate)) {
      return aggregate;
    }
    Repeated rows = repeated(aggregate.child());
    if (rows == null || rows.expand().projections().size() < FEWEST_WINDOWS) {
      return aggregate;
    }
    Windows windows = windows(aggregate, rows);
    return windows == null ? aggregate : byPanes(aggregate, rows, windows);
  }

  private static boolean hasNoOrder(HashAggregateExec aggregate) {
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .allMatch(each -> !each.isDistinct() && each.deterministic() && hasNoOrder(each.aggregateFunction()));
  }

  /** Returns whether rows in any order, aggregated in any groups first, give an equal result. */
  private static boolean hasNoOrder(AggregateFunction function) {
    if (function instanceof Sum) {
      DataType type = ((Sum) function).child().dataType();
      return INTEGERS.contains(type) || type instanceof DecimalType;
    }
    if (function instanceof Average) {
      // It adds integers as doubles, which hold sums of all but the longest ones exactly.
      DataType type = ((Average) function).child().dataType();
      return (INTEGERS.contains(type) && !type.equals(DataTypes.LongType)) || type instanceof DecimalType;
    }
    return function instanceof Count
        || function instanceof Min
        || function instanceof Max
        || function instanceof HyperLogLogPlusPlus;
  }

  /**
   * Rows that a plan repeats, one for each projection.
   *
   * @param expand repeats them.
   * @param columns all columns of the plan, as expressions over the columns of the repeated rows.
   */
  private record Repeated(ExpandExec expand, Map<ExprId, Expression> columns) {}

  /** Returns the repeated rows of a plan; null if it is another plan. */
  private static Repeated repeated(SparkPlan plan) {
    Map<ExprId, Expression> columns = new HashMap<>();
    if (plan instanceof ExpandExec) {
      for (Attribute each : CollectionConverters.asJava(plan.output())) {
        columns.put(each.exprId(), (Expression) each);
      }
      return new Repeated((ExpandExec) plan, columns);
    }
    Repeated below = plan instanceof ProjectExec ? repeated(((ProjectExec) plan).child()) : null;
    if (below == null) {
      return null;
    }
    for (NamedExpression each : CollectionConverters.asJava(((ProjectExec) plan).projectList())) {
      Expression value = each instanceof Alias ? ((Alias) each).child() : (Expression) each;
      if (!value.deterministic()) {
        return null;
      }
      columns.put(each.exprId(), Plans.replaced(value, below.columns()));
    }
    return new Repeated(below.expand(), columns);
  }

  /**
   * The windows of rows.
   *
   * @param rows the columns that keys and functions read, of rows that are not repeated, and the pane as the last one.
   * @param pane the pane.
   * @param values for each window of a row, the values of the keys that tell windows apart, by their ids.
   */
  private record Windows(List<NamedExpression> rows, Attribute pane, List<Map<ExprId, Expression>> values) {}

  /** Returns the windows by which rows are grouped; null if these are no windows, or something else depends on them. */
  private static Windows windows(HashAggregateExec aggregate, Repeated repeated) {
    ExpandExec expand = repeated.expand();
    List<Map<ExprId, Expression>> copies = new ArrayList<>();
    List<Map<ExprId, Expression>> values = new ArrayList<>();
    for (Seq<Expression> projection : CollectionConverters.asJava(expand.projections())) {
      copies.add(copy(expand, projection));
      values.add(new HashMap<>());
    }
    Map<ExprId, Expression> same = same(copies);
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(aggregate.child().output())) {
      Expression value = repeated.columns().get(column.exprId());
      Expression before = isWithin(value, same.keySet()) ? Plans.replaced(value, same) : null;
      if (before != null) {
        columns.add(
            before instanceof Attribute && ((Attribute) before).exprId().equals(column.exprId())
                ? (NamedExpression) before
                : Plans.alias(before, column.name(), column.exprId(), Option.apply(column.metadata())));
      } else if (isOnlyAKey(column, aggregate)) {
        for (int window = 0; window < values.size(); window++) {
          Expression computed = Plans.replaced(value, copies.get(window));
          if (!computed.deterministic()) {
            return null;
          }
          values.get(window).put(column.exprId(), computed);
        }
      } else if (isRead(column, aggregate)) {
        return null;
      }
    }
    Expression pane = values.get(0).isEmpty() ? null : pane(values);
    if (pane == null) {
      return null;
    }
    AttributeReference named = attribute("pane", pane);
    columns.add(Plans.alias(pane, named.name(), named.exprId(), Option.empty()));
    for (Map<ExprId, Expression> each : values) {
      each.replaceAll((key, value) -> within(value, pane, named));
    }
    return new Windows(columns, named, values);
  }

  /** Returns the columns that are the same in all copies of a row, by their values before they are repeated. */
  private static Map<ExprId, Expression> same(List<Map<ExprId, Expression>> copies) {
    Map<ExprId, Expression> same = new HashMap<>(copies.get(0));
    for (Map<ExprId, Expression> other : copies) {
      same.entrySet().removeIf(each -> !each.getValue().semanticEquals(other.get(each.getKey())));
    }
    return same;
  }

  /** Returns the columns of a copy of a row, by their values before it is repeated. */
  private static Map<ExprId, Expression> copy(ExpandExec expand, Seq<Expression> projection) {
    List<Expression> values = CollectionConverters.asJava(projection);
    List<Attribute> output = CollectionConverters.asJava(expand.output());
    Map<ExprId, Expression> copy = new HashMap<>();
    for (int column = 0; column < output.size(); column++) {
      copy.put(output.get(column).exprId(), values.get(column));
    }
    return copy;
  }

  private static boolean isWithin(Expression expression, Set<ExprId> columns) {
    return CollectionConverters.asJava(expression.references().toSeq()).stream()
        .allMatch(each -> columns.contains(each.exprId()));
  }

  private static boolean isOnlyAKey(Attribute column, HashAggregateExec aggregate) {
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
            .noneMatch(each -> each.references().contains(column))
        && CollectionConverters.asJava(aggregate.groupingExpressions()).stream()
            .allMatch(each -> each instanceof Attribute || !((Expression) each).references().contains(column))
        && isRead(column, aggregate);
  }

  private static boolean isRead(Attribute column, HashAggregateExec aggregate) {
    return aggregate.references().contains(column);
  }

  /** Returns the largest expression with a remainder that is all by which a row decides on the values; or null. */
  private static Expression pane(List<Map<ExprId, Expression>> values) {
    List<Expression> found = new ArrayList<>();
    for (Expression value : values.get(0).values()) {
      collect(value, found);
    }
    for (Expression candidate : found) {
      AttributeReference pane = attribute("pane", candidate);
      boolean decides =
          values.stream()
              .flatMap(each -> each.values().stream())
              .allMatch(each -> isWithin(within(each, candidate, pane), Set.of(pane.exprId())));
      if (decides) {
        return candidate;
      }
    }
    return null;
  }

  /** Adds an expression and its parts, as far as they have a remainder within, to a list, larger ones first. */
  private static void collect(Expression expression, List<Expression> found) {
    if (expression.find(part -> part instanceof Remainder).isDefined()) {
      found.add(expression);
      expression.children().foreach(
          child -> {
            collect(child, found);
            return null;
          });
    }
  }

  private static Expression within(Expression expression, Expression part, AttributeReference name) {
    return Plans.replaced(expression, each -> each.semanticEquals(part) ? name : null);
  }

  private static AttributeReference attribute(String name, Expression value) {
    return new AttributeReference(
        name, value.dataType(), value.nullable(), Metadata.empty(), NamedExpression.newExprId(), Plans.seq(List.of()));
  }

  private static SparkPlan byPanes(HashAggregateExec aggregate, Repeated repeated, Windows windows) {
    Set<ExprId> ofWindows = windows.values().get(0).keySet();
    List<NamedExpression> keys = new ArrayList<>();
    List<Attribute> known = new ArrayList<>();
    List<Attribute> merged = new ArrayList<>();
    List<Attribute> repeating = new ArrayList<>();
    for (NamedExpression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
      merged.add(key.toAttribute());
      if (ofWindows.contains(key.exprId())) {
        repeating.add(key.toAttribute());
      } else {
        keys.add(key);
        known.add(key.toAttribute());
      }
    }
    keys.add((NamedExpression) windows.pane());
    List<Attribute> buffers = new ArrayList<>();
    List<AggregateExpression> merging = new ArrayList<>();
    List<Attribute> results = new ArrayList<>();
    for (AggregateExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      AggregateFunction function = each.aggregateFunction();
      buffers.addAll(CollectionConverters.asJava(function.inputAggBufferAttributes()));
      // The rows have been filtered when they were aggregated.
      merging.add(each.copy(function, PartialMerge$.MODULE$, each.isDistinct(), Option.empty(), each.resultId()));
      results.add(each.resultAttribute());
    }
    SparkPlan ofPanes =
        step(
            aggregate,
            keys,
            CollectionConverters.asJava(aggregate.aggregateExpressions()),
            CollectionConverters.asJava(aggregate.aggregateAttributes()),
            aggregate.initialInputBufferOffset(),
            joined(known, List.of(windows.pane()), buffers),
            new ProjectExec(Plans.seq(windows.rows()), repeated.expand().child()));
    List<Seq<Expression>> projections = new ArrayList<>();
    for (Map<ExprId, Expression> values : windows.values()) {
      List<Expression> projection = new ArrayList<>();
      known.forEach(each -> projection.add((Expression) each));
      repeating.forEach(each -> projection.add(values.get(each.exprId())));
      buffers.forEach(each -> projection.add((Expression) each));
      projections.add(Plans.seq(projection));
    }
    SparkPlan ofWindow =
        new ExpandExec(
            Plans.seq(projections),
            Plans.seq(joined(known, repeating, buffers)),
            ofPanes,
            repeated.expand().useSingleTask());
    return step(
        aggregate,
        merged,
        merging,
        results,
        merged.size(),
        CollectionConverters.asJava(aggregate.resultExpressions()),
        ofWindow);
  }

  private static HashAggregateExec step(
      HashAggregateExec aggregate,
      List<? extends NamedExpression> keys,
      List<AggregateExpression> functions,
      List<Attribute> attributes,
      int offset,
      List<? extends NamedExpression> output,
      SparkPlan rows) {
    return aggregate.copy(
        aggregate.requiredChildDistributionExpressions(),
        aggregate.isStreaming(),
        aggregate.numShufflePartitions(),
        Plans.seq(keys),
        Plans.seq(functions),
        Plans.seq(attributes),
        offset,
        Plans.seq(output),
        rows);
  }

  private static List<Attribute> joined(List<Attribute> first, List<Attribute> second, List<Attribute> third) {
    List<Attribute> all = new ArrayList<>(first);
    all.addAll(second);
    all.addAll(third);
    return all;
  }
}
