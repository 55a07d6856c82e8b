package io.streamjob.files;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark's checkpoint files by java.nio alone, in this process's directory for a job's files or another local one.
 *
 * <p>Spark's own managers go through Hadoop's local file system, which starts processes (chmod, readlink) and writes
 * checksum files next to each file: some 40 processes a micro-batch. Files appear by atomic rename. Nothing is synced:
 * streamjob never trusts a local directory after a failure, it restores from the snapshot store.
 */
public final class JobFileManager implements CheckpointFileManager {
  private static final int BUFFER_BYTES = 64 * 1024;

  private final RawLocalFileSystem named = new JobFileSystem();
  private final RawLocalFileSystem plain = new RawLocalFileSystem();
  private final Path root;

  public JobFileManager(Path path, Configuration configuration) throws IOException {
    named.initialize(named.getUri(), configuration);
    plain.initialize(plain.getUri(), configuration);
    root = path;
  }

  /** Spark opens a schema by the URI in the metadata of state, which need not be of the kind of the checkpoint's own. */
  private RawLocalFileSystem files(Path path) {
    return JobFiles.SCHEME.equals(path.toUri().getScheme()) ? named : plain;
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    JobFiles.adopt(path.getParent());
    java.nio.file.Path target = JobFiles.local(path);
    java.nio.file.Path temporary = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    if (!overwrite && Files.exists(target)) {
      throw sneak(new FileAlreadyExistsException(target + " exists"));
    }
    try {
      return new AtomicFile(open(temporary), temporary, target, overwrite);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static OutputStream open(java.nio.file.Path file) throws IOException {
    try {
      return new BufferedOutputStream(Files.newOutputStream(file), BUFFER_BYTES);
    } catch (NoSuchFileException e) {
      Files.createDirectories(file.getParent());
      return new BufferedOutputStream(Files.newOutputStream(file), BUFFER_BYTES);
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    JobFiles.adopt(path.getParent());
    try {
      return files(path).open(path, BUFFER_BYTES);
    } catch (IOException e) {
      throw sneak(e);
    }
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    JobFiles.adopt(path);
    try {
      return files(path).listStatus(path, filter);
    } catch (IOException e) {
      throw sneak(e);
    }
  }

  @Override
  public void mkdirs(Path path) {
    try {
      Files.createDirectories(JobFiles.local(path));
    } catch (IOException e) {
      throw sneak(e);
    }
  }

  @Override
  public boolean exists(Path path) {
    JobFiles.adopt(path);
    return Files.exists(JobFiles.local(path));
  }

  @Override
  public void delete(Path path) {
    try {
      java.nio.file.Path file = JobFiles.local(path);
      if (Files.isDirectory(file)) {
        FileUtil.fullyDelete(file.toFile());
      } else {
        Files.deleteIfExists(file);
      }
    } catch (IOException e) {
      throw sneak(e);
    }
  }

  @Override
  public boolean isLocal() {
    return true;
  }

  @Override
  public Path createCheckpointDirectory() {
    Path qualified = files(root).makeQualified(root);
    mkdirs(qualified);
    return qualified;
  }

  /** Throws a checked exception that the Scala interface does not declare. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneak(Throwable e) throws E {
    throw (E) e;
  }

  private static final class AtomicFile extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final OutputStream out;
    private final java.nio.file.Path temporary;
    private final java.nio.file.Path target;
    private final boolean overwrite;
    private boolean done;

    AtomicFile(OutputStream out, java.nio.file.Path temporary, java.nio.file.Path target, boolean overwrite) {
      super(out);
      this.out = out;
      this.temporary = temporary;
      this.target = target;
      this.overwrite = overwrite;
    }

    @Override
    public synchronized void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      out.close();
      if (overwrite) {
        Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
        return;
      }
      try {
        Files.createLink(target, temporary);
      } catch (java.nio.file.FileAlreadyExistsException e) {
        throw new FileAlreadyExistsException(target + " exists");
      } finally {
        Files.deleteIfExists(temporary);
      }
    }

    @Override
    public synchronized void cancel() {
      if (done) {
        return;
      }
      done = true;
      try {
        out.close();
        Files.deleteIfExists(temporary);
      } catch (IOException e) {
        // A left-over temporary file begins with a dot: nothing reads it, and the directory is dropped after the run.
      }
    }
  }
}
