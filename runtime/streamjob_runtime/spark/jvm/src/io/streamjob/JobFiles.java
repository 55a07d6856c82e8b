package io.streamjob;

import java.net.URI;
import java.nio.file.Path;

/**
 * The directory in which this process keeps the files that `job:/…` paths name.
 *
 * <p>A job's checkpoints have the same names in all of its processes, and each process has them on its own disk.
 */
public final class JobFiles {
  public static final String SCHEME = "job";
  public static final String DIRECTORY = "streamjob.files";

  private JobFiles() {}

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
