package io.streamjob.plans;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An expression around one other that Spark computes once for each row, where it stands: Spark neither copies nor moves
 * what it takes for not deterministic.
 */
public abstract class OneChild extends Expression implements Serializable {
  private static final long serialVersionUID = 1L;

  protected final Expression child;

  protected OneChild(Expression child) {
    this.child = child;
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public boolean foldable() {
    return false;
  }

  @Override
  public boolean deterministic() {
    return false;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int number) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }

  @Override
  public boolean equals(Object other) {
    return other != null && getClass() == other.getClass() && child.equals(((OneChild) other).child);
  }

  @Override
  public int hashCode() {
    return 31 * getClass().getName().hashCode() + child.hashCode();
  }
}
