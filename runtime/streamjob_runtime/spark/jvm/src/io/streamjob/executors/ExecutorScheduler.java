package io.streamjob.executors;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.TaskDescription;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.scheduler.WorkerOffer;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Spark's scheduler, whose tasks do not wait for a lost executor.
 *
 * <p>A task waits for the executor that it prefers, which may have its state, for up to {@code
 * spark.locality.wait.process}: long, since that executor may be busy. Spark lets it wait as long for a lost executor,
 * if another task of its stage prefers one that is there. Readers of Kafka have such preferences without any state.
 */
final class ExecutorScheduler extends TaskSchedulerImpl {
  /** The numbers of lost executors, which never come back. */
  private final Set<String> lost = ConcurrentHashMap.newKeySet();

  ExecutorScheduler(SparkContext context) {
    super(context);
  }

  @Override
  public void executorLost(String executor, ExecutorLossReason reason) {
    lost.add(executor);
    super.executorLost(executor, reason);
    // Spark does this only for an executor that was offered a task; readers of Kafka would prefer another one for ever.
    sc().env().blockManager().master().removeExecutorAsync(executor);
  }

  @Override
  public synchronized Seq<Seq<TaskDescription>> resourceOffers(IndexedSeq<WorkerOffer> offers, boolean all) {
    if (!lost.isEmpty()) {
      rootPool().getSortedTaskSetQueue().foreach(this::forgetLost);
    }
    return super.resourceOffers(offers, all);
  }

  private Object forgetLost(TaskSetManager tasks) {
    return tasks.pendingTasks().forExecutor().filterInPlace((executor, waiting) -> !lost.contains(executor));
  }
}
