package io.streamjob.kafka;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Requests of sources and sinks to the brokers, apart from records. Answers are JSON, so that each is one call from Python:
 * partitions as {"topic": [0, 1]}, offsets as {"topic": {"0": 97}}.
 */
public final class KafkaAdmin implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<Map<String, List<Integer>>> PARTITIONS = new TypeReference<>() {};
  private static final long LOOK_AGAIN_MILLISECONDS = 200;

  private final Admin admin;
  private final long patience;

  /** The description of a topic; the configuration is empty if reading it is not permitted, and old brokers give no id. */
  public record Topic(int partitions, boolean readable, boolean writable, Map<String, String> settings, String id) {}

  /** The partitions and the id of a topic; old brokers give no id. */
  public record Existing(List<Integer> partitions, String id) {}

  /** Connects, with the settings of any kind of client; each answer must come within those milliseconds. */
  public KafkaAdmin(Map<String, String> settings, long milliseconds) {
    Map<String, Object> own = KafkaClients.settings(settings, AdminClientConfig.configNames());
    if (!own.containsKey(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG)
        && !own.containsKey(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG)) {
      own.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, Long.toString(milliseconds));
      own.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, Long.toString(milliseconds / 2));
    }
    // The client says why it gives up, if it is let.
    patience = milliseconds + 1000;
    admin = KafkaClients.make(() -> Admin.create(own));
  }

  /** Returns the topics whose whole name a pattern matches, as a list; internal ones are left out. */
  public String topics(String pattern) throws Exception {
    Pattern compiled = Pattern.compile(pattern);
    Set<String> names = get(admin.listTopics().names());
    return JSON.writeValueAsString(names.stream().filter(compiled.asMatchPredicate()).toList());
  }

  /** Returns those of the topics that exist, as {"topic": {"partitions": [0, 1], "id": "…"}}; old brokers give no id. */
  public String existing(List<String> topics) throws Exception {
    Map<String, Existing> found = new HashMap<>();
    for (Map.Entry<String, KafkaFuture<TopicDescription>> each :
        admin.describeTopics(topics).topicNameValues().entrySet()) {
      try {
        TopicDescription topic = get(each.getValue());
        List<Integer> partitions = topic.partitions().stream().map(TopicPartitionInfo::partition).toList();
        found.put(each.getKey(), new Existing(partitions, id(topic)));
      } catch (UnknownTopicOrPartitionException | InvalidTopicException e) {
        continue;
      }
    }
    return JSON.writeValueAsString(found);
  }

  /** Returns the first offsets that partitions have. They must exist: the client asks for others until time is up. */
  public String beginnings(String partitions) throws Exception {
    return offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
  }

  /** Returns the offsets behind the last records of partitions, committed ones if wanted. They must exist. */
  public String ends(String partitions, boolean committed) throws Exception {
    IsolationLevel level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    return offsets(partitions, OffsetSpec.latest(), level);
  }

  private String offsets(String partitions, OffsetSpec spec, IsolationLevel level) throws Exception {
    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
    JSON.readValue(partitions, PARTITIONS)
        .forEach((topic, numbers) -> numbers.forEach(each -> asked.put(new TopicPartition(topic, each), spec)));
    Map<TopicPartition, Long> found = new HashMap<>();
    for (Map.Entry<TopicPartition, ListOffsetsResultInfo> each :
        get(admin.listOffsets(asked, new ListOffsetsOptions(level)).all()).entrySet()) {
      found.put(each.getKey(), each.getValue().offset());
    }
    return KafkaOffsets.json(found);
  }

  /** Sets the committed offsets of a consumer group that has no members. */
  public void report(String group, String offsets) throws Exception {
    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    KafkaOffsets.parse(offsets).forEach((each, offset) -> positions.put(each, new OffsetAndMetadata(offset)));
    get(admin.alterConsumerGroupOffsets(group, positions).all());
  }

  /** Returns what is known of a topic, null if there is none. */
  public String describe(String topic) throws Exception {
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
    return JSON.writeValueAsString(
        new Topic(found.partitions().size(), readable, writable, config(resource), id(found)));
  }

  /** Returns a topic's id; null from brokers before 2.8. */
  private static String id(TopicDescription topic) {
    return Uuid.ZERO_UUID.equals(topic.topicId()) ? null : topic.topicId().toString();
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
  public void make(String topic, int partitions, Map<String, String> settings) throws Exception {
    NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(settings);
    try {
      get(admin.createTopics(List.of(wanted)).all());
    } catch (TopicExistsException e) {
      return;
    }
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patience);
    // The broker that is asked next may hear of it a moment later.
    while (describe(topic) == null && System.nanoTime() < end) {
      Thread.sleep(LOOK_AGAIN_MILLISECONDS);
    }
  }

  @Override
  public void close() {
    admin.close(Duration.ZERO);
  }

  private <T> T get(KafkaFuture<T> future) throws Exception {
    try {
      return future.get(patience, TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
    }
  }
}
