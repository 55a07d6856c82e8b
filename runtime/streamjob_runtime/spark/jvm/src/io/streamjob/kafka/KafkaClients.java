package io.streamjob.kafka;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** The common parts of all Kafka clients here: their creation, and their error messages. */
public final class KafkaClients {
  private KafkaClients() {}

  /** Returns the causes of an error, outermost first, a line each: the class's simple name, a tab, the message. */
  public static String causes(Throwable error) {
    List<String> lines = new ArrayList<>();
    for (Throwable each = error; each != null && lines.size() < 10; each = each.getCause()) {
      String message = each.getMessage() == null ? "" : each.getMessage().replaceAll("\\s+", " ");
      lines.add(each.getClass().getSimpleName() + "\t" + message);
    }
    return String.join("\n", lines);
  }

  /** Returns the settings that a kind of client knows, with those that no kind does, such as of plugins. */
  static Map<String, Object> settings(Map<String, String> given, Set<String> known) {
    Map<String, Object> kept = new HashMap<>(given);
    kept.keySet().removeIf(
        name ->
            !known.contains(name)
                && (ProducerConfig.configNames().contains(name) || ConsumerConfig.configNames().contains(name)));
    return kept;
  }

  /** Makes a client, which looks for its own classes, and for those that settings name, where the thread does. */
  static <T> T make(Supplier<T> client) {
    Thread thread = Thread.currentThread();
    ClassLoader loader = thread.getContextClassLoader();
    thread.setContextClassLoader(KafkaClients.class.getClassLoader());
    try {
      return client.get();
    } finally {
      thread.setContextClassLoader(loader);
    }
  }
}
