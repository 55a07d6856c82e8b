package io.streamjob.text;

import io.streamjob.plans.OneChild;
import io.streamjob.plans.Plans;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import scala.Enumeration;
import scala.collection.IterableOnce;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes rows of the lines of files, or of whole files: those of the decoder, with the text of a broken record, what is
 * wrong with it, and its file in three further columns. For a header that does not fit the schema the text is NULL.
 */
public final class FileRecords extends OneChild implements Generator {
  private static final long serialVersionUID = 1;

  private final Reader reader;

  private FileRecords(Expression bytes, Reader reader) {
    super(bytes);
    this.reader = reader;
  }

  /**
   * Returns rows with the fields of a record, or with nothing but the three columns about one that is broken.
   *
   * @param bytes a line, or a whole file.
   * @param decoder decodes it.
   * @param surplus counts how many more records there are than lines, or files.
   */
  public static Column of(Column bytes, FileDecoder decoder, LongAccumulator surplus) {
    return ExpressionUtils.column(new FileRecords(ExpressionUtils.expression(bytes), new Reader(decoder, surplus)));
  }

  /** Reads the records of a task. */
  public static final class Reader implements Serializable {
    private static final long serialVersionUID = 1;
    private static final int FURTHER = 3;

    private final FileDecoder decoder;
    private final StructType type;
    private final LongAccumulator surplus;
    private transient UTF8String file;

    private Reader(FileDecoder decoder, LongAccumulator surplus) {
      this.decoder = decoder;
      this.type =
          ((StructType) decoder.type())
              .add("text", DataTypes.BinaryType, true)
              .add("error", DataTypes.StringType, true)
              .add("file", DataTypes.StringType, true);
      this.surplus = surplus;
    }

    /**
     * Returns the rows of a line of the file that the task reads at the moment, or of the whole file; a row of NULLs for
     * null, which stands for a damaged file.
     */
    public IterableOnce<InternalRow> rows(byte[] bytes) {
      if (bytes == null) {
        return CollectionConverters.asScala(List.<InternalRow>of(new GenericInternalRow(type.length())).iterator());
      }
      UTF8String current = InputFileBlockHolder.getInputFilePath();
      // Spark makes a new text for each part of a file.
      if (current != file) {
        file = current;
        decoder.begin(InputFileBlockHolder.getStartOffset() == 0);
      }
      surplus.add(-1L);
      return CollectionConverters.asScala(new Rows(bytes, decoder.records(bytes)));
    }

    private final class Rows implements Iterator<InternalRow> {
      private final byte[] bytes;
      private final Iterator<FileDecoder.Decoded> records;

      Rows(byte[] bytes, Iterator<FileDecoder.Decoded> records) {
        this.bytes = bytes;
        this.records = records;
      }

      @Override
      public boolean hasNext() {
        return records.hasNext();
      }

      @Override
      public InternalRow next() {
        FileDecoder.Decoded read = records.next();
        surplus.add(1L);
        int columns = type.length();
        if (read.error() == null) {
          return new GenericInternalRow(Arrays.copyOf(((GenericInternalRow) read.value()).values(), columns));
        }
        Object[] broken = new Object[columns];
        if (!read.isHeader()) {
          broken[columns - FURTHER] = read.text() == null ? bytes : read.text().getBytes(StandardCharsets.UTF_8);
        }
        broken[columns - 2] = UTF8String.fromString(read.error());
        broken[columns - 1] = file;
        return new GenericInternalRow(broken);
      }
    }
  }

  @Override
  public IterableOnce<InternalRow> eval(InternalRow input) {
    return reader.rows((byte[]) child.eval(input));
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode line = child.genCode(context);
    String rows = context.addReferenceObj("records", reader, Reader.class.getCanonicalName());
    String call = "scala.collection.IterableOnce %s = %s.rows(%s);\n".formatted(code.value(), rows, line.value());
    Block made = new CodeBlock(Plans.seq(List.of(call)), Plans.seq(List.of()));
    return code.copy(line.code().$plus(made), FalseLiteral$.MODULE$, code.value());
  }

  @Override
  public StructType elementSchema() {
    return reader.type;
  }

  @Override
  public DataType dataType() {
    return new ArrayType(elementSchema(), true);
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public Seq<Enumeration.Value> nodePatterns() {
    return Plans.seq(List.of(TreePattern.GENERATOR()));
  }

  /** Scala's trait would set the field of its value here. */
  @Override
  public void org$apache$spark$sql$catalyst$expressions$Generator$_setter_$nodePatterns_$eq(
      Seq<Enumeration.Value> patterns) {}

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new FileRecords(changed.head(), reader);
  }
}
