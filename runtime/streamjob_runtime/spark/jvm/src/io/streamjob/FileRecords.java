package io.streamjob;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import scala.collection.IterableOnce;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Makes rows of the lines of files, or of whole files. An instance belongs to one task. */
public final class FileRecords extends AbstractFunction1<Row, IterableOnce<InternalRow>> implements Serializable {
  private static final long serialVersionUID = 1;

  private final FileDecoder decoder;
  private final int columns;
  private final LongAccumulator surplus;
  private String file;
  private long block = -1;

  private FileRecords(FileDecoder decoder, int columns, LongAccumulator surplus) {
    this.decoder = decoder;
    this.columns = columns;
    this.surplus = surplus;
  }

  /**
   * Returns rows with the fields of a record, or with nothing but the text of one that is broken and what is wrong with it,
   * in the two last columns.
   *
   * @param bytes a line, or a whole file.
   * @param file the path of the file.
   * @param block where the part of the file begins that a task reads.
   * @param decoder decodes it.
   * @param surplus counts how many more records there are than lines, or files.
   */
  public static Column of(Column bytes, Column file, Column block, FileDecoder decoder, LongAccumulator surplus) {
    StructType row =
        ((StructType) decoder.type()).add("text", DataTypes.BinaryType, true).add("error", DataTypes.StringType, true);
    List<Expression> read =
        List.of(ExpressionUtils.expression(bytes), ExpressionUtils.expression(file), ExpressionUtils.expression(block));
    return ExpressionUtils.column(
        new UserDefinedGenerator(
            row,
            new FileRecords(decoder, row.length(), surplus),
            CollectionConverters.asScala(read).toSeq()));
  }

  @Override
  public IterableOnce<InternalRow> apply(Row line) {
    byte[] bytes = line.getAs(0);
    if (!line.getString(1).equals(file) || line.getLong(2) != block) {
      file = line.getString(1);
      block = line.getLong(2);
      decoder.begin(block == 0);
    }
    surplus.add(-1L);
    return CollectionConverters.asScala(new Rows(bytes, columns, decoder.records(bytes), surplus));
  }

  /** The rows of records. */
  private record Rows(byte[] bytes, int columns, Iterator<FileDecoder.Decoded> records, LongAccumulator surplus)
      implements Iterator<InternalRow> {
    @Override
    public boolean hasNext() {
      return records.hasNext();
    }

    @Override
    public InternalRow next() {
      FileDecoder.Decoded read = records.next();
      surplus.add(1L);
      if (read.error() == null) {
        return new GenericInternalRow(Arrays.copyOf(((GenericInternalRow) read.value()).values(), columns));
      }
      Object[] broken = new Object[columns];
      broken[columns - 2] = read.text() == null ? bytes : read.text().getBytes(StandardCharsets.UTF_8);
      broken[columns - 1] = UTF8String.fromString(read.error());
      return new GenericInternalRow(broken);
    }
  }
}
