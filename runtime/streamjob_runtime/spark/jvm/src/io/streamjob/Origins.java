package io.streamjob;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The expressions that columns are computed by, in terms of other columns. */
final class Origins {
  private final Map<ExprId, Expression> made = new HashMap<>();

  /** Adds the columns that a node computes; those that it passes on need no entry. */
  void add(Seq<NamedExpression> columns) {
    for (NamedExpression each : CollectionConverters.asJava(columns)) {
      if (each instanceof Alias alias) {
        made.put(alias.exprId(), alias.child());
      }
    }
  }

  /** Lets a column stand for another one. */
  void add(Attribute column, Expression origin) {
    made.put(column.exprId(), origin);
  }

  /** Returns whether the same rows always give the same columns. */
  boolean deterministic() {
    return made.values().stream().allMatch(Expression::deterministic);
  }

  /** Returns an expression in terms of the columns that have no entry. */
  Expression of(Expression expression) {
    if (expression instanceof Attribute column) {
      Expression origin = made.get(column.exprId());
      return origin == null ? expression : of(origin);
    }
    return expression.mapChildren(this::of);
  }
}
