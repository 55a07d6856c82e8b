package io.streamjob.joins;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.StorageLevel;

/**
 * A table that queries join with a stream, and whose rows can be replaced while they run.
 *
 * <p>Spark plans each batch anew, and asks for the rows then. All scans of a batch get those that the first one got, so
 * a batch sees one version of the table, however often it reads it. The rows are kept by the executors and are not
 * computed again: if some of them are lost, the batch fails instead of mixing versions.
 */
public final class StaticTable extends BaseRelation implements TableScan {
  private static final String QUERY = "sql.streaming.queryId";
  private static final String BATCH = "streaming.sql.batchId";

  private final SparkSession session;
  private final StructType schema;
  private final Map<String, Pin> pins = new HashMap<>();
  private final List<Version> versions = new ArrayList<>();
  private Version current;

  /** The rows of a table at one time, kept by the executors. */
  public static final class Version {
    private final RDD<InternalRow> rows;
    private final long count;
    private final long bytes;

    private Version(RDD<InternalRow> rows, long count, long bytes) {
      this.rows = rows;
      this.count = count;
      this.bytes = bytes;
    }

    public long count() {
      return count;
    }

    public long bytes() {
      return bytes;
    }
  }

  private record Pin(String batch, Version version) {}

  /** Returns a table without rows; give it a version before a query reads it. */
  public StaticTable(SparkSession session, StructType schema) {
    this.session = session;
    this.schema = schema.asNullable();
  }

  /** Reads the rows of a DataFrame, and has the executors keep them. */
  public static Version read(Dataset<Row> frame) {
    // The rows of a scan are one object that changes.
    JavaRDD<InternalRow> rows = frame.queryExecution().toRdd().toJavaRDD().map(InternalRow::copy);
    rows.persist(StorageLevel.MEMORY_AND_DISK());
    rows.rdd().localCheckpoint();
    long[] size =
        rows.aggregate(new long[2], (sum, row) -> add(sum, 1, bytes(row)), (sum, other) -> add(sum, other[0], other[1]));
    return new Version(rows.rdd(), size[0], size[1]);
  }

  private static long[] add(long[] sum, long rows, long bytes) {
    sum[0] += rows;
    sum[1] += bytes;
    return sum;
  }

  private static long bytes(InternalRow row) {
    return row instanceof org.apache.spark.sql.catalyst.expressions.UnsafeRow unsafe
        ? unsafe.getSizeInBytes()
        : 8L * row.numFields();
  }

  /** Gives the batches that are planned from now on other rows. */
  public synchronized void replace(Version version) {
    versions.add(version);
    current = version;
    release();
  }

  /** Frees the rows; no query may read the table any more. */
  public synchronized void close() {
    pins.clear();
    current = null;
    release();
  }

  @Override
  public SQLContext sqlContext() {
    return session.sqlContext();
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public synchronized long sizeInBytes() {
    return Math.max(1, pinned().bytes);
  }

  @Override
  public boolean needConversion() {
    return false;
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public synchronized RDD<Row> buildScan() {
    return (RDD) pinned().rows;
  }

  private Version pinned() {
    SparkContext context = session.sparkContext();
    String query = context.getLocalProperty(QUERY);
    String batch = context.getLocalProperty(BATCH);
    if (query == null || batch == null) {
      return current;
    }
    Pin pin = pins.get(query);
    if (pin == null || !pin.batch.equals(batch)) {
      pin = new Pin(batch, current);
      pins.put(query, pin);
      release();
    }
    return pin.version;
  }

  private void release() {
    versions.removeIf(
        each -> {
          boolean unused = each != current && pins.values().stream().noneMatch(pin -> pin.version == each);
          if (unused) {
            each.rows.unpersist(false);
          }
          return unused;
        });
  }
}
