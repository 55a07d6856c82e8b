package io.streamjob.executors;

import io.streamjob.files.JobFiles;
import java.nio.file.Path;
import org.apache.spark.executor.CoarseGrainedExecutorBackend;

/** The main class of an executor: connects to the agent that started it, then runs Spark's own executor. */
public final class ExecutorProcess {
  private ExecutorProcess() {}

  public static void main(String[] arguments) throws Exception {
    JobFiles.connect(Path.of(arguments[0]));
    CoarseGrainedExecutorBackend.main(java.util.Arrays.copyOfRange(arguments, 1, arguments.length));
  }
}
