package io.streamjob;

import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Columns that decoders and encoders compute, in the Java code that Spark generates. */
public final class Codecs {
  private Codecs() {}

  /** Returns a struct with the decoded bytes as its field `value`; NULL for NULL, and for bytes of another form. */
  public static Column decoded(Column bytes, RecordDecoder decoder) {
    DataType type = new StructType().add("value", decoder.type(), true);
    return call(decoder, RecordDecoder.class, "decode", bytes, type);
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
