package io.streamjob.kafka;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** The connector's stream, whose positions go no further than the end of each partition. */
final class BoundedKafkaStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final MicroBatchStream stream;
  private final SupportsTriggerAvailableNow admission;
  private final Map<TopicPartition, Long> end;
  private Set<TopicPartition> assigned;

  /** Makes the stream; without an end, it ends where the topics end now. */
  BoundedKafkaStream(MicroBatchStream stream, String end) {
    this.stream = stream;
    this.admission = (SupportsTriggerAvailableNow) stream;
    this.end = end == null ? Map.of() : KafkaOffsets.parse(end);
    if (end == null) {
      admission.prepareForTriggerAvailableNow();
    }
  }

  @Override
  public Offset initialOffset() {
    return offset(capped(stream.initialOffset()));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    // The connector would share the limit out by what lies behind the ends, too.
    Offset latest = admission.latestOffset(start, ReadLimit.allAvailable());
    if (latest == null) {
      return null;
    }
    Map<TopicPartition, Long> last = capped(latest);
    assigned = Set.copyOf(last.keySet());
    return offset(limited(KafkaOffsets.parse(start.json()), last, maxRows(limit)));
  }

  @Override
  public Offset reportLatestOffset() {
    Offset latest = admission.reportLatestOffset();
    return latest == null ? null : offset(capped(latest));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    admission.prepareForTriggerAvailableNow();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission.getDefaultReadLimit();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return stream.planInputPartitions(ofAssigned(start), ofAssigned(end));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return stream.createReaderFactory();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return ((ReportsSourceMetrics) stream).metrics(latestConsumed);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return stream.deserializeOffset(json);
  }

  @Override
  public void commit(Offset end) {
    stream.commit(end);
  }

  @Override
  public void stop() {
    stream.stop();
  }

  @Override
  public String toString() {
    return stream.toString();
  }

  /** The connector wants positions of the very partitions that it has looked at for the batch. */
  private Offset ofAssigned(Offset offset) {
    if (assigned == null) {
      return offset;
    }
    Map<TopicPartition, Long> known = KafkaOffsets.parse(offset.json());
    known.keySet().retainAll(assigned);
    return offset(known);
  }

  private Map<TopicPartition, Long> capped(Offset offset) {
    Map<TopicPartition, Long> capped = KafkaOffsets.parse(offset.json());
    capped.replaceAll((partition, each) -> Math.min(each, end.getOrDefault(partition, each)));
    return capped;
  }

  /** Gives each partition a share of the limit, by what it has to read; at least one record, as the connector does. */
  private static Map<TopicPartition, Long> limited(
      Map<TopicPartition, Long> start, Map<TopicPartition, Long> last, long limit) {
    // A position may lie behind the end if the source was read without one before, and is never taken back; nor is that
    // of a partition that was read to its end, which the stream is not assigned any more.
    Map<TopicPartition, Long> next = new HashMap<>(start);
    last.forEach((partition, offset) -> next.put(partition, Math.max(offset, start.getOrDefault(partition, offset))));
    double all = 0;
    for (TopicPartition partition : next.keySet()) {
      all += left(partition, start, next);
    }
    double share = all > limit ? limit / all : 1;
    next.replaceAll((partition, offset) -> {
      long left = left(partition, start, next);
      return offset - left + Math.min(left, (long) Math.max(1, left * share));
    });
    return next;
  }

  /** A partition without a position begins where only the connector knows: it is read as a whole. */
  private static long left(TopicPartition partition, Map<TopicPartition, Long> start, Map<TopicPartition, Long> next) {
    return next.get(partition) - start.getOrDefault(partition, next.get(partition));
  }

  /** The least number of records that a batch waits for is of no use before an end. */
  private static long maxRows(ReadLimit limit) {
    if (limit instanceof CompositeReadLimit) {
      return Arrays.stream(((CompositeReadLimit) limit).getReadLimits())
          .mapToLong(BoundedKafkaStream::maxRows)
          .min()
          .orElse(Long.MAX_VALUE);
    }
    return limit instanceof ReadMaxRows ? ((ReadMaxRows) limit).maxRows() : Long.MAX_VALUE;
  }

  private Offset offset(Map<TopicPartition, Long> offsets) {
    return stream.deserializeOffset(KafkaOffsets.json(offsets));
  }
}
