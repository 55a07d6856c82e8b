package io.streamjob;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.TimestampAddInterval;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.CalendarInterval;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A tumbling window that rows are grouped by, as Spark makes it of {@code window(time, size)}.
 *
 * @param key the grouping column
 * @param struct the window of a row
 * @param time the time of a row
 * @param sizeUs its length in microseconds
 */
record TimeWindow(AttributeReference key, CreateNamedStruct struct, Expression time, long sizeUs) {
  private static final String MARK = "spark.timeWindow";
  private static final long DAY_US = 86_400_000_000L;

  /** An instant, as so many microseconds behind a row's time, or behind the start of its window. */
  record Instant(boolean ofTime, long us) {
    Instant plus(long more) {
      return new Instant(ofTime, Math.addExact(us, more));
    }
  }

  /** Returns the window of a grouping column; null if it is none, or if a row is in several. */
  static TimeWindow of(AttributeReference key, Origins origins) {
    if (!key.metadata().contains(MARK) || !(origins.of(key) instanceof CreateNamedStruct struct)) {
      return null;
    }
    List<Expression> times = new ArrayList<>();
    Expression atZero = atZero(struct, times);
    Expression time = times.isEmpty() ? null : times.get(0);
    if (time == null || !times.stream().allMatch(time::semanticEquals) || !atZero.references().isEmpty()) {
      return null;
    }
    List<Expression> bounds = CollectionConverters.asJava(((CreateNamedStruct) atZero).valExprs());
    return new TimeWindow(key, struct, time, (long) bounds.get(1).eval(null) - (long) bounds.get(0).eval(null));
  }

  /** Returns an expression for the time 0, and collects the expressions of the time. */
  private static Expression atZero(Expression expression, List<Expression> times) {
    if (expression instanceof PreciseTimestampConversion number && number.toType().equals(DataTypes.LongType)) {
      times.add(number.child());
      return Literal.create(0L, DataTypes.LongType);
    }
    return expression.mapChildren(each -> atZero(each, times));
  }

  /** Returns the instant that an expression of rows and windows stands for; null if that is not certain. */
  Instant instant(Expression expression) {
    if (expression.semanticEquals(time)) {
      return new Instant(true, 0);
    }
    if (expression instanceof GetStructField field && field.child().semanticEquals(key)) {
      return new Instant(false, field.ordinal() == 0 ? 0 : sizeUs);
    }
    if (expression instanceof PreciseTimestampConversion same) {
      return instant(same.child());
    }
    if (expression instanceof Cast cast && cast.dataType().equals(cast.child().dataType())) {
      return instant(cast.child());
    }
    if (expression instanceof RuntimeReplaceable replaceable) {
      return instant(replaceable.replacement());
    }
    if (expression instanceof Add add) {
      return moved(add.left(), add.right(), 1);
    }
    if (expression instanceof Subtract subtract) {
      return moved(subtract.left(), subtract.right(), -1);
    }
    return expression instanceof TimestampAddInterval add ? moved(add.start(), add.interval(), 1) : null;
  }

  private Instant moved(Expression from, Expression by, int sign) {
    Instant instant = by.foldable() ? instant(from) : null;
    Long us = instant == null ? null : microseconds(by.eval(null), by.dataType());
    return us == null ? null : instant.plus(sign * us);
  }

  /** Returns the length of an interval that is the same in any time zone; null of another one. */
  private static Long microseconds(Object value, DataType type) {
    if (value instanceof CalendarInterval interval) {
      return interval.months == 0 && interval.days == 0 ? interval.microseconds : null;
    }
    boolean known = value instanceof Long us && (type.equals(DataTypes.LongType) || Math.abs(us) < DAY_US);
    return known ? (Long) value : null;
  }
}
