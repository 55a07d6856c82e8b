package io.streamjob.filesource;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * A stream of the files in an inbox. Entry {@code n} of its log has the files of its n-th batch; its position is the
 * last entry that was read. It goes on behind the log of Spark's own stream, too.
 */
public final class FileSource implements Source, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final String OF_SPARK = "logOffset";
  private static final Pattern POSITION = Pattern.compile("\\{\"(?:files|" + OF_SPARK + ")\":(\\d+)}");
  private static final Pattern ENTRY = Pattern.compile("(\\d+)(?:\\.compact)?");
  private static final String VERSION = "v1";

  private final DiscoveredFiles files;
  private final FileInbox inbox;
  private final Path log;
  private final CheckpointFileManager manager;
  private long last;
  private boolean limited;

  FileSource(DiscoveredFiles files, FileInbox inbox, Path log) {
    this.files = files;
    this.inbox = inbox;
    this.log = log;
    this.manager = CheckpointFileManager.create(log, files.session().sessionState().newHadoopConf());
    if (!manager.exists(log)) {
      manager.mkdirs(log);
    }
    this.last =
        Arrays.stream(manager.list(log))
            .map(each -> ENTRY.matcher(each.getPath().getName()))
            .filter(Matcher::matches)
            .mapToLong(name -> Long.parseLong(name.group(1)))
            .max()
            .orElse(-1);
  }

  private static final class Position extends Offset {
    private final long entry;

    Position(long entry) {
      this.entry = entry;
    }

    @Override
    public String json() {
      return "{\"files\":" + entry + "}";
    }
  }

  private static long entryOf(org.apache.spark.sql.connector.read.streaming.Offset offset) {
    Matcher matcher = POSITION.matcher(offset.json());
    if (!matcher.matches()) {
      throw new IllegalArgumentException("No position of a source of files: " + offset.json());
    }
    return Long.parseLong(matcher.group(1));
  }

  /** Returns whether there was more to read than went into the last batch. */
  public boolean wasLimited() {
    return limited;
  }

  @Override
  public StructType schema() {
    return files.sourceInfo().schema();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return files.limit();
  }

  /** All files that are to be read are in the inbox before the query starts. */
  @Override
  public void prepareForTriggerAvailableNow() {}

  @Override
  public Option<Offset> getOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public Offset latestOffset(org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    long read = start == null ? -1 : entryOf(start);
    if (read < last) {
      // An attempt ended between an entry and its batch. Each entry is a batch of its own, as groups of files ask for it.
      limited = read + 1 < last || inbox.size() > 0;
      return new Position(read + 1);
    }
    // The entry keeps what is found, so that a batch that runs again leaves out the same files.
    List<FoundFile> next = files.checked(inbox.next(limit));
    if (!next.isEmpty()) {
      write(last + 1, next);
      inbox.take(next.size());
      last++;
    }
    limited = inbox.size() > 0;
    // Behind the log of Spark's own stream, its offset stays until there is an entry of ours: the same one in another form
    // would be a batch.
    boolean isStart = start instanceof Offset && entryOf(start) == last;
    return last < 0 ? null : isStart ? (Offset) start : new Position(last);
  }

  @Override
  public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
    List<FoundFile> batch = new ArrayList<>();
    if (end.json().contains(OF_SPARK)) {
      // At a start, Spark asks for its last batch once more, and does not run it.
      return files.rows(batch);
    }
    for (long entry = start.isEmpty() ? 0 : entryOf(start.get()) + 1; entry <= entryOf(end); entry++) {
      batch.addAll(read(entry));
    }
    return files.rows(batch);
  }

  @Override
  public void commit(Offset end) {
    inbox.commit(entryOf(end));
  }

  @Override
  public Map<String, String> metrics(Optional<org.apache.spark.sql.connector.read.streaming.Offset> latest) {
    // Spark asks when a batch has ended, or when there was nothing for one.
    Map<String, String> figures = inbox.ended();
    files.surplus().addTo(figures);
    return figures;
  }

  @Override
  public void stop() {}

  @Override
  public String toString() {
    return "FileSource[" + files.root() + "]";
  }

  private void write(long entry, List<FoundFile> batch) {
    String lines = batch.stream().map(FoundFile::line).collect(Collectors.joining("\n"));
    CheckpointFileManager.CancellableFSDataOutputStream output =
        manager.createAtomic(new Path(log, Long.toString(entry)), false);
    try {
      output.write((VERSION + "\n" + lines).getBytes(StandardCharsets.UTF_8));
      output.close();
    } catch (IOException error) {
      output.cancel();
      throw new UncheckedIOException(error);
    }
  }

  private List<FoundFile> read(long entry) {
    Path path = new Path(log, Long.toString(entry));
    try (FSDataInputStream input = manager.open(path)) {
      List<String> lines = new String(input.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
      if (lines.isEmpty() || !lines.get(0).equals(VERSION)) {
        throw new IllegalStateException("No entry of a source of files: " + path);
      }
      return lines.stream().skip(1).map(FoundFile::of).toList();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
