package io.streamjob.kafka;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads what sinks have committed. */
public final class KafkaCommits implements AutoCloseable {
  private static final long FIRST_LOOK = 1000;
  private static final Duration POLL = Duration.ofMillis(200);

  private final KafkaConsumer<byte[], byte[]> consumer;

  /** A transaction that is open keeps records from being read. */
  public static final class HeldBack extends Exception {
    private static final long serialVersionUID = 1;

    private HeldBack(TopicPartition place, long position, long end) {
      super(place + " at offset " + position + " of " + end);
    }
  }

  /** Makes the consumer, with the settings of a producer. */
  public KafkaCommits(Map<String, String> settings) {
    Map<String, Object> own = KafkaClients.settings(settings, ConsumerConfig.configNames());
    own.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    own.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    own.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    own.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    // Behind the newest record nothing comes, and the broker would wait for it for half a second.
    own.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "10");
    consumer =
        KafkaClients.make(
            () -> new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
  }

  /**
   * Returns the newest committed record of a key in a part of a partition, null if there is none.
   *
   * <p>Where a transaction is open there, its end is waited for.
   *
   * @param begin the first offset of the partition.
   * @param end the offset behind the last record that counts.
   * @param patience how many seconds to wait.
   */
  public String newest(String topic, int partition, String key, long begin, long end, long patience)
      throws HeldBack {
    TopicPartition place = new TopicPartition(topic, partition);
    byte[] name = key.getBytes(StandardCharsets.UTF_8);
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
    consumer.assign(List.of(place));
    // A sink that runs has its record near the end: the further back, the larger the step.
    long reach = FIRST_LOOK;
    for (long high = end; high > begin; reach *= 4) {
      long low = Math.max(begin, end - reach);
      String found = newest(place, name, low, high, deadline);
      if (found != null) {
        return found;
      }
      high = low;
    }
    return null;
  }

  /**
   * Returns the newest committed record of each key, without those that were deleted since.
   *
   * @param begin the first offset of the partition.
   * @param end the offset behind the last record that counts.
   * @param patience how many seconds to wait.
   */
  public Map<String, String> all(String topic, int partition, long begin, long end, long patience) throws HeldBack {
    TopicPartition place = new TopicPartition(topic, partition);
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
    Map<String, String> found = new LinkedHashMap<>();
    consumer.assign(List.of(place));
    consumer.seek(place, begin);
    while (consumer.position(place) < end) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(place)) {
        String key = new String(record.key(), StandardCharsets.UTF_8);
        if (record.offset() < end && record.value() == null) {
          found.remove(key);
        } else if (record.offset() < end) {
          found.put(key, new String(record.value(), StandardCharsets.UTF_8));
        }
      }
      if (System.nanoTime() > deadline) {
        throw new HeldBack(place, consumer.position(place), end);
      }
    }
    return found;
  }

  private String newest(TopicPartition place, byte[] key, long low, long high, long deadline) throws HeldBack {
    String found = null;
    consumer.seek(place, low);
    while (consumer.position(place) < high) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(place)) {
        if (record.offset() < high && Arrays.equals(record.key(), key) && record.value() != null) {
          found = new String(record.value(), StandardCharsets.UTF_8);
        }
      }
      if (System.nanoTime() > deadline) {
        throw new HeldBack(place, consumer.position(place), high);
      }
    }
    return found;
  }

  @Override
  public void close() {
    consumer.close();
  }
}
