package io.streamjob;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Writes a batch of records for Kafka into one file, from the tasks that compute it. */
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
   * Runs the batch, one Spark job, and writes its rows, if there are any.
   *
   * @param frame topic string, partition int, timestamp bigint (milliseconds), key and value binary, headers.
   * @param file the local file for the rows, which must not exist; parts are next to it meanwhile.
   * @param longest a record that may have more bytes is refused.
   * @return how many rows were written, or why a row is refused: then there is no file.
   */
  public static String write(Dataset<Row> frame, String file, int longest) throws IOException {
    List<Part> parts =
        frame.queryExecution().toRdd().toJavaRDD().mapPartitionsWithIndex(new Task(file, longest), true).collect();
    try {
      long records = 0;
      for (Part part : parts) {
        if (part.refusal() != null) {
          return part.refusal();
        }
        records += part.records();
      }
      if (records > 0) {
        StagedRecords.join(parts.stream().map(part -> Path.of(part.file())).toList(), records, Path.of(file));
      }
      return Long.toString(records);
    } finally {
      for (Part part : parts) {
        Files.deleteIfExists(Path.of(part.file()));
      }
    }
  }

  private record Part(String file, long records, String refusal) implements java.io.Serializable {}

  private static final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    private Refused(String why) {
      super(why);
    }
  }

  private record Task(String file, int longest) implements Function2<Integer, Iterator<InternalRow>, Iterator<Part>> {
    @Override
    public Iterator<Part> call(Integer partition, Iterator<InternalRow> rows) throws IOException {
      if (!rows.hasNext()) {
        return Collections.emptyIterator();
      }
      Path part = Path.of(file + "." + TaskContext.get().taskAttemptId());
      boolean complete = false;
      try (StagedRecords.Writer writer = new StagedRecords.Writer(part)) {
        String refusal = null;
        try {
          while (rows.hasNext()) {
            add(writer, rows.next());
          }
        } catch (Refused e) {
          refusal = e.getMessage();
        }
        complete = true;
        return Collections.singletonList(new Part(part.toString(), writer.records(), refusal)).iterator();
      } finally {
        if (!complete) {
          Files.deleteIfExists(part);
        }
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
