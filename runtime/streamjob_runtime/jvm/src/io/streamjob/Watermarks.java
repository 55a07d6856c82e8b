package io.streamjob;

import java.lang.reflect.Field;
import java.util.StringJoiner;
import java.util.UUID;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The watermark of each input of a running query, in milliseconds since 1970, by the id of its watermark node.
 *
 * <p>Spark keeps one per input in memory and persists only the smallest: after a restart an input that is silent, or
 * has ended, would hold the whole query back.
 */
public final class Watermarks {
  private Watermarks() {}

  /** Returns `node=milliseconds` pairs, separated by commas: one answer costs one call across the language border. */
  public static String read(StreamingQuery query) throws ReflectiveOperationException {
    StringJoiner result = new StringJoiner(",");
    Object tracker = tracker(query);
    if (tracker != null) {
      CollectionConverters.asJava(byNode(tracker))
          .forEach((node, watermark) -> {
            if (watermark.isDefined()) {
              result.add(node + "=" + watermark.get());
            }
          });
    }
    return result.toString();
  }

  /**
   * Raises the watermark of one input; one that is higher already stays.
   *
   * <p>Call it only while a batch of the query is in its foreachBatch function: the query's thread waits there, and
   * takes the new value into account at the end of that batch.
   */
  public static void advance(StreamingQuery query, String node, long milliseconds)
      throws ReflectiveOperationException {
    scala.collection.mutable.Map<UUID, Option<Object>> byNode = byNode(tracker(query));
    UUID id = UUID.fromString(node);
    Option<Option<Object>> now = byNode.get(id);
    if (now.isEmpty() || now.get().isEmpty() || (Long) now.get().get() < milliseconds) {
      byNode.put(id, Option.apply((Object) milliseconds));
    }
  }

  private static Object tracker(StreamingQuery query) throws ReflectiveOperationException {
    return value(((StreamingQueryWrapper) query).streamingQuery(), "watermarkTracker");
  }

  @SuppressWarnings("unchecked")
  private static scala.collection.mutable.Map<UUID, Option<Object>> byNode(Object tracker)
      throws ReflectiveOperationException {
    return (scala.collection.mutable.Map<UUID, Option<Object>>) value(tracker, "operatorToWatermarkMap");
  }

  private static Object value(Object owner, String name) throws ReflectiveOperationException {
    for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          field.setAccessible(true);
          return field.get(owner);
        }
      }
    }
    throw new NoSuchFieldException(owner.getClass().getName() + "." + name);
  }
}
