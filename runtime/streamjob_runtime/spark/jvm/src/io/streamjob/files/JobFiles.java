package io.streamjob.files;

import io.streamjob.process.Agent;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/**
 * The directory in which this process keeps the files that `job:/…` paths name.
 *
 * <p>A job's checkpoints have the same names in all of its processes, and each process has them on its own disk.
 */
public final class JobFiles {
  public static final String SCHEME = "job";
  public static final String DIRECTORY = "streamjob.files";

  /** The directory of a state store: a partition's own, or one of several that the partition has. */
  private static final Pattern STORE = Pattern.compile("/\\d+/[^/]+/checkpoint/state/\\d+/\\d+(/[^/]+)?");
  private static final Pattern NO_STORE = Pattern.compile(".*/(_metadata|SSTs|logs|[^/]*\\.(changelog|zip|tmp))");

  private static final Map<String, CompletableFuture<Void>> done = new ConcurrentHashMap<>();
  private static volatile Agent agent;

  private JobFiles() {}

  /**
   * Lets an agent bring the files that this process does not have; without one, the process has all of a job's files.
   *
   * @param socket the Unix socket on which the agent waits
   * @throws IOException there is no agent
   */
  public static void connect(Path socket) throws IOException {
    agent = new Agent(socket);
  }

  /**
   * Takes over a state store when it is opened here for the first time: the agent brings its files before anybody looks.
   *
   * @param path any path; only that of a state store's directory has an effect
   */
  static void adopt(org.apache.hadoop.fs.Path path) {
    Agent asked = agent;
    if (asked == null || !SCHEME.equals(path.toUri().getScheme())) {
      return;
    }
    String store = path.toUri().getPath();
    if (!STORE.matcher(store).matches() || NO_STORE.matcher(store).matches()) {
      return;
    }
    once(asked, "adopt", store);
  }

  /**
   * Returns the directory for this process's segments of a stream; it exists.
   *
   * @param location the stream's directory, as a `job:/…` path or a path of the local file system
   */
  public static Path stream(String location) throws IOException {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(location);
    Agent asked = agent;
    if (asked != null) {
      once(asked, "begin", path.toUri().getPath());
    }
    return Files.createDirectories(local(path));
  }

  /**
   * Returns a segment of a stream, which the agent brings if this process does not have it.
   *
   * @param location the stream's directory, see {@link #stream}
   * @param name the segment's name
   */
  public static Path segment(String location, String name) {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(location, name);
    Path file = local(path);
    Agent asked = agent;
    if (asked != null && !Files.exists(file)) {
      asked.ask("bring", path.toUri().getPath());
    }
    return file;
  }

  /** Asks for something that is done only once; all others wait until it is done. */
  private static void once(Agent asked, String verb, String path) {
    CompletableFuture<Void> mine = new CompletableFuture<>();
    CompletableFuture<Void> first = done.putIfAbsent(path, mine);
    if (first != null) {
      try {
        first.join();
      } catch (CompletionException e) {
        throw (RuntimeException) e.getCause();
      }
      return;
    }
    try {
      asked.ask(verb, path);
      mine.complete(null);
    } catch (RuntimeException e) {
      done.remove(path);
      mine.completeExceptionally(e);
      throw e;
    }
  }

  /**
   * Returns where a file is on this process's disk.
   *
   * @param path a `job:/…` path, or a path of the local file system
   * @throws IllegalArgumentException it names a file elsewhere
   * @throws IllegalStateException this process has no directory for a job's files
   */
  public static Path local(org.apache.hadoop.fs.Path path) {
    URI uri = path.toUri();
    String scheme = uri.getScheme();
    if (SCHEME.equals(scheme)) {
      return directory().resolve(uri.getPath().substring(1));
    }
    if (scheme == null || scheme.equals("file")) {
      return Path.of(uri.getPath());
    }
    throw new IllegalArgumentException(
        path + " is not on a local disk, where Spark keeps a job's checkpoints; name a local directory");
  }

  private static Path directory() {
    String directory = System.getProperty(DIRECTORY);
    if (directory == null) {
      throw new IllegalStateException(
          "This process has no directory for a job's files; start Java with -D" + DIRECTORY + "=<directory>");
    }
    return Path.of(directory);
  }
}
