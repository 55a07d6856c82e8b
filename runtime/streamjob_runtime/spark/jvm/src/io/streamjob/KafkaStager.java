package io.streamjob;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.Utils;

/** Writes a batch of records for Kafka into files, one for each of the tasks that compute it. */
public final class KafkaStager {
  private static final int TOPIC = 0;
  private static final int PARTITION = 1;
  private static final int TIMESTAMP = 2;
  private static final int KEY = 3;
  private static final int VALUE = 4;
  private static final int HEADERS = 5;

  // The maximum overhead of the client: a batch around one record, and a record without key, value and headers.
  private static final int OVERHEAD = 61 + 21;
  private static final int HEADER_OVERHEAD = 10;

  private KafkaStager() {}

  /**
   * Returns a frame whose tasks write the rows of a batch, each its own into a file; one row for each task with rows.
   *
   * <p>The columns are {@code file}, a local file of the task; {@code content}, instead of the file if that is small;
   * {@code records}, how many there are; and {@code refusal}, why a row is refused.
   *
   * @param frame topic string, partition int, timestamp bigint (milliseconds), key and value binary, headers.
   * @param longest a record that may have more bytes is refused.
   * @param few a file of at most so many bytes is small.
   * @param directory for the files, which the caller deletes; null for files that exist until their task ends.
   */
  public static Dataset<Row> parts(Dataset<Row> frame, int longest, int few, String directory) {
    Task task = new Task(longest, few, directory);
    JavaRDD<Row> parts = frame.queryExecution().toRdd().toJavaRDD().mapPartitions(task, true);
    StructType columns =
        new StructType()
            .add("file", DataTypes.StringType)
            .add("content", DataTypes.BinaryType)
            .add("records", DataTypes.LongType)
            .add("refusal", DataTypes.StringType);
    return frame.sparkSession().createDataFrame(parts, columns);
  }

  private static final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    private Refused(String why) {
      super(why);
    }
  }

  private record Task(int longest, int few, String directory) implements FlatMapFunction<Iterator<InternalRow>, Row> {
    @Override
    public Iterator<Row> call(Iterator<InternalRow> rows) throws IOException {
      if (!rows.hasNext()) {
        return Collections.emptyIterator();
      }
      Path file = file();
      try (StagedRecords.Writer writer = new StagedRecords.Writer(file)) {
        while (rows.hasNext()) {
          add(writer, rows.next());
        }
        writer.finish();
        boolean small = Files.size(file) <= few;
        byte[] content = small ? Files.readAllBytes(file) : null;
        if (small) {
          delete(file);
        }
        return List.of(RowFactory.create(small ? null : file.toString(), content, writer.records(), null)).iterator();
      } catch (Refused e) {
        return List.of(RowFactory.create(null, null, 0L, e.getMessage())).iterator();
      }
    }

    private Path file() {
      String name = "streamjob-staged-" + UUID.randomUUID();
      if (directory != null) {
        return Path.of(directory, name);
      }
      Path file = Path.of(Utils.getLocalDir(SparkEnv.get().conf()), name);
      TaskContext.get().addTaskCompletionListener((TaskCompletionListener) task -> delete(file));
      return file;
    }

    private static void delete(Path file) {
      try {
        Files.deleteIfExists(file);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    private void add(StagedRecords.Writer writer, InternalRow row) throws IOException, Refused {
      byte[] topic = row.isNullAt(TOPIC) ? null : row.getUTF8String(TOPIC).getBytes();
      int partition = row.isNullAt(PARTITION) ? StagedRecords.NONE : row.getInt(PARTITION);
      long timestamp = row.isNullAt(TIMESTAMP) ? StagedRecords.NO_TIMESTAMP : row.getLong(TIMESTAMP);
      byte[] key = row.isNullAt(KEY) ? null : row.getBinary(KEY);
      byte[] value = row.isNullAt(VALUE) ? null : row.getBinary(VALUE);
      byte[][] headers = row.isNullAt(HEADERS) ? new byte[0][] : headers(row.getArray(HEADERS));
      if (topic == null || topic.length == 0) {
        throw new Refused("a row has no topic");
      }
      if (partition < 0 && !row.isNullAt(PARTITION)) {
        throw new Refused("a row has the partition " + partition);
      }
      if (timestamp < 0 && !row.isNullAt(TIMESTAMP)) {
        throw new Refused("a row has a timestamp before 1970");
      }
      long size = OVERHEAD + size(key) + size(value);
      for (byte[] part : headers) {
        size += HEADER_OVERHEAD + size(part);
      }
      if (size > longest) {
        throw new Refused("a row has " + size + " bytes, and max.request.size is " + longest);
      }
      writer.add(topic, partition, timestamp, key, value, headers);
    }

    private static byte[][] headers(ArrayData array) throws Refused {
      List<byte[]> parts = new ArrayList<>(2 * array.numElements());
      for (int each = 0; each < array.numElements(); each++) {
        InternalRow header = array.isNullAt(each) ? null : array.getStruct(each, 2);
        if (header == null || header.isNullAt(0)) {
          throw new Refused("a row has a header without a key");
        }
        parts.add(header.getUTF8String(0).getBytes());
        parts.add(header.isNullAt(1) ? null : header.getBinary(1));
      }
      return parts.toArray(new byte[0][]);
    }

    private static long size(byte[] content) {
      return content == null ? 0 : content.length;
    }
  }
}
