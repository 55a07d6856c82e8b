package io.streamjob.files;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * `job:/…`, the files of a job: each process has them in a directory of its own, see {@link JobFiles}.
 *
 * <p>Spark copies each SST file of RocksDB into the checkpoint, and back when it opens the state. Nobody writes into a
 * finished SST file, so a hard link does the same without reading or writing its content. The other files that Spark
 * copies are RocksDB's logs. RocksDB may write to a log again, so logs are copied.
 */
public final class JobFileSystem extends OutputFileSystem {
  private static final URI ROOT = URI.create(JobFiles.SCHEME + ":///");
  private static final String LINKED = ".sst";

  @Override
  public String getScheme() {
    return JobFiles.SCHEME;
  }

  @Override
  public URI getUri() {
    return ROOT;
  }

  @Override
  public File pathToFile(Path path) {
    checkPath(path);
    return JobFiles.local(makeQualified(path)).toFile();
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    try {
      BasicFileAttributes found = Files.readAttributes(pathToFile(path).toPath(), BasicFileAttributes.class);
      long changed = found.lastModifiedTime().toMillis();
      Path qualified = makeQualified(path);
      return new FileStatus(found.size(), found.isDirectory(), 1, getDefaultBlockSize(path), changed, qualified);
    } catch (NoSuchFileException e) {
      throw missing(path, e);
    }
  }

  @Override
  public void copyFromLocalFile(boolean moves, boolean overwrites, Path from, Path to) throws IOException {
    if (moves || !overwrites || !to.getName().endsWith(LINKED)) {
      super.copyFromLocalFile(moves, overwrites, from, to);
      return;
    }
    java.nio.file.Path file = JobFiles.local(from);
    try {
      // A link shows the time of its content. Spark deletes files that no snapshot names, if they are older than all
      // that a snapshot names: a new one must be as young as a copy would be, from its first moment on.
      Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
      link(file, pathToFile(to).toPath());
    } catch (NoSuchFileException e) {
      throw missing(from, e);
    }
  }

  @Override
  public void copyToLocalFile(boolean moves, Path from, Path to, boolean raw) throws IOException {
    if (moves || !from.getName().endsWith(LINKED)) {
      super.copyToLocalFile(moves, from, to, raw);
      return;
    }
    try {
      link(pathToFile(from).toPath(), JobFiles.local(to));
    } catch (NoSuchFileException e) {
      throw missing(from, e);
    }
  }

  private static void link(java.nio.file.Path from, java.nio.file.Path to) throws IOException {
    Files.createDirectories(to.getParent());
    Files.deleteIfExists(to);
    try {
      Files.createLink(to, from);
    } catch (FileSystemException | UnsupportedOperationException e) {
      // They are on two file systems, or the file has as many links as it can have.
      Files.copy(from, to);
    }
  }

  private static FileNotFoundException missing(Path path, NoSuchFileException cause) {
    FileNotFoundException missing = new FileNotFoundException(path + " does not exist");
    missing.initCause(cause);
    return missing;
  }
}
