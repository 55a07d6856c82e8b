package io.streamjob.channels;

import io.streamjob.filesource.FileSource;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryUsage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How much the sources of a running query may bring to a batch.
 *
 * <p>Spark asks each source for its limit at the start of a query, and keeps the answers. They can be replaced while
 * the query's thread waits for a batch's foreachBatch function: the next batch is planned after that.
 */
public final class BatchLimits {
  private static final double SHORT_OF_MEMORY = 0.85;

  private BatchLimits() {}

  /**
   * Returns a digit per source in the order of the plan, 1 if it had more than the running batch reads; then a comma,
   * and 1 if the old generation of the heap stays nearly full after its collections. Call it during a batch.
   */
  public static String limited(StreamingQuery query) {
    MicroBatchExecution execution = execution(query);
    StringBuilder result = new StringBuilder();
    for (SparkDataStream source : CollectionConverters.asJava(execution.sources())) {
      result.append(hadMore(source, execution) ? '1' : '0');
    }
    return result.append(',').append(isShortOfMemory() ? '1' : '0').toString();
  }

  /**
   * Sets the limits of the next batches; call it during a batch.
   *
   * @param limits one per source in the order of the plan, separated by commas; empty for one that keeps its own
   */
  public static void set(StreamingQuery query, String limits) {
    MicroBatchExecution execution = execution(query);
    List<SparkDataStream> sources = new ArrayList<>(CollectionConverters.asJava(execution.sources()));
    String[] values = limits.split(",", -1);
    Map<SparkDataStream, ReadLimit> changed = new HashMap<>(CollectionConverters.asJava(execution.uniqueSources()));
    for (int index = 0; index < values.length; index++) {
      long most = values[index].isEmpty() ? 0 : Long.parseLong(values[index]);
      if (most > 0) {
        changed.computeIfPresent(sources.get(index), (source, before) -> limit(before, most));
      }
    }
    execution.uniqueSources_$eq(scala.collection.immutable.Map.from(CollectionConverters.asScala(changed)));
  }

  private static MicroBatchExecution execution(StreamingQuery query) {
    return (MicroBatchExecution) ((StreamingQueryWrapper) query).streamingQuery();
  }

  /** Returns a limit of the same kind. */
  private static ReadLimit limit(ReadLimit before, long most) {
    if (before instanceof ReadMaxRows) {
      return ReadLimit.maxRows(most);
    }
    if (before instanceof ReadMaxBytes) {
      return ReadLimit.maxBytes(most);
    }
    if (before instanceof ReadMaxFiles) {
      return ReadLimit.maxFiles((int) Math.min(most, Integer.MAX_VALUE));
    }
    if (before instanceof CompositeReadLimit) {
      List<ReadLimit> parts = new ArrayList<>();
      for (ReadLimit part : ((CompositeReadLimit) before).getReadLimits()) {
        parts.add(limit(part, most));
      }
      return ReadLimit.compositeLimit(parts.toArray(new ReadLimit[0]));
    }
    return before;
  }

  private static boolean hadMore(SparkDataStream source, MicroBatchExecution execution) {
    if (source instanceof ChannelStream) {
      return ((ChannelStream) source).wasLimited();
    }
    if (source instanceof FileSource) {
      return ((FileSource) source).wasLimited();
    }
    // A batch that was planned before a restart has none: the sources have not been asked since.
    Option<Offset> latest = execution.latestOffsets().get(source);
    Option<Offset> end = execution.availableOffsets().get(source);
    return latest.isDefined() && end.isDefined() && !latest.get().json().equals(end.get().json());
  }

  private static boolean isShortOfMemory() {
    for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
      MemoryUsage after = pool.getName().contains("Old Gen") ? pool.getCollectionUsage() : null;
      if (after != null && after.getMax() > 0) {
        return after.getUsed() > SHORT_OF_MEMORY * after.getMax();
      }
    }
    return false;
  }
}
