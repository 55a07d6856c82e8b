package io.streamjob.executors;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/** Which executors Spark's driver has, in the order in which they came and went. */
public final class ExecutorEvents extends SparkListener {
  private final BlockingQueue<String[]> events = new LinkedBlockingQueue<>();

  /** Returns the events of a driver from now on. */
  public static ExecutorEvents of(SparkContext context) {
    ExecutorEvents events = new ExecutorEvents();
    context.addSparkListener(events);
    return events;
  }

  /** Returns the next event, `added <id> <host>` or `removed <id> <reason>`; null if there is none in time. */
  public String[] next(long milliseconds) throws InterruptedException {
    return events.poll(milliseconds, TimeUnit.MILLISECONDS);
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    events.add(new String[] {"added", event.executorId(), event.executorInfo().executorHost()});
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    events.add(new String[] {"removed", event.executorId(), event.reason()});
  }
}
