package io.streamjob.plans;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.IndexedSeq;

/**
 * Computes an expression once for each row, where it stands.
 *
 * <p>Spark moves a filter below the columns that it is about, and computes them twice then; and it joins filters, of
 * which the later one may drop a row first. It does neither with what it takes for not deterministic. This costs nothing:
 * the generated code is that of the expression.
 */
public final class Once extends OneChild {
  private static final long serialVersionUID = 1L;

  private Once(Expression child) {
    super(child);
  }

  /** Returns a column that Spark computes once. */
  public static Column of(Column column) {
    return ExpressionUtils.column(new Once(ExpressionUtils.expression(column)));
  }

  @Override
  public Object eval(InternalRow input) {
    return child.eval(input);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode made = child.genCode(context);
    return code.copy(made.code(), made.isNull(), made.value());
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new Once(changed.head());
  }

  @Override
  public DataType dataType() {
    return child.dataType();
  }

  @Override
  public boolean nullable() {
    return child.nullable();
  }
}
