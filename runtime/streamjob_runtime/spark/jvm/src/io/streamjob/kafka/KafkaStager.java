package io.streamjob.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.regex.Pattern;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.Utils;

/** Writes a batch of records for Kafka into files, one for each of the tasks that compute it. */
public final class KafkaStager {
  private static final ObjectMapper JSON = new ObjectMapper();
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
   * {@code records}, how many there are; {@code topics}, a line for each topic with its name, the highest partition that
   * rows name or -1, the bytes of the longest row, and whether a row has no key, separated by tabs; and {@code refusal},
   * why a row is refused.
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
            .add("topics", DataTypes.StringType)
            .add("refusal", DataTypes.StringType);
    return frame.sparkSession().createDataFrame(parts, columns);
  }

  /**
   * Appends the records of a staged file to a text file, one JSON object per line, and returns how many there are. Keys,
   * values and headers are in base64.
   */
  public static long toJson(String file, String target) throws IOException {
    try (BufferedWriter out = Files.newBufferedWriter(Path.of(target), CREATE, APPEND)) {
      return StagedRecords.read(
          Path.of(file),
          (topic, partition, timestamp, key, value, headers) -> {
            Map<String, Object> record = new LinkedHashMap<>();
            record.put("topic", new String(topic, UTF_8));
            record.put("partition", partition == StagedRecords.NONE ? null : partition);
            record.put("timestamp", timestamp == StagedRecords.NO_TIMESTAMP ? null : timestamp);
            record.put("key", key);
            record.put("value", value);
            List<Map<String, Object>> named = new ArrayList<>();
            for (int each = 0; each < headers.length; each += 2) {
              Map<String, Object> header = new LinkedHashMap<>();
              header.put("key", new String(headers[each], UTF_8));
              header.put("value", headers[each + 1]);
              named.add(header);
            }
            record.put("headers", named);
            out.write(JSON.writeValueAsString(record));
            out.write('\n');
          });
    }
  }

  /** Returns how many records a staged file has, and the sum of their hashes, which does not depend on their order. */
  public static long[] measure(String file) throws IOException {
    long[] sum = {0};
    long records =
        StagedRecords.read(
            Path.of(file),
            (topic, partition, timestamp, key, value, headers) -> {
              long hash = XXH64.hashLong(timestamp, XXH64.hashInt(partition, hash(topic, headers.length)));
              hash = hash(value, hash(key, hash));
              for (byte[] part : headers) {
                hash = hash(part, hash);
              }
              sum[0] += hash;
            });
    return new long[] {records, sum[0]};
  }

  /** Returns a hash of bytes that tells null from none, and where they end. */
  private static long hash(byte[] content, long seed) {
    if (content == null) {
      return XXH64.hashInt(-1, seed);
    }
    long length = XXH64.hashInt(content.length, seed);
    return XXH64.hashUnsafeBytes(content, Platform.BYTE_ARRAY_OFFSET, content.length, length);
  }

  /** What the rows of a task need of each topic, to be compared with the topics before the rows are staged. */
  private static final class Uses {
    private static final Pattern LEGAL = Pattern.compile("[a-zA-Z0-9._-]{1,249}");

    private final Map<UTF8String, long[]> topics = new HashMap<>();

    private void add(UTF8String topic, int partition, long size, boolean keyed) throws Refused {
      long[] use = topics.get(topic);
      if (use == null) {
        String name = topic.toString();
        if (!LEGAL.matcher(name).matches() || name.equals(".") || name.equals("..")) {
          throw new Refused(
              "a row has the topic '" + name + "'; a topic's name has 1 to 249 letters, digits, dots, '_' and '-'");
        }
        use = new long[] {-1, 0, 0};
        topics.put(topic.copy(), use);
      }
      use[0] = Math.max(use[0], partition);
      use[1] = Math.max(use[1], size);
      use[2] = keyed ? use[2] : 1;
    }

    /** Returns a line for each topic: name, highest partition or -1, bytes of the longest row, 1 if one has no key. */
    private String lines() {
      StringBuilder lines = new StringBuilder();
      topics.forEach(
          (topic, use) ->
              lines.append(topic).append('\t').append(use[0]).append('\t').append(use[1]).append('\t').append(use[2])
                  .append('\n'));
      return lines.toString();
    }
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
      Uses uses = new Uses();
      try (StagedRecords.Writer writer = new StagedRecords.Writer(file)) {
        while (rows.hasNext()) {
          add(writer, uses, rows.next());
        }
        writer.finish();
        boolean small = Files.size(file) <= few;
        byte[] content = small ? Files.readAllBytes(file) : null;
        if (small) {
          delete(file);
        }
        String name = small ? null : file.toString();
        return List.of(RowFactory.create(name, content, writer.records(), uses.lines(), null)).iterator();
      } catch (Refused e) {
        return List.of(RowFactory.create(null, null, 0L, "", e.getMessage())).iterator();
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

    private void add(StagedRecords.Writer writer, Uses uses, InternalRow row) throws IOException, Refused {
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
      uses.add(row.getUTF8String(TOPIC), row.isNullAt(PARTITION) ? -1 : partition, size, key != null);
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
