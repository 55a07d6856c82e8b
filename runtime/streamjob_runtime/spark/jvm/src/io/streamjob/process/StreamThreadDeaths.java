package io.streamjob.process;

/**
 * Keeps the death of a query's thread off standard error.
 *
 * <p>A query that is stopped within a batch dies of an interrupt, and Spark then describes it with a regular expression
 * that overflows the stack: a thousand lines about nothing. The runtime notices by itself that a query has ended, and
 * why. Every other thread's death is printed as Java prints it.
 */
public final class StreamThreadDeaths implements Thread.UncaughtExceptionHandler {
  private static final String STREAM_THREADS = "stream execution thread";

  private StreamThreadDeaths() {}

  /** Takes over the handling of exceptions that nobody catches, in this whole process. */
  public static void install() {
    Thread.setDefaultUncaughtExceptionHandler(new StreamThreadDeaths());
  }

  @Override
  public void uncaughtException(Thread thread, Throwable cause) {
    if (thread.getName().startsWith(STREAM_THREADS)) {
      return;
    }
    System.err.print("Exception in thread \"" + thread.getName() + "\" ");
    cause.printStackTrace(System.err);
  }
}
