package io.streamjob.plans;

import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.IndexedSeq;

/**
 * Computes a struct of a row, and gives the error in its place if Spark raises one: {@code struct<value, error>}.
 *
 * <p>Spark must neither compute it twice nor compute a part of it elsewhere. It does not copy or move what it takes for
 * not deterministic, and looks for no common parts inside of what generates no code. The struct itself is computed by
 * generated code, inside of the {@code try}.
 */
final class Tried extends OneChild implements CodegenFallback {
  private static final long serialVersionUID = 1L;
  private static final String QUERY = "\n== ";

  private final StructType type;
  private transient UnsafeProjection computed;

  /** Tries an expression whose type is a struct. */
  public Tried(Expression child) {
    super(child);
    this.type = new StructType().add("value", child.dataType(), true).add("error", DataTypes.StringType, true);
  }

  @Override
  public Object eval(InternalRow input) {
    if (computed == null) {
      computed = UnsafeProjection$.MODULE$.create(child);
      computed.initialize(TaskContext.getPartitionId());
    }
    try {
      UnsafeRow row = computed.apply(input);
      Object value = row.isNullAt(0) ? null : row.getStruct(0, ((StructType) child.dataType()).size());
      return new GenericInternalRow(new Object[] {value, null});
    } catch (Exception error) {
      if (!isOfRow(error)) {
        throw error;
      }
      return new GenericInternalRow(new Object[] {null, UTF8String.fromString(text(error))});
    }
  }

  private static boolean isOfRow(Exception error) {
    return error instanceof SparkThrowable || error instanceof RuntimeException && !(error instanceof TaskKilledException);
  }

  /** Returns the message of an error, without the query that Spark adds to it. */
  private static String text(Exception error) {
    String message = String.valueOf(error.getMessage() == null ? error : error.getMessage());
    int query = message.indexOf(QUERY);
    return (query < 0 ? message : message.substring(0, query)).strip();
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.super.doGenCode(context, code);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new Tried(changed.head());
  }

  @Override
  public DataType dataType() {
    return type;
  }

  @Override
  public boolean nullable() {
    return false;
  }
}
