package io.streamjob;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.Ordering;

/**
 * Collects all rows of a group whose value is the highest, or the lowest: {@code max_by} and {@code min_by} without a
 * bound on the number of equal ones.
 *
 * <p>Rows without a value are left out. The result is an array of the rows, in no order; it is empty without any.
 */
public final class ExtremeRows extends TypedImperativeAggregate<ExtremeRows.Buffer> implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final List<String> NAMES =
      List.of("value", "row", "lowest", "mutableAggBufferOffset", "inputAggBufferOffset");

  private final Expression value;
  private final Expression row;
  private final boolean lowest;
  private final int mutableOffset;
  private final int inputOffset;
  private transient Ordering<Object> ordering;
  private transient UnsafeProjection projection;

  /** The rows found so far, each with its value before it; the value is null without any. */
  static final class Buffer {
    private final List<UnsafeRow> rows = new ArrayList<>();
    private Object value;
  }

  /** Collects rows, which are structs, by their values; the offsets are Spark's. */
  public ExtremeRows(Expression value, Expression row, boolean lowest, int mutableOffset, int inputOffset) {
    this.value = value;
    this.row = row;
    this.lowest = lowest;
    this.mutableOffset = mutableOffset;
    this.inputOffset = inputOffset;
  }

  @Override
  public Buffer createAggregationBuffer() {
    return new Buffer();
  }

  @Override
  public Buffer update(Buffer buffer, InternalRow input) {
    Object found = value.eval(input);
    if (found != null && isKept(buffer, found)) {
      if (projection == null) {
        projection = UnsafeProjection.create(children());
      }
      add(buffer, projection.apply(input).copy());
    }
    return buffer;
  }

  @Override
  public Buffer merge(Buffer buffer, Buffer other) {
    if (other.value != null && isKept(buffer, other.value)) {
      other.rows.forEach(each -> add(buffer, each));
    }
    return buffer;
  }

  /** Returns whether rows with a value belong to the result; removes those that it supersedes. */
  private boolean isKept(Buffer buffer, Object found) {
    if (buffer.value == null) {
      return true;
    }
    if (ordering == null) {
      ordering = TypeUtils.getInterpretedOrdering(value.dataType());
    }
    int compared = ordering.compare(found, buffer.value);
    boolean better = lowest ? compared < 0 : compared > 0;
    if (better) {
      buffer.rows.clear();
      buffer.value = null;
    }
    return better || compared == 0;
  }

  private void add(Buffer buffer, UnsafeRow kept) {
    buffer.rows.add(kept);
    if (buffer.value == null) {
      // The value of the input row is only valid until the next one.
      buffer.value = kept.get(0, value.dataType());
    }
  }

  @Override
  public Object eval(Buffer buffer) {
    int fields = ((StructType) row.dataType()).size();
    return new GenericArrayData(buffer.rows.stream().map(each -> each.getStruct(1, fields)).toArray());
  }

  @Override
  public byte[] serialize(Buffer buffer) {
    int size = buffer.rows.stream().mapToInt(each -> Integer.BYTES + each.getSizeInBytes()).sum();
    ByteBuffer bytes = ByteBuffer.allocate(size);
    for (UnsafeRow each : buffer.rows) {
      bytes.putInt(each.getSizeInBytes()).put(each.getBytes());
    }
    return bytes.array();
  }

  @Override
  public Buffer deserialize(byte[] stored) {
    Buffer buffer = new Buffer();
    ByteBuffer bytes = ByteBuffer.wrap(stored);
    while (bytes.hasRemaining()) {
      byte[] each = new byte[bytes.getInt()];
      bytes.get(each);
      UnsafeRow kept = new UnsafeRow(2);
      kept.pointTo(each, each.length);
      add(buffer, kept);
    }
    return buffer;
  }

  @Override
  public DataType dataType() {
    return new ArrayType(row.dataType(), false);
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(value, row)).toSeq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new ExtremeRows(changed.apply(0), changed.apply(1), lowest, mutableOffset, inputOffset);
  }

  @Override
  public int mutableAggBufferOffset() {
    return mutableOffset;
  }

  @Override
  public ImperativeAggregate withNewMutableAggBufferOffset(int offset) {
    return new ExtremeRows(value, row, lowest, offset, inputOffset);
  }

  @Override
  public int inputAggBufferOffset() {
    return inputOffset;
  }

  @Override
  public ImperativeAggregate withNewInputAggBufferOffset(int offset) {
    return new ExtremeRows(value, row, lowest, mutableOffset, offset);
  }

  @Override
  public String prettyName() {
    return lowest ? "lowest_rows" : "highest_rows";
  }

  @Override
  public int productArity() {
    return NAMES.size();
  }

  @Override
  public String productElementName(int index) {
    return NAMES.get(index);
  }

  @Override
  public Object productElement(int index) {
    return List.<Object>of(value, row, lowest, mutableOffset, inputOffset).get(index);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof ExtremeRows;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ExtremeRows rows
        && rows.value.equals(value)
        && rows.row.equals(row)
        && rows.lowest == lowest
        && rows.mutableOffset == mutableOffset
        && rows.inputOffset == inputOffset;
  }

  @Override
  public int hashCode() {
    return java.util.Objects.hash(value, row, lowest, mutableOffset, inputOffset);
  }
}
