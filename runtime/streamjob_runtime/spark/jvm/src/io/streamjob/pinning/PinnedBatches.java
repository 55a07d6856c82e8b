package io.streamjob.pinning;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqBase;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataV2;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecutionContext;
import org.apache.spark.sql.execution.streaming.runtime.SingleBatchExecutor;
import org.apache.spark.sql.execution.streaming.runtime.StreamProgress;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TriggerExecutor;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import scala.Function1;
import scala.runtime.AbstractFunction0;

/**
 * Batches that a query begins with, each as it ran before: up to the same offsets, at the same time, with the same
 * watermark. Then the query goes on by itself.
 */
public final class PinnedBatches extends StreamingQueryListener {
  private static final long serialVersionUID = 1L;

  private final transient SparkSession session;
  private final String name;
  private final transient List<String> entries;

  private PinnedBatches(SparkSession session, String name, List<String> entries) {
    this.session = session;
    this.name = name;
    this.entries = entries;
  }

  /**
   * Lets the next query of this name begin with batches; call {@link #remove} when it has been started.
   *
   * @param entries the text of each batch's entry in Spark's offset log.
   */
  public static PinnedBatches prepare(SparkSession session, String name, List<String> entries) {
    PinnedBatches batches = new PinnedBatches(session, name, List.copyOf(entries));
    session.streams().addListener(batches);
    return batches;
  }

  /** Lets queries that start from now on begin as usual. */
  public void remove() {
    session.streams().removeListener(this);
  }

  /** Spark calls it on the query's thread, before the query makes its sources; and waits for it. */
  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    if (name.equals(event.name())
        && session.streams().get(event.id()) instanceof StreamingQueryWrapper wrapper
        && wrapper.streamingQuery() instanceof MicroBatchExecution query) {
      // This also makes the executor of the query's trigger.
      query.sparkSessionForStream().withActive(
          new AbstractFunction0<Object>() {
            @Override
            public Object apply() {
              return query.logicalPlan();
            }
          });
      query.triggerExecutor_$eq(new Executor(query, query.triggerExecutor(), entries));
    }
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {}

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {}

  /**
   * Plans the batches, and then gives the query back to the executor of its trigger.
   *
   * <p>Spark plans a batch only if none is planned: so it repeats the last one after a restart, and so it runs these.
   */
  private static final class Executor extends SingleBatchExecutor {
    private static final long serialVersionUID = 1L;

    private final transient MicroBatchExecution query;
    private final transient TriggerExecutor live;
    private final transient Queue<String> entries;
    private transient MicroBatchExecutionContext next;

    Executor(MicroBatchExecution query, TriggerExecutor live, List<String> entries) {
      this.query = query;
      this.live = live;
      this.entries = new ArrayDeque<>(entries);
    }

    @Override
    public void setNextBatch(MicroBatchExecutionContext context) {
      next = context;
    }

    @Override
    public void execute(Function1<MicroBatchExecutionContext, Object> run) {
      boolean active = true;
      while (active && !entries.isEmpty()) {
        plan(entries.remove());
        active = (Boolean) run.apply(next);
      }
      query.triggerExecutor_$eq(live);
      live.setNextBatch(next);
      if (active) {
        live.execute(run);
      }
    }

    private void plan(String text) {
      query.awaitProgressLock().lock();
      try {
        if (next.isCurrentBatchConstructed()) {
          // Spark had planned it before a crash. The chain compares the plan with the pinned one before it computes.
          return;
        }
        OffsetSeqBase entry =
            query.offsetLog().deserialize(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
        StreamProgress end = entry.toStreamProgress(query.sources(), query.sourceIdMap());
        next.endOffsets_$eq(next.endOffsets().$plus$plus(end));
        next.latestOffsets_$eq(next.latestOffsets().$plus$plus(end));
        OffsetSeqMetadataBase pinned = entry.metadataOpt().get();
        long watermark = pinned.batchWatermarkMs();
        query.watermarkTracker().setWatermark(Math.max(query.watermarkTracker().currentWatermark(), watermark));
        next.offsetSeqMetadata_$eq(metadata(next.offsetSeqMetadata(), watermark, pinned.batchTimestampMs()));
        query.markMicroBatchStart(next);
        query.cleanUpLastExecutedMicroBatch(next);
        next.isCurrentBatchConstructed_$eq(true);
      } finally {
        query.awaitProgressLock().unlock();
      }
    }

    /** The settings stay those of the checkpoint, which may have been restored with another number of partitions. */
    private static OffsetSeqMetadataBase metadata(OffsetSeqMetadataBase before, long watermark, long time) {
      return before instanceof OffsetSeqMetadataV2 named
          ? named.copy(watermark, time, named.conf(), named.sourceMetadataInfo(), named.controlBatchInfo())
          : new OffsetSeqMetadata(watermark, time, before.conf());
    }
  }
}
