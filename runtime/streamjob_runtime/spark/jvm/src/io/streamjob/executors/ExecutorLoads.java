package io.streamjob.executors;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;
import scala.jdk.javaapi.CollectionConverters;

/** The work of each executor's tasks, and the rows of state that they had in the last batches. */
public final class ExecutorLoads extends SparkListener {
  /** Spark's name for the rows in the state of an operator. */
  private static final String STATE_ROWS = "number of total state rows";

  /** Spark's names for the query and the batch of a job. */
  private static final String QUERY = "sql.streaming.queryId";

  private static final String BATCH = "streaming.sql.batchId";

  private static final class Done {
    long tasks;
    long milliseconds;
    long records;
    long bytes;
  }

  /** A running job of a query's batch. */
  private record Job(String query, String batch, Map<String, Long> rows) {
    long total() {
      return rows.values().stream().mapToLong(Long::longValue).sum();
    }
  }

  private final Map<String, Done> done = new HashMap<>();
  private final Map<Integer, Job> jobs = new HashMap<>();
  private final Map<Integer, Integer> jobOfStage = new HashMap<>();
  private final Map<String, Job> lastOfQuery = new HashMap<>();

  /** Returns the loads of a driver's executors from now on. */
  public static ExecutorLoads of(SparkContext context) {
    ExecutorLoads loads = new ExecutorLoads();
    context.addSparkListener(loads);
    return loads;
  }

  /**
   * Returns a line for each executor that has ended a task: its id, tasks, their milliseconds, records and bytes that
   * they have read from sources and from other tasks, and rows of state, separated by blanks.
   */
  public synchronized String lines() {
    Map<String, Long> rows = new HashMap<>();
    for (Job job : lastOfQuery.values()) {
      job.rows.forEach((executor, count) -> rows.merge(executor, count, Long::sum));
    }
    StringBuilder lines = new StringBuilder();
    done.forEach(
        (executor, each) ->
            lines
                .append(executor)
                .append(' ')
                .append(each.tasks)
                .append(' ')
                .append(each.milliseconds)
                .append(' ')
                .append(each.records)
                .append(' ')
                .append(each.bytes)
                .append(' ')
                .append(rows.getOrDefault(executor, 0L))
                .append('\n'));
    return lines.toString();
  }

  @Override
  public synchronized void onJobStart(SparkListenerJobStart event) {
    Properties properties = event.properties();
    String query = properties == null ? null : properties.getProperty(QUERY);
    if (query == null) {
      return;
    }
    jobs.put(event.jobId(), new Job(query, properties.getProperty(BATCH, ""), new HashMap<>()));
    for (Object stage : CollectionConverters.asJava(event.stageIds())) {
      jobOfStage.put((Integer) stage, event.jobId());
    }
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    String executor = event.taskInfo().executorId();
    Done mine = done.computeIfAbsent(executor, id -> new Done());
    mine.tasks++;
    TaskMetrics metrics = event.taskMetrics();
    if (metrics != null) {
      mine.milliseconds += metrics.executorRunTime();
      mine.records += metrics.inputMetrics().recordsRead() + metrics.shuffleReadMetrics().recordsRead();
      mine.bytes += metrics.inputMetrics().bytesRead() + metrics.shuffleReadMetrics().totalBytesRead();
    }
    Job job = jobs.get(jobOfStage.get(event.stageId()));
    if (job == null || !event.taskInfo().successful()) {
      return;
    }
    for (AccumulableInfo each : CollectionConverters.asJava(event.taskInfo().accumulables())) {
      if (each.name().contains(STATE_ROWS) && each.update().isDefined()) {
        job.rows.merge(executor, ((Number) each.update().get()).longValue(), Long::sum);
      }
    }
  }

  @Override
  public synchronized void onJobEnd(SparkListenerJobEnd event) {
    Job job = jobs.remove(event.jobId());
    jobOfStage.values().removeIf(id -> id == event.jobId());
    if (job == null || job.rows.isEmpty()) {
      return;
    }
    // A sink may have several jobs for a batch, of which later ones repeat a part of the work.
    Job last = lastOfQuery.get(job.query);
    if (last == null || !last.batch.equals(job.batch) || job.total() > last.total()) {
      lastOfQuery.put(job.query, job);
    }
  }

  @Override
  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof QueryTerminatedEvent terminated) {
      lastOfQuery.remove(terminated.id().toString());
    }
  }
}
