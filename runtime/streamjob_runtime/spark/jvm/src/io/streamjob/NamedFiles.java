package io.streamjob;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's stream of files, in which each file is read once under its own name, and a file that changed later is counted.
 *
 * <p>Spark lists the files of a batch by their names. For a name with a character of a pattern, such as {@code a*.json},
 * it takes the whole batch instead: {@code DataSource.checkAndGlobPathIfNecessary} returns all paths for each path that
 * is not to be resolved. So the batch is read once more for each such file.
 */
public final class NamedFiles extends DataSource {
  private static final long serialVersionUID = 1L;

  private NamedFiles(DataSource of) {
    super(
        of.sparkSession(),
        of.className(),
        of.paths(),
        of.userSpecifiedSchema(),
        of.partitionColumns(),
        of.bucketSpec(),
        of.options(),
        of.catalogTable(),
        of.userSpecifiedStreamingSourceName());
  }

  /** Returns the rows of a stream of files, read in this way; those of any other stream as they are. */
  public static Dataset<Row> of(org.apache.spark.sql.Dataset<Row> rows) {
    Dataset<Row> given = (Dataset<Row>) rows;
    if (!(given.queryExecution().analyzed() instanceof StreamingRelation files)) {
      return given;
    }
    return Dataset$.MODULE$.ofRows(
        given.sparkSession(),
        new StreamingRelation(
            new NamedFiles(files.dataSource()), files.sourceName(), files.output(), files.sourceIdentifyingName()));
  }

  @Override
  public Source createSource(String metadataPath) {
    Source made = super.createSource(metadataPath);
    return made instanceof FileStreamSource ? new Stream(this, metadataPath) : made;
  }

  private static final class Stream extends FileStreamSource implements ReportsSourceMetrics {
    private final SparkSession session;
    // Spark's constructor asks for it. An initial value would replace it after that.
    private Seen seen;

    Stream(DataSource of, String metadataPath) {
      super(
          (SparkSession) of.sparkSession(),
          options(of).get("path").get(),
          of.className(),
          of.sourceInfo().schema(),
          of.sourceInfo().partitionColumns(),
          metadataPath,
          options(of));
      session = (SparkSession) of.sparkSession();
    }

    private static CaseInsensitiveMap<String> options(DataSource of) {
      return CaseInsensitiveMap$.MODULE$.apply(of.options());
    }

    @Override
    public SeenFilesMap seenFiles() {
      if (seen == null) {
        seen = new Seen(super.seenFiles());
      }
      return seen;
    }

    @Override
    public Map<String, String> metrics(Optional<Offset> latest) {
      return seen.changed();
    }

    @Override
    public Dataset<Row> getBatch(
        Option<org.apache.spark.sql.execution.streaming.Offset> start,
        org.apache.spark.sql.execution.streaming.Offset end) {
      Dataset<Row> batch = super.getBatch(start, end);
      LogicalPlan plan = batch.logicalPlan();
      if (plan instanceof LogicalRelation read
          && read.relation() instanceof HadoopFsRelation files
          && files.location() instanceof InMemoryFileIndex index) {
        Seq<Path> once = once(index.rootPaths());
        if (once.size() < index.rootPaths().size()) {
          return Dataset$.MODULE$.ofRows(session, read(read, files, index, once));
        }
      }
      return batch;
    }

    private static Seq<Path> once(Seq<Path> paths) {
      return Plans.seq(new ArrayList<>(new LinkedHashSet<>(CollectionConverters.asJava(paths))));
    }

    private LogicalPlan read(LogicalRelation read, HadoopFsRelation files, InMemoryFileIndex index, Seq<Path> paths) {
      InMemoryFileIndex exact =
          new InMemoryFileIndex(
              session,
              paths,
              files.options(),
              Option.<StructType>empty(),
              FileStatusCache.getOrCreate(session),
              Option.apply(index.partitionSpec()),
              Option.empty());
      HadoopFsRelation relation =
          new HadoopFsRelation(
              exact,
              files.partitionSchema(),
              files.dataSchema(),
              files.bucketSpec(),
              files.fileFormat(),
              files.options(),
              session);
      return new LogicalRelation(relation, read.output(), read.catalogTable(), read.isStreaming(), read.stream());
    }
  }

  /** The files that Spark has read. It compares paths only, but keeps the time at which each file had last changed. */
  private static final class Seen extends FileStreamSource.SeenFilesMap {
    private final FileStreamSource.SeenFilesMap read;
    private final Map<?, ?> times;
    private final TreeSet<String> changed = new TreeSet<>();

    Seen(FileStreamSource.SeenFilesMap read) {
      super(0, false);
      this.read = read;
      try {
        Field map = FileStreamSource.SeenFilesMap.class.getDeclaredField("map");
        map.setAccessible(true);
        times = (HashMap<?, ?>) map.get(read);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }

    /** Returns the number of files that have changed since they were read, and one of them; nothing if there is none. */
    Map<String, String> changed() {
      return changed.isEmpty()
          ? Map.of()
          : Map.of("filesChanged", Integer.toString(changed.size()), "changedFile", changed.first());
    }

    @Override
    public boolean isNewFile(SparkPath path, long timestamp) {
      boolean isNew = read.isNewFile(path, timestamp);
      if (!isNew) {
        Object before = times.get(path.urlEncoded());
        // With the option fileNameOnly, the names are the keys.
        before = before != null ? before : times.get(path.toPath().getName());
        if (before != null && !before.equals(timestamp)) {
          changed.add(path.toPath().toString());
        }
      }
      return isNew;
    }

    @Override
    public void add(SparkPath path, long timestamp) {
      read.add(path, timestamp);
    }

    @Override
    public int purge() {
      return read.purge();
    }

    @Override
    public int size() {
      return read.size();
    }
  }
}
