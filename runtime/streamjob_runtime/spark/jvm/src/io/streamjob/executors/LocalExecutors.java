package io.streamjob.executors;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;

/**
 * The master `local-executors`: Spark starts no executors, they register by themselves.
 *
 * <p>The name begins with `local` because Spark's launcher refuses masters that it does not know.
 */
public final class LocalExecutors implements ExternalClusterManager {
  public static final String MASTER = "local-executors";

  @Override
  public boolean canCreate(String master) {
    return MASTER.equals(master);
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    return new ExecutorScheduler(context);
  }

  @Override
  public SchedulerBackend createSchedulerBackend(SparkContext context, String master, TaskScheduler scheduler) {
    return new CoarseGrainedSchedulerBackend((TaskSchedulerImpl) scheduler, context.env().rpcEnv());
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
