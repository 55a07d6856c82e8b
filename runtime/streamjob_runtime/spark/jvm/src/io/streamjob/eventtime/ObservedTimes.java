package io.streamjob.eventtime;

import io.streamjob.kafka.KafkaOffsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How far the event time of an input has come in a batch, for each partition that Spark reads; tasks count here, and
 * the driver takes the result.
 *
 * <p>A time too far ahead of the clock is counted, and does not count for the partition.
 */
public final class ObservedTimes extends AccumulatorV2<Long, ObservedTimes> {
  private static final long serialVersionUID = 1L;
  private static final String OF_KAFKA = "org.apache.spark.sql.kafka010.KafkaBatchInputPartition";

  private final long mostAhead;
  // A task reads one partition. A heartbeat copies this while the task counts, so the map is one that allows it.
  private int index = -1;
  private long latest = Long.MIN_VALUE;
  private final Map<Integer, Long> others = new ConcurrentHashMap<>();
  private long ahead;
  private long farthest = Long.MIN_VALUE;
  private long watermark = Long.MIN_VALUE;
  private long late;
  private long lateBy;

  private ObservedTimes(long mostAhead) {
    this.mostAhead = mostAhead;
  }

  /**
   * Returns an observer.
   *
   * @param maxAheadMs how far a time may be ahead of the clock.
   */
  public static ObservedTimes of(SparkSession session, long maxAheadMs) {
    ObservedTimes times = new ObservedTimes(TimeUnit.MILLISECONDS.toMicros(maxAheadMs));
    session.sparkContext().register(times);
    return times;
  }

  /**
   * Returns a column of times that are observed here.
   *
   * @param time the column, a timestamp.
   * @param now the time of the batch.
   * @param partition the partition that Spark reads.
   */
  public Column observed(Column time, Column now, Column partition) {
    return ObservedTime.of(time, now, partition, this);
  }

  /** Takes note of a time, in microseconds; tasks call it for each row. */
  public void see(int partition, long time, long now) {
    // The clock is far from the limits of a long; what is added to it may not be.
    if (time - now > mostAhead && time > now) {
      ahead++;
      farthest = Math.max(farthest, time);
      return;
    }
    if (time <= watermark) {
      late++;
      lateBy = Math.max(lateBy, watermark - time);
    }
    if (partition != index) {
      if (index >= 0) {
        others.merge(index, latest, Math::max);
      }
      index = partition;
      latest = Long.MIN_VALUE;
    }
    latest = Math.max(latest, time);
  }

  /** Lets rows count as late in the running batch; call it in its foreachBatch function, before any action. */
  public void begin(StreamingQuery query) {
    Option<OffsetSeqMetadataBase> before =
        ((StreamingQueryWrapper) query).streamingQuery().lastExecution().prevOffsetSeqMetadata();
    // What comes late is decided by the watermark of the batch before: Spark's `eventTimeWatermarkForLateEvents`.
    long obeyed = before.isEmpty() ? 0 : before.get().batchWatermarkMs();
    watermark = obeyed == 0 ? Long.MIN_VALUE : TimeUnit.MILLISECONDS.toMicros(obeyed);
  }

  /**
   * Returns what the running batch has shown as JSON, and forgets it.
   *
   * <p>`latest` is the latest time, and `partitions` has it by topic and partition of Kafka; without `partitions`, the
   * rows do not tell theirs. `ahead` counts the times that were too far ahead, and `farthest` is the farthest of them;
   * `late` counts those behind the watermark, and `lateBy` says by how much the latest was. Times are milliseconds since 1970. Call it in a batch's foreachBatch function, after the action that read all rows.
   */
  public String take(StreamingQuery query) {
    Map<Integer, Long> seen = seen();
    StringBuilder result = new StringBuilder("{\"ahead\":").append(ahead).append(",\"late\":").append(late);
    result.append(",\"lateBy\":").append(milliseconds(lateBy));
    if (ahead > 0) {
      result.append(",\"farthest\":").append(milliseconds(farthest));
    }
    if (!seen.isEmpty()) {
      long last = seen.values().stream().mapToLong(Long::longValue).max().getAsLong();
      result.append(",\"latest\":").append(milliseconds(last));
      SparkPlan plan = ((StreamingQueryWrapper) query).streamingQuery().lastExecution().executedPlan();
      List<List<InputPartition>> scans = new ArrayList<>();
      if (addScans(plan, scans) && !scans.isEmpty()) {
        result.append(",\"partitions\":").append(OfKafka.byPartition(scans, seen));
      }
    }
    reset();
    return result.append('}').toString();
  }

  private Map<Integer, Long> seen() {
    Map<Integer, Long> seen = new TreeMap<>(others);
    if (index >= 0) {
      seen.merge(index, latest, Math::max);
    }
    return seen;
  }

  /** Adds the partitions of each scan whose rows are observed here; returns false if they cannot be told apart. */
  private boolean addScans(SparkPlan node, List<List<InputPartition>> scans) {
    if (CollectionConverters.asJava(node.expressions()).stream().anyMatch(this::isHere)) {
      List<InputPartition> read = partitionsBelow(node);
      return read != null && scans.add(read);
    }
    return Watermarks.inputs(node).stream().allMatch(each -> addScans(each, scans));
  }

  private boolean isHere(Expression expression) {
    return expression.exists(part -> part instanceof ObservedTime time && time.isIn(this));
  }

  private static List<InputPartition> partitionsBelow(SparkPlan node) {
    SparkPlan below = node;
    while (below.children().size() == 1 && !(below instanceof Exchange) && !(below instanceof CoalesceExec)) {
      below = below.children().head();
    }
    if (!(below instanceof MicroBatchScanExec)) {
      return null;
    }
    List<InputPartition> result = new ArrayList<>();
    for (Option<InputPartition> each : CollectionConverters.asJava(((MicroBatchScanExec) below).partitions())) {
      // By name first: without the connector, there is no such class.
      if (each.isEmpty() || !each.get().getClass().getName().equals(OF_KAFKA)) {
        return null;
      }
      result.add(each.get());
    }
    return result;
  }

  /** All that needs the classes of the connector. */
  private static final class OfKafka {
    static String byPartition(List<List<InputPartition>> scans, Map<Integer, Long> seen) {
      Map<TopicPartition, Long> result = new HashMap<>();
      seen.forEach((number, time) -> {
        Set<TopicPartition> read = new HashSet<>();
        scans.stream().filter(scan -> number < scan.size()).forEach(scan -> read.add(partition(scan.get(number))));
        // A source that is read twice may have read other partitions each time: then it is not known whose time this is.
        if (read.size() == 1) {
          result.merge(read.iterator().next(), milliseconds(time), Math::max);
        }
      });
      return KafkaOffsets.json(result);
    }

    private static TopicPartition partition(InputPartition read) {
      return ((KafkaBatchInputPartition) read).offsetRange().topicPartition();
    }
  }

  private static long milliseconds(long micros) {
    return Math.floorDiv(micros, 1000L);
  }

  @Override
  public boolean isZero() {
    return index < 0 && others.isEmpty() && ahead == 0 && late == 0;
  }

  @Override
  public ObservedTimes copy() {
    ObservedTimes copy = new ObservedTimes(mostAhead);
    copy.watermark = watermark;
    copy.merge(this);
    return copy;
  }

  @Override
  public void reset() {
    index = -1;
    latest = Long.MIN_VALUE;
    others.clear();
    ahead = 0;
    farthest = Long.MIN_VALUE;
    late = 0;
    lateBy = 0;
  }

  @Override
  public void add(Long time) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void merge(AccumulatorV2<Long, ObservedTimes> other) {
    ObservedTimes more = (ObservedTimes) other;
    more.seen().forEach((number, time) -> others.merge(number, time, Math::max));
    ahead += more.ahead;
    farthest = Math.max(farthest, more.farthest);
    late += more.late;
    lateBy = Math.max(lateBy, more.lateBy);
  }

  @Override
  public ObservedTimes value() {
    return this;
  }
}
