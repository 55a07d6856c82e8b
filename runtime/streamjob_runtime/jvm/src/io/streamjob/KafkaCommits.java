package io.streamjob;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Topics that a sink writes to, and the newest record of its commits. */
public final class KafkaCommits implements AutoCloseable {
  private static final long FIRST_LOOK = 1000;
  private static final Duration POLL = Duration.ofMillis(200);

  private final Map<String, String> settings;
  private final Admin admin;
  private final long seconds;

  /** What is known of a topic; the configuration is empty where it may not be asked for. */
  public record Topic(int partitions, boolean readable, boolean writable, Map<String, String> config) {}

  /** Connects, with the settings of a producer; each request waits that many seconds at most. */
  public KafkaCommits(Map<String, String> settings, long seconds) {
    this.settings = settings;
    this.seconds = seconds;
    admin = withOwnClasses(() -> Admin.create(only(AdminClientConfig.configNames())));
  }

  /** Returns what is known of a topic, null if there is none. */
  public Topic describe(String topic) throws Exception {
    TopicDescription found;
    try {
      DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
      found = get(admin.describeTopics(List.of(topic), options).allTopicNames()).get(topic);
    } catch (UnknownTopicOrPartitionException e) {
      return null;
    }
    Set<AclOperation> allowed = found.authorizedOperations();
    boolean readable = allowed == null || allowed.contains(AclOperation.READ);
    boolean writable = allowed == null || allowed.contains(AclOperation.WRITE);
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    return new Topic(found.partitions().size(), readable, writable, config(resource));
  }

  /** Returns whether brokers make a topic that is written to; null where that may not be asked for. */
  public String makesTopics() throws Exception {
    String node = get(admin.describeCluster().nodes()).iterator().next().idString();
    return config(new ConfigResource(ConfigResource.Type.BROKER, node)).get("auto.create.topics.enable");
  }

  private Map<String, String> config(ConfigResource resource) throws Exception {
    Config config;
    try {
      config = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    } catch (TopicAuthorizationException | ClusterAuthorizationException e) {
      return Map.of();
    }
    Map<String, String> values = new HashMap<>();
    for (ConfigEntry entry : config.entries()) {
      if (!entry.isSensitive() && entry.value() != null) {
        values.put(entry.name(), entry.value());
      }
    }
    return values;
  }

  /** Makes a topic, unless it is there. */
  public void make(String topic, int partitions, Map<String, String> config) throws Exception {
    NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(config);
    try {
      get(admin.createTopics(List.of(wanted)).all());
    } catch (TopicExistsException e) {
      return;
    }
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    // The broker that is asked next may hear of it a moment later.
    while (describe(topic) == null && System.nanoTime() < end) {
      Thread.sleep(POLL.toMillis());
    }
  }

  /**
   * Returns the newest committed record of a key in a partition, null if there is none.
   *
   * <p>Whatever was written before the call counts: where a transaction is open there, its end is waited for.
   *
   * @param patience how many seconds to wait for it.
   */
  public String newest(String topic, int partition, String key, long patience) throws Exception {
    TopicPartition place = new TopicPartition(topic, partition);
    long end = get(admin.listOffsets(Map.of(place, OffsetSpec.latest())).partitionResult(place)).offset();
    long begin = get(admin.listOffsets(Map.of(place, OffsetSpec.earliest())).partitionResult(place)).offset();
    byte[] name = key.getBytes(StandardCharsets.UTF_8);
    Map<String, Object> own = new HashMap<>(only(ConsumerConfig.configNames()));
    own.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    own.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    own.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    own.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
    try (KafkaConsumer<byte[], byte[]> consumer =
        withOwnClasses(
            () -> new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer()))) {
      consumer.assign(List.of(place));
      // A sink that runs has its record near the end: the further back, the larger the step.
      long reach = FIRST_LOOK;
      for (long high = end; high > begin; reach *= 4) {
        long low = Math.max(begin, end - reach);
        String found = newest(consumer, place, name, low, high, deadline);
        if (found != null) {
          return found;
        }
        high = low;
      }
      return null;
    }
  }

  private static String newest(
      KafkaConsumer<byte[], byte[]> consumer, TopicPartition place, byte[] key, long low, long high, long deadline)
      throws TimeoutException {
    String found = null;
    consumer.seek(place, low);
    while (consumer.position(place) < high) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(place)) {
        if (record.offset() < high && Arrays.equals(record.key(), key) && record.value() != null) {
          found = new String(record.value(), StandardCharsets.UTF_8);
        }
      }
      if (System.nanoTime() > deadline) {
        throw new TimeoutException("at offset " + consumer.position(place) + " of " + high);
      }
    }
    return found;
  }

  @Override
  public void close() {
    admin.close(Duration.ZERO);
  }

  /** Returns the settings that a client of another kind knows, with those that none knows, such as of plugins. */
  private Map<String, Object> only(Set<String> known) {
    Map<String, Object> kept = new HashMap<>();
    settings.forEach(
        (name, value) -> {
          if (known.contains(name) || !ProducerConfig.configNames().contains(name)) {
            kept.put(name, value);
          }
        });
    return kept;
  }

  private interface Maker<T> {
    T make();
  }

  private static <T> T withOwnClasses(Maker<T> maker) {
    Thread thread = Thread.currentThread();
    ClassLoader loader = thread.getContextClassLoader();
    thread.setContextClassLoader(KafkaCommits.class.getClassLoader());
    try {
      return maker.make();
    } finally {
      thread.setContextClassLoader(loader);
    }
  }

  private <T> T get(KafkaFuture<T> future) throws Exception {
    try {
      return future.get(seconds, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
    }
  }
}
