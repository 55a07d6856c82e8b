package io.streamjob.process;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import javax.management.JMException;
import javax.management.ObjectName;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordedThread;
import jdk.jfr.consumer.RecordingFile;

/**
 * Tells where this process spends its CPU time: samples stacks with the JDK's Flight Recorder, and counts equal ones.
 *
 * <p>The recorder sees one thread in native code per period, and most of those wait. So samples only divide the CPU time
 * of threads with the same name, which the operating system counts: first among stacks in Java, and what is left among
 * stacks in native code. On a busy machine periods are longer than asked for; since some thread is always in native
 * code, the number of those samples is the number of periods.
 */
public final class Profiler {
  private static final String JAVA = "jdk.ExecutionSample";
  private static final String NATIVE = "jdk.NativeMethodSample";
  private static final String TASKS = "Executor task launch worker";
  private static final String IDLE = "Executor task idle worker";
  private static final int DEPTH = 256;
  private static final int PERIOD_MILLIS = 10;

  /** The unit of times in /proc, on every architecture of Linux. */
  private static final double TICK_MILLIS = 10;

  private static final Set<String> WAITING =
      Set.of(
          "accept", "accept0", "epollWait", "park", "poll", "poll0", "read0", "readv0", "recv0", "select", "sleep",
          "socketAccept", "socketRead0", "wait", "wait0", "waitForProcessExit0", "waitForReferencePendingList");

  private static volatile boolean running;

  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private final OperatingSystemMXBean system =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
  private final Map<Long, Long> cpuBefore;
  private final Map<String, Double> helpersBefore;
  private final long processBefore;
  private final Recording recording;
  private final long started;

  private Profiler() {
    deepen();
    recording = new Recording();
    recording.setName("streamjob");
    recording.enable(JAVA).withPeriod(Duration.ofMillis(PERIOD_MILLIS));
    recording.enable(NATIVE).withPeriod(Duration.ofMillis(PERIOD_MILLIS));
    cpuBefore = cpuOfThreads();
    helpersBefore = cpuOfHelpers();
    processBefore = system.getProcessCpuTime();
    recording.start();
    started = System.nanoTime();
  }

  /**
   * Samples for some time; returns a line for each stack: its frames from the thread's name on, and milliseconds.
   *
   * @throws IllegalStateException another profile is being recorded
   */
  public static String record(long millis) throws IOException, InterruptedException {
    synchronized (Profiler.class) {
      if (running) {
        throw new IllegalStateException("A profile is being recorded already");
      }
      running = true;
    }
    try {
      Profiler profiler = new Profiler();
      try (profiler.recording) {
        Thread.sleep(millis);
        return profiler.end();
      }
    } finally {
      running = false;
    }
  }

  private String end() throws IOException {
    recording.stop();
    double elapsed = (System.nanoTime() - started) / 1e6;
    Map<Long, Long> cpu = cpuOfThreads();
    long process = system.getProcessCpuTime() - processBefore;
    Path file = Files.createTempFile("streamjob", ".jfr");
    try {
      recording.dump(file);
      return folded(file, elapsed, cpu, process);
    } finally {
      Files.delete(file);
    }
  }

  private String folded(Path file, double elapsed, Map<Long, Long> cpuAfter, long process) throws IOException {
    Map<String, Group> groups = new HashMap<>();
    long inThreads = 0;
    for (Map.Entry<Long, Long> each : cpuAfter.entrySet()) {
      java.lang.management.ThreadInfo info = threads.getThreadInfo(each.getKey());
      long spent = each.getValue() - cpuBefore.getOrDefault(each.getKey(), 0L);
      if (info != null && spent > 0) {
        groups.computeIfAbsent(label(info.getThreadName()), name -> new Group()).cpu += spent / 1e6;
        inThreads += spent;
      }
    }
    int periods = 0;
    try (RecordingFile events = new RecordingFile(file)) {
      while (events.hasMoreEvents()) {
        RecordedEvent event = events.readEvent();
        boolean inJava = event.getEventType().getName().equals(JAVA);
        periods += inJava ? 0 : 1;
        RecordedStackTrace trace = event.getStackTrace();
        RecordedThread thread = event.getThread("sampledThread");
        if (trace == null || thread == null || thread.getJavaName() == null || trace.getFrames().isEmpty()) {
          continue;
        }
        if (inJava || !WAITING.contains(trace.getFrames().get(0).getMethod().getName())) {
          Group group = groups.computeIfAbsent(label(thread.getJavaName()), name -> new Group());
          (inJava ? group.inJava : group.inNative).merge(stack(trace), 1, Integer::sum);
        }
      }
    }
    StringBuilder lines = new StringBuilder();
    double period = periods == 0 ? PERIOD_MILLIS : Math.max(PERIOD_MILLIS, elapsed / periods);
    groups.forEach((name, group) -> group.write(lines, name, period));
    double rest = (process - inThreads) / 1e6;
    for (Map.Entry<String, Double> each : cpuOfHelpers().entrySet()) {
      double spent = Math.min(rest, each.getValue() - helpersBefore.getOrDefault(each.getKey(), 0.0));
      line(lines, each.getKey(), spent);
      rest -= Math.max(0, spent);
    }
    line(lines, "[other threads of Java itself, ended threads]", rest);
    return lines.toString();
  }

  private Map<Long, Long> cpuOfThreads() {
    long[] ids = threads.getAllThreadIds();
    long[] times = threads.getThreadCpuTime(ids);
    Map<Long, Long> found = new HashMap<>();
    for (int i = 0; i < ids.length; i++) {
      if (times[i] >= 0) {
        found.put(ids[i], times[i]);
      }
    }
    return found;
  }

  /** Returns the milliseconds of the threads that Java has for itself, which only the kernel names. */
  private static Map<String, Double> cpuOfHelpers() {
    Map<String, Double> found = new HashMap<>();
    try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path task : tasks) {
        try {
          String stat = Files.readString(task.resolve("stat"));
          String name = stat.substring(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
          String kind =
              name.startsWith("C1 Comp") || name.startsWith("C2 Comp")
                  ? "[compiler]"
                  : name.startsWith("GC Thread") || name.startsWith("G1 ") || name.equals("VM Thread")
                      ? "[garbage collection]"
                      : null;
          if (kind != null) {
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            found.merge(kind, (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * TICK_MILLIS, Double::sum);
          }
        } catch (IOException e) {
          // The thread has ended.
        }
      }
    } catch (IOException e) {
      // There is no such directory: then these threads have no names of their own in the profile.
    }
    return found;
  }

  private static String stack(RecordedStackTrace trace) {
    List<String> frames = new ArrayList<>();
    for (RecordedFrame frame : trace.getFrames()) {
      String type = frame.getMethod().getType().getName();
      // Each of the classes that Java makes for a lambda has a name of its own.
      int lambda = type.indexOf("$$Lambda");
      int hidden = type.indexOf("/0x");
      String plain = lambda >= 0 ? type.substring(0, lambda) + "$$Lambda" : hidden >= 0 ? type.substring(0, hidden) : type;
      frames.add((plain + "." + frame.getMethod().getName()).replace(';', ','));
    }
    if (trace.isTruncated()) {
      frames.add("[deeper]");
    }
    Collections.reverse(frames);
    return String.join(";", frames);
  }

  /** Returns the name that threads with the same work share. */
  private static String label(String thread) {
    // Spark renames a thread between two tasks. Its time belongs to tasks, whatever it is called when it is asked.
    String name = thread.startsWith(IDLE) ? TASKS : thread.replace(';', ',').replace('\n', ' ');
    for (String behind : List.of(" for task ", " [id = ", "-#")) {
      int at = name.indexOf(behind);
      name = at > 0 ? name.substring(0, at) : name;
    }
    String plain = name.replaceAll("[- ]*\\d+$", "");
    return plain.isEmpty() ? name : plain;
  }

  /** Has the recorder keep whole stacks, Spark's being deep; works before the recorder is used the first time. */
  private static void deepen() {
    try {
      ManagementFactory.getPlatformMBeanServer()
          .invoke(
              new ObjectName("com.sun.management:type=DiagnosticCommand"),
              "jfrConfigure",
              new Object[] {new String[] {"stackdepth=" + DEPTH}},
              new String[] {String[].class.getName()});
    } catch (JMException e) {
      // A Java without this command cuts stacks, which a frame then says.
    }
  }

  private static void line(StringBuilder lines, String stack, double millis) {
    if (millis >= 0.05) {
      lines.append(stack).append(' ').append(String.format(Locale.ROOT, "%.1f", millis)).append('\n');
    }
  }

  /** Threads with the same name. */
  private static final class Group {
    final Map<String, Integer> inJava = new HashMap<>();
    final Map<String, Integer> inNative = new HashMap<>();
    double cpu;

    void write(StringBuilder lines, String name, double period) {
      if (inJava.isEmpty() && inNative.isEmpty()) {
        line(lines, name + ";[not sampled]", cpu);
        return;
      }
      double java = inNative.isEmpty() ? cpu : Math.min(cpu, count(inJava) * period);
      divide(lines, name, inJava, java);
      divide(lines, name, inNative, cpu - java);
    }

    private static int count(Map<String, Integer> stacks) {
      return stacks.values().stream().mapToInt(Integer::intValue).sum();
    }

    private static void divide(StringBuilder lines, String name, Map<String, Integer> stacks, double millis) {
      int all = count(stacks);
      stacks.forEach((stack, count) -> line(lines, name + ";" + stack, millis * count / all));
    }
  }
}
