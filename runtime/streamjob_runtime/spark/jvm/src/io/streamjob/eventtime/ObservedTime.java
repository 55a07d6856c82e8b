package io.streamjob.eventtime;

import io.streamjob.plans.Plans;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The event time of a row, of which {@link ObservedTimes} takes note.
 *
 * <p>The number of the partition is not deterministic for Spark, and so this is not: Spark computes it once for each
 * row, where it stands, also for a row that a later filter drops.
 */
public final class ObservedTime extends Expression implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression time;
  private final Expression now;
  private final Expression partition;
  private final ObservedTimes times;

  private ObservedTime(Expression time, Expression now, Expression partition, ObservedTimes times) {
    this.time = time;
    this.now = now;
    this.partition = partition;
    this.times = times;
  }

  static Column of(Column time, Column now, Column partition, ObservedTimes times) {
    return ExpressionUtils.column(
        new ObservedTime(
            ExpressionUtils.expression(time),
            ExpressionUtils.expression(now),
            ExpressionUtils.expression(partition),
            times));
  }

  boolean isIn(ObservedTimes others) {
    return times == others;
  }

  @Override
  public Object eval(InternalRow input) {
    Object value = time.eval(input);
    if (value != null) {
      times.see((Integer) partition.eval(input), (Long) value, (Long) now.eval(input));
    }
    return value;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode value = time.genCode(context);
    // As a literal it would be in the code, which Spark would then compile for each batch.
    String clock = context.addReferenceObj("now", now.eval(null), "Long");
    ExprCode number = partition.genCode(context);
    String seen = context.addReferenceObj("times", times, ObservedTimes.class.getName());
    Block see =
        new CodeBlock(
            Plans.seq(
                List.of(
                    String.format(
                        "if (!%s) { %s.see(%s, %s, %s); }\n",
                        value.isNull(), seen, number.value(), value.value(), clock))),
            Plans.seq(List.of()));
    Block all = value.code().$plus(number.code()).$plus(see);
    return code.copy(all, value.isNull(), value.value());
  }

  @Override
  public Seq<Expression> children() {
    return Plans.seq(List.of(time, now, partition));
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new ObservedTime(changed.apply(0), changed.apply(1), changed.apply(2), times);
  }

  @Override
  public DataType dataType() {
    return time.dataType();
  }

  @Override
  public boolean nullable() {
    return time.nullable();
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int number) {
    return children().apply(number);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof ObservedTime;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ObservedTime that && times == that.times && children().equals(that.children());
  }

  @Override
  public int hashCode() {
    return Objects.hash(children(), System.identityHashCode(times));
  }
}
