package io.streamjob.eventtime;

import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeStats;
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.WatermarkSupport;
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MultipleWatermarkPolicy;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import org.apache.spark.sql.internal.SQLConf;
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
  private static final long NONE = EventTimeStart.NONE;
  private static final String WAITING = "Waiting for data to arrive";
  private static final long LOCK_SECONDS = 1;

  private Watermarks() {}

  /** Lets the queries of a session that start from now on begin at the lowest watermark; see `EventTimeStart`. */
  public static void prepare(SparkSession session) {
    EventTimeStart.prepare(session);
  }

  /**
   * Lets a query whose watermark is still Spark's 0 begin at the lowest one; call it in its first batch, as `advance`.
   *
   * @param atZero whether 0 is a watermark that the query has reached before it was restored
   */
  public static void begin(StreamingQuery query, boolean atZero) throws ReflectiveOperationException {
    WatermarkTracker tracker = (WatermarkTracker) tracker(query);
    if (tracker == null || byNode(tracker).isEmpty()) {
      return;
    }
    CollectionConverters.asJava(byNode(tracker))
        .replaceAll((node, watermark) -> watermark.isDefined() ? watermark : Option.apply((Object) NONE));
    if (tracker.currentWatermark() == 0 && !atZero) {
      StreamExecution execution = ((StreamingQueryWrapper) query).streamingQuery();
      tracker.setWatermark(NONE);
      start(query).hadNone(execution.lastExecution().currentBatchId());
    }
  }

  /** Returns `node=milliseconds` pairs, separated by commas: one answer costs one call across the language border. */
  public static String read(StreamingQuery query) throws ReflectiveOperationException {
    Object tracker = tracker(query);
    return tracker == null ? "" : text(current(tracker));
  }

  /**
   * Returns, like `read`, the watermarks as they will be behind the batch that runs.
   *
   * <p>Call it in a batch's foreachBatch function, after the action that read all of its rows.
   */
  public static String preview(StreamingQuery query) throws ReflectiveOperationException {
    return text(previewed(query));
  }

  /** Returns whether a watermark is set in a plan, or in one that it reads. */
  public static boolean isIn(LogicalPlan plan) {
    return plan instanceof EventTimeWatermark
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(Watermarks::isIn);
  }

  /**
   * Returns the watermark that the rows of later batches obey, null if there is none; call it as `preview`.
   *
   * <p>A query without state passes rows on at once, so it is what Spark will take for the query's watermark behind
   * this batch. State holds rows back until the watermark that a batch runs with has passed them, and each operator
   * knows what its later rows obey then. Source: Spark's `WatermarkTracker` and `PropagateWatermarkSimulator`.
   *
   * <p>Spark lets a function with state that returns rows without event time end the propagation. If the job declares
   * an event time for these rows, it does so relative to the function's own watermark, which therefore goes on here.
   */
  public static Long output(StreamingQuery query) throws ReflectiveOperationException {
    IncrementalExecution batch = ((StreamingQueryWrapper) query).streamingQuery().lastExecution();
    Long result;
    if (hasState(batch.executedPlan())) {
      long now = start(query).of(batch.currentBatchId(), batch.offsetSeqMetadata().batchWatermarkMs());
      result = now > NONE ? propagated(batch.executedPlan(), now) : null;
    } else {
      result = chosen((WatermarkTracker) tracker(query), previewed(query));
    }
    return result == null || result <= NONE ? null : result;
  }

  /**
   * Raises watermarks of inputs, and that of the query with them, if the query waits for data; otherwise does nothing.
   *
   * <p>A query with state then plans a batch without data, as it does if a batch has raised its watermark.
   *
   * @param pairs as `read` returns them
   */
  public static void advanceWaiting(StreamingQuery query, String pairs)
      throws ReflectiveOperationException, InterruptedException {
    StreamExecution execution = ((StreamingQueryWrapper) query).streamingQuery();
    // The query's thread holds this lock while it looks for data. If it has found none, it stands between two looks.
    if (!execution.awaitProgressLock().tryLock(LOCK_SECONDS, TimeUnit.SECONDS)) {
      return;
    }
    try {
      if (!query.status().message().equals(WAITING)) {
        return;
      }
      for (String pair : pairs.split(",")) {
        String[] each = pair.split("=");
        advance(query, each[0], Long.parseLong(each[1]));
      }
      WatermarkTracker tracker = (WatermarkTracker) tracker(query);
      tracker.setWatermark(chosen(tracker, current(tracker)));
      // It has noted the old watermark for the next batch, and computes everything that it forgets again.
      start(query).purge(Long.MAX_VALUE);
    } finally {
      execution.awaitProgressLock().unlock();
    }
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

  /**
   * Raises the error that a batch would fail with if a stateful operator reads rows with two event times.
   *
   * <p>Spark looks for the event time of an operator's rows when it executes a batch, and in a join for each row.
   */
  public static void checkOneEventTime(SparkPlan plan) {
    if (plan instanceof WatermarkSupport operator) {
      operator.watermarkExpressionForLateEvents();
    } else if (plan instanceof StreamingSymmetricHashJoinExec join) {
      boolean several = !(Boolean) join.conf().getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE());
      WatermarkSupport.findEventTimeColumn(join.left().output(), several);
      WatermarkSupport.findEventTimeColumn(join.right().output(), several);
    }
    inputs(plan).forEach(Watermarks::checkOneEventTime);
  }

  private static Map<UUID, Long> current(Object tracker) throws ReflectiveOperationException {
    Map<UUID, Long> result = new HashMap<>();
    CollectionConverters.asJava(byNode(tracker))
        .forEach((node, watermark) -> result.put(node, watermark.isDefined() ? (Long) watermark.get() : NONE));
    return result;
  }

  private static Map<UUID, Long> previewed(StreamingQuery query) throws ReflectiveOperationException {
    Map<UUID, Long> result = current(tracker(query));
    for (EventTimeWatermarkExec node : watermarkNodes(query)) {
      EventTimeStats seen = node.eventTimeStats().value();
      if (seen.count() > 0) {
        result.merge(node.nodeId(), seen.max() - node.delayMs(), Math::max);
      }
    }
    return result;
  }

  private static List<EventTimeWatermarkExec> watermarkNodes(StreamingQuery query) {
    List<EventTimeWatermarkExec> result = new ArrayList<>();
    Deque<SparkPlan> open = new ArrayDeque<>();
    open.add(((StreamingQueryWrapper) query).streamingQuery().lastExecution().executedPlan());
    while (!open.isEmpty()) {
      SparkPlan node = open.remove();
      if (node instanceof EventTimeWatermarkExec) {
        result.add((EventTimeWatermarkExec) node);
      }
      open.addAll(inputs(node));
    }
    return result;
  }

  private static boolean hasState(SparkPlan node) {
    return node instanceof StateStoreWriter || inputs(node).stream().anyMatch(Watermarks::hasState);
  }

  private static Long propagated(SparkPlan node, long watermark) {
    if (node instanceof EventTimeWatermarkExec) {
      return watermark;
    }
    Long input = null;
    for (SparkPlan each : inputs(node)) {
      Long output = propagated(each, watermark);
      input = input == null || output != null && output < input ? output : input;
    }
    if (input != null && node instanceof StateStoreWriter) {
      Option<Object> output = ((StateStoreWriter) node).produceOutputWatermark(input);
      return output.isDefined() ? (Long) output.get() : input;
    }
    return input;
  }

  static List<SparkPlan> inputs(SparkPlan node) {
    // An exchange that the plan holds twice stands there once, and for the other one a leaf that refers to it.
    return node instanceof ReusedExchangeExec
        ? List.of(((ReusedExchangeExec) node).child())
        : CollectionConverters.asJava(node.children());
  }

  private static Long chosen(WatermarkTracker tracker, Map<UUID, Long> byNode) throws ReflectiveOperationException {
    if (byNode.isEmpty()) {
      return null;
    }
    List<Object> watermarks = new ArrayList<>();
    byNode.values().forEach(watermark -> watermarks.add(Math.max(watermark, NONE)));
    MultipleWatermarkPolicy policy = (MultipleWatermarkPolicy) value(tracker, "policy");
    return Math.max(
        tracker.currentWatermark(), policy.chooseGlobalWatermark(CollectionConverters.asScala(watermarks).toSeq()));
  }

  private static String text(Map<UUID, Long> watermarks) {
    StringJoiner result = new StringJoiner(",");
    watermarks.forEach((node, watermark) -> {
      // A lower one, as an input has whose rows must not move it, is none.
      if (watermark > NONE) {
        result.add(node + "=" + watermark);
      }
    });
    return result.toString();
  }

  private static EventTimeStart start(StreamingQuery query) throws ReflectiveOperationException {
    return (EventTimeStart) value(((StreamingQueryWrapper) query).streamingQuery(), "watermarkPropagator");
  }

  private static Object tracker(StreamingQuery query) throws ReflectiveOperationException {
    return value(((StreamingQueryWrapper) query).streamingQuery(), "watermarkTracker");
  }

  @SuppressWarnings("unchecked")
  private static scala.collection.mutable.Map<UUID, Option<Object>> byNode(Object tracker)
      throws ReflectiveOperationException {
    return (scala.collection.mutable.Map<UUID, Option<Object>>) value(tracker, "operatorToWatermarkMap");
  }

  static Object value(Object owner, String name) throws ReflectiveOperationException {
    return field(owner, name).get(owner);
  }

  static void set(Object owner, String name, Object value) throws ReflectiveOperationException {
    field(owner, name).set(owner, value);
  }

  private static Field field(Object owner, String name) throws NoSuchFieldException {
    for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new NoSuchFieldException(owner.getClass().getName() + "." + name);
  }
}
