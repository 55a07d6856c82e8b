package io.streamjob.avro;

import static org.apache.avro.file.DataFileConstants.SYNC_SIZE;

import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Arrays;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.file.FileReader;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.mapred.FsInput;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.avro.AvroFileFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.SupportsArchiveFormat$;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's format of Avro files under its name, {@code avro}, which Spark gives it in a module of its own only. Where that
 * module is on the class path, Spark prefers it.
 *
 * <p>A file whose end is missing is an error: Spark takes the blocks before it for all.
 */
public final class AvroFiles extends AvroFileFormat {
  private static final long serialVersionUID = 1L;

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReader(
      SparkSession session,
      StructType data,
      StructType partitions,
      StructType required,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration configuration) {
    Function1<PartitionedFile, Iterator<InternalRow>> reader =
        super.buildReader(session, data, partitions, required, filters, options, configuration);
    SerializableConfiguration conf = new SerializableConfiguration(configuration);
    return (Function1<PartitionedFile, Iterator<InternalRow>> & Serializable)
        file -> {
          try {
            checkEnd(file.toPath(), conf.value());
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
          return reader.apply(file);
        };
  }

  /** Throws if a file does not end with the marker that is behind its header and behind each block. */
  public static void checkEnd(Path path, Configuration conf) throws IOException {
    if (SupportsArchiveFormat$.MODULE$.isArchivePath(path)) {
      return;
    }
    byte[] first = new byte[SYNC_SIZE];
    byte[] last = new byte[SYNC_SIZE];
    try (FsInput input = new FsInput(path, conf);
        FileReader<Object> file = DataFileReader.openReader(input, new GenericDatumReader<>());
        FSDataInputStream bytes = path.getFileSystem(conf).open(path)) {
      bytes.readFully(((DataFileReader<Object>) file).previousSync() - SYNC_SIZE, first);
      bytes.readFully(input.length() - SYNC_SIZE, last);
    }
    if (!Arrays.equals(first, last)) {
      throw new EOFException("The end of the Avro file is missing");
    }
  }
}
