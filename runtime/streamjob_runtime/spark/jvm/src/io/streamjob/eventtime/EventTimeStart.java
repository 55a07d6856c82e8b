package io.streamjob.eventtime;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExecBase;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase;
import org.apache.spark.sql.execution.streaming.runtime.PropagateWatermarkSimulator;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import scala.Option;

/**
 * Tells the stateful operators of a query their watermarks, also those before 1970.
 *
 * <p>In Spark the watermark of a query begins at 0, and that of an operator is never lower. So every row from before 1970
 * is late, whatever the delay. Here an operator has the lowest watermark until its inputs have one.
 */
final class EventTimeStart extends PropagateWatermarkSimulator {
  /** Less than all times and all watermarks, and far enough from the least number for what Spark subtracts from it. */
  static final long NONE = Long.MIN_VALUE / 2000;

  /** 0001-01-01T00:00:00Z: what a function with timers is told, since Python can represent it. */
  private static final long FIRST_YEAR = -62_135_596_800_000L;

  private final Map<Long, Long> told = new HashMap<>();
  private long lastWithout = 0;

  /** Lets the queries of a session that start from now on tell their operators such watermarks. */
  static void prepare(SparkSession session) {
    if (Arrays.stream(session.streams().listListeners()).noneMatch(Installer.class::isInstance)) {
      session.streams().addListener(new Installer(session));
    }
  }

  /** Returns what Spark calls the watermark of a batch, NONE in place of the 0 with which it begins. */
  long of(long batch, long watermark) {
    return watermark == 0 && batch <= lastWithout ? NONE : watermark;
  }

  /** Notes that the query had no watermark up to a batch, whose watermark is 0. */
  void hadNone(long batch) {
    lastWithout = batch;
    purge(Long.MAX_VALUE);
  }

  @Override
  public void propagate(long batch, SparkPlan plan, long watermark) {
    plan.foreach(
        node -> {
          // Spark lets functions set timeouts from 1970 on only, and refuses to tell them a lower watermark.
          if (node instanceof FlatMapGroupsWithStateExecBase) {
            told.put(id(node), 0L);
          } else if (node instanceof TransformWithStateExecBase) {
            told.put(id(node), FIRST_YEAR);
          }
          return null;
        });
    // Spark takes a 0 for none, and would not ask the operators what their output obeys.
    long known = of(batch, watermark);
    super.propagate(batch, plan, known == 0 ? -1 : known);
  }

  @Override
  public long getInputWatermarkForLateEvents(long batch, long operator) {
    return input(batch - 1, operator);
  }

  @Override
  public long getInputWatermarkForEviction(long batch, long operator) {
    return Math.max(input(batch, operator), told.getOrDefault(operator, NONE));
  }

  private static long id(SparkPlan node) {
    return ((StatefulOperator) node).getStateInfo().operatorId();
  }

  @SuppressWarnings("unchecked")
  private long input(long batch, long operator) {
    try {
      var byBatch =
          (scala.collection.mutable.Map<Object, scala.collection.immutable.Map<Object, Option<Object>>>)
              Watermarks.value(this, "inputWatermarks");
      var byOperator = byBatch.get(batch);
      Option<Option<Object>> found = byOperator.isEmpty() ? Option.empty() : byOperator.get().get(operator);
      return found.isEmpty() || found.get().isEmpty() ? NONE : (Long) found.get().get();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Spark calls it on the query's thread, before the query looks for data. */
  private static final class Installer extends StreamingQueryListener {
    private static final long serialVersionUID = 1;
    private final transient SparkSession session;

    Installer(SparkSession session) {
      this.session = session;
    }

    @Override
    public void onQueryStarted(QueryStartedEvent event) {
      StreamingQuery query = session.streams().get(event.id());
      if (query instanceof StreamingQueryWrapper wrapper) {
        try {
          Watermarks.set(wrapper.streamingQuery(), "watermarkPropagator", new EventTimeStart());
        } catch (ReflectiveOperationException error) {
          throw new IllegalStateException(error);
        }
      }
    }

    @Override
    public void onQueryProgress(QueryProgressEvent event) {}

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {}
  }
}
