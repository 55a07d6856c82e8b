package io.streamjob.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Offsets of partitions as Spark writes them: {"topic": {"0": 97}}. */
public final class KafkaOffsets {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<Map<String, Map<Integer, Long>>> FORM = new TypeReference<>() {};

  private KafkaOffsets() {}

  public static Map<TopicPartition, Long> parse(String json) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    try {
      JSON.readValue(json, FORM).forEach((topic, partitions) ->
          partitions.forEach((number, offset) -> offsets.put(new TopicPartition(topic, number), offset)));
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("No offsets of Kafka's partitions: " + json, error);
    }
    return offsets;
  }

  public static String json(Map<TopicPartition, Long> offsets) {
    Map<String, Map<Integer, Long>> topics = new HashMap<>();
    offsets.forEach((each, offset) ->
        topics.computeIfAbsent(each.topic(), topic -> new HashMap<>()).put(each.partition(), offset));
    try {
      return JSON.writeValueAsString(topics);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}
