package io.streamjob;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decides whether the condition of a join lets a row find its own group alone, and that only if it has the group's highest
 * or lowest value.
 */
final class OwnGroup {
  private static final List<DataType> ORDERED =
      List.of(
          DataTypes.ByteType,
          DataTypes.ShortType,
          DataTypes.IntegerType,
          DataTypes.LongType,
          DataTypes.DateType,
          DataTypes.TimestampType,
          DataTypes.TimestampNTZType);

  private final TimeWindow window;
  private final Origins ofRows;
  private final Origins ofGroups;
  private final Origins ofResults;
  private final AttributeSet rows;
  private final AttributeSet groups;
  private final List<Expression> open;
  private Expression value;
  private boolean lowest;
  private boolean behindStart;
  private boolean beforeEnd;

  /**
   * Prepares to decide.
   *
   * @param window the window that is one of the keys; null if none is made there
   * @param keys the other keys
   * @param ofRows the origins of the columns of rows
   * @param ofGroups the origins of what is aggregated, in terms of the same columns
   * @param ofResults the origins of the columns of groups, in terms of keys and aggregates
   * @param rows the columns of rows
   * @param groups the columns of groups
   */
  OwnGroup(
      TimeWindow window,
      List<Expression> keys,
      Origins ofRows,
      Origins ofGroups,
      Origins ofResults,
      AttributeSet rows,
      AttributeSet groups) {
    this.window = window;
    this.open = new ArrayList<>(keys);
    this.ofRows = ofRows;
    this.ofGroups = ofGroups;
    this.ofResults = ofResults;
    this.rows = rows;
    this.groups = groups;
  }

  /** Returns whether that is certain for a condition. */
  boolean isCertain(Expression condition) {
    read(condition);
    return value != null && open.isEmpty() && (window == null || (behindStart && beforeEnd));
  }

  /** Returns the value that rows and groups have in common. */
  Expression value() {
    return value;
  }

  /** Returns whether the group has its lowest value, and not the highest one. */
  boolean lowest() {
    return lowest;
  }

  private void read(Expression condition) {
    if (condition instanceof And and) {
      read(and.left());
      read(and.right());
    } else if (condition instanceof RuntimeReplaceable replaceable) {
      read(replaceable.replacement());
    } else if (condition instanceof With with) {
      // BETWEEN names its operand, so that it is computed once.
      Map<Object, Expression> named = new HashMap<>();
      CollectionConverters.asJava(with.defs()).forEach(each -> named.put(each.id(), each.child()));
      read(inlined(with.child(), named));
    } else if (condition instanceof BinaryComparison comparison) {
      compare(comparison, true, comparison.left(), comparison.right());
      compare(comparison, false, comparison.right(), comparison.left());
    }
  }

  private static Expression inlined(Expression expression, Map<Object, Expression> named) {
    if (expression instanceof CommonExpressionRef name) {
      return named.getOrDefault(name.id(), expression);
    }
    return expression.mapChildren(each -> inlined(each, named));
  }

  private void compare(BinaryComparison comparison, boolean inOrder, Expression left, Expression right) {
    if (!left.references().subsetOf(rows) || !right.references().subsetOf(groups)) {
      return;
    }
    Expression row = ofRows.of(left);
    Expression group = ofResults.of(right);
    if (comparison instanceof EqualTo) {
      equal(row, group);
    } else if (window != null) {
      bound(comparison, inOrder, window.instant(row), window.instant(group));
    }
  }

  private void equal(Expression row, Expression group) {
    open.removeIf(key -> group.semanticEquals(key) && row.semanticEquals(ofGroups.of(key)));
    if (window != null && isWindow(row, group)) {
      behindStart = true;
      beforeEnd = true;
    }
    if (group instanceof AggregateExpression aggregate && !aggregate.isDistinct() && aggregate.filter().isEmpty()) {
      Expression function = aggregate.aggregateFunction();
      boolean extreme = function instanceof Max || function instanceof Min;
      if (extreme && isOrdered(row.dataType()) && row.semanticEquals(ofGroups.of(function.children().head()))) {
        value = row;
        lowest = function instanceof Min;
      }
    }
  }

  /** Returns whether a row's window, or one of its bounds, equals the group's. */
  private boolean isWindow(Expression row, Expression group) {
    if (row instanceof GetStructField mine && group instanceof GetStructField other) {
      return mine.ordinal() == other.ordinal() && isWindow(mine.child(), other.child());
    }
    return row instanceof CreateNamedStruct && row.semanticEquals(window.struct()) && group.semanticEquals(window.key());
  }

  private void bound(BinaryComparison by, boolean inOrder, TimeWindow.Instant row, TimeWindow.Instant group) {
    if (row == null || group == null || !row.ofTime() || group.ofTime()) {
      return;
    }
    // The row's time is at least, or at most, so many microseconds behind the start of the window.
    long us = group.us() - row.us();
    boolean more = by instanceof GreaterThan || by instanceof GreaterThanOrEqual;
    boolean less = by instanceof LessThan || by instanceof LessThanOrEqual;
    boolean strict = by instanceof GreaterThan || by instanceof LessThan;
    behindStart |= (inOrder ? more : less) && us + (strict ? 1 : 0) >= 0;
    beforeEnd |= (inOrder ? less : more) && us - (strict ? 1 : 0) < window.sizeUs();
  }

  private static boolean isOrdered(DataType type) {
    return ORDERED.contains(type) || type instanceof DecimalType;
  }
}
