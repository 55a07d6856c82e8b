package io.streamjob.plans;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Parts of Spark's plans, made from Java. */
public final class Plans {
  private Plans() {}

  /** Returns a list as Scala's. */
  public static <T> Seq<T> seq(List<? extends T> list) {
    List<T> copy = new ArrayList<>(list);
    return CollectionConverters.asScala(copy).toList();
  }

  /** Returns an expression under a name and an id; its metadata are its own, unless some are given. */
  @SuppressWarnings("unchecked")
  public static Alias alias(Expression child, String name, ExprId id, Option<Metadata> metadata) {
    Seq<String> none = (Seq<String>) (Seq<?>) Nil$.MODULE$;
    return new Alias(child, name, id, none, metadata, none);
  }

  /**
   * Returns an expression with some of its parts replaced.
   *
   * @param expression the expression.
   * @param replacing returns what stands for a part, or null: then its own parts are looked at.
   */
  public static Expression replaced(Expression expression, UnaryOperator<Expression> replacing) {
    Expression other = replacing.apply(expression);
    return other != null ? other : expression.mapChildren(child -> replaced(child, replacing));
  }

  /** Returns an expression with other expressions in the place of some of its columns. */
  public static Expression replaced(Expression expression, Map<ExprId, Expression> columns) {
    return replaced(expression, part -> part instanceof Attribute column ? columns.get(column.exprId()) : null);
  }
}
