package io.streamjob.records;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Columns that decoders and encoders compute, in the Java code that Spark generates. */
public final class Codecs {
  private Codecs() {}

  /** Decodes bytes to a row with the fields of {@link #decoded}, until the next call. */
  public static final class Decoding implements Serializable {
    private static final long serialVersionUID = 1;

    private final RecordDecoder decoder;
    private transient GenericInternalRow row;

    private Decoding(RecordDecoder decoder) {
      this.decoder = decoder;
    }

    /** Returns the row of a record. */
    public InternalRow of(byte[] bytes) {
      if (row == null) {
        row = new GenericInternalRow(2);
      }
      try {
        row.update(0, decoder.decode(bytes));
        row.update(1, null);
      } catch (BrokenRecord broken) {
        row.update(0, null);
        row.update(1, UTF8String.fromString(broken.getMessage()));
      }
      return row;
    }

    @Override
    public String toString() {
      return decoder.toString();
    }
  }

  /** Returns a struct with the decoded bytes as `value`, or what is wrong with them as `error`; NULL for NULL. */
  public static Column decoded(Column bytes, RecordDecoder decoder) {
    DataType type = new StructType().add("value", decoder.type(), true).add("error", DataTypes.StringType, true);
    return call(new Decoding(decoder), Decoding.class, "of", bytes, type);
  }

  /** Returns the bytes of the only field of a struct. */
  public static Column encoded(Column struct, RecordEncoder encoder) {
    return call(encoder, RecordEncoder.class, "encode", struct, BinaryType$.MODULE$);
  }

  private static Column call(Object target, Class<?> face, String method, Column argument, DataType type) {
    Expression object = new Literal(target, new ObjectType(face));
    Seq<Expression> arguments = CollectionConverters.asScala(List.of(ExpressionUtils.expression(argument))).toSeq();
    Seq<AbstractDataType> types = CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq();
    return ExpressionUtils.column(new Invoke(object, method, type, arguments, types, true, true, true));
  }
}
