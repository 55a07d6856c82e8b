package io.streamjob.joins;

import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.catalyst.analysis.GetColumnByOrdinal;
import org.apache.spark.sql.catalyst.analysis.UnresolvedExtractValue;
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.JavaBeanEncoder;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.NewInstance;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * Encodes a record of Java as a row with a column for each of its fields, by name.
 *
 * <p>Other than with {@code Encoders.row}, nested rows and arrays stay in Spark's own form: they are copied as bytes
 * instead of being taken apart and built again, value by value.
 */
final class RecordFields {
  private RecordFields() {}

  /**
   * Returns the encoder of a record.
   *
   * @param record a public record
   * @param types the types of its fields, in their order
   */
  static <T> Encoder<T> encoder(Class<T> record, DataType... types) {
    RecordComponent[] fields = record.getRecordComponents();
    StructType columns = new StructType();
    for (int index = 0; index < fields.length; index++) {
      columns = columns.add(fields[index].getName(), types[index]);
    }
    Expression object = new BoundReference(0, new ObjectType(record), false);
    Expression row = new GetColumnByOrdinal(0, columns);
    List<Expression> written = new ArrayList<>();
    List<Expression> read = new ArrayList<>();
    for (int index = 0; index < fields.length; index++) {
      Literal name = name(fields[index].getName());
      boolean nullable = !fields[index].getType().isPrimitive();
      written.add(name);
      written.add(new Invoke(object, fields[index].getName(), types[index], none(), none(), true, nullable, true));
      read.add(new UnresolvedExtractValue(row, name));
    }
    return encoder(
        record,
        written,
        new NewInstance(record, scala(read), none(), false, new ObjectType(record), Option.empty()));
  }

  /**
   * Returns an encoder of a record whose fields are rows, that can only write: it has the columns of these rows.
   *
   * <p>Spark 4.3 must not see the rows themselves there: if a query reads some of their columns only, it takes others.
   *
   * @param record a public record
   * @param types the types of the rows, in their order
   */
  static <T> Encoder<T> spread(Class<T> record, StructType... types) {
    Expression object = new BoundReference(0, new ObjectType(record), false);
    List<Expression> written = new ArrayList<>();
    for (int index = 0; index < types.length; index++) {
      String field = record.getRecordComponents()[index].getName();
      for (int column = 0; column < types[index].length(); column++) {
        Expression row = new Invoke(object, field, types[index], none(), none(), true, true, true);
        written.add(name(types[index].fields()[column].name()));
        written.add(new GetStructField(row, column, Option.empty()));
      }
    }
    return encoder(record, written, Literal.create(null, new ObjectType(record)));
  }

  private static <T> Encoder<T> encoder(Class<T> record, List<Expression> written, Expression read) {
    ClassTag<T> type = ClassTag.apply(record);
    return new ExpressionEncoder<>(new JavaBeanEncoder<>(type, none()), new CreateNamedStruct(scala(written)), read);
  }

  private static Literal name(String text) {
    return Literal.create(UTF8String.fromString(text), DataTypes.StringType);
  }

  private static <E> Seq<E> none() {
    return scala(List.of());
  }

  private static <E> Seq<E> scala(List<E> values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
