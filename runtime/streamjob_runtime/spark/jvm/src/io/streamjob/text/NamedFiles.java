package io.streamjob.text;

import io.streamjob.plans.Plans;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's stream of files, in which each file is read once under its own name, or counted: one that changed later, and
 * one that came with a time beyond {@code maxFileAge}.
 *
 * <p>Spark lists the files of a batch by their names. For a name with a character of a pattern, such as {@code a*.json},
 * it takes the whole batch instead: {@code DataSource.checkAndGlobPathIfNecessary} returns all paths for each path that
 * is not to be resolved. So the batch is read once more for each such file.
 */
public final class NamedFiles extends DataSource {
  private static final long serialVersionUID = 1L;

  private final DataSource of;
  private final LongAccumulator surplus;

  private NamedFiles(DataSource of, LongAccumulator surplus) {
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
    this.of = of;
    this.surplus = surplus;
  }

  /** Spark has found it before by listing all files. */
  @Override
  public SourceInfo sourceInfo() {
    return of.sourceInfo();
  }

  /** Returns the rows of a stream or table of files, read in this way; any others as they are. */
  public static Dataset<Row> of(org.apache.spark.sql.Dataset<Row> rows) {
    return of(rows, new LongAccumulator());
  }

  /**
   * Returns the rows of a stream or table of files, as {@link #of(org.apache.spark.sql.Dataset)} does.
   *
   * @param surplus counts how many more records than rows of Spark there are in the files.
   */
  public static Dataset<Row> of(org.apache.spark.sql.Dataset<Row> rows, LongAccumulator surplus) {
    Dataset<Row> given = (Dataset<Row>) rows;
    if (!(given.queryExecution().analyzed() instanceof StreamingRelation files)) {
      return whole(given);
    }
    return Dataset$.MODULE$.ofRows(
        given.sparkSession(),
        new StreamingRelation(
            new NamedFiles(files.dataSource(), surplus), files.sourceName(), files.output(), files.sourceIdentifyingName()));
  }

  @Override
  public Source createSource(String metadataPath) {
    boolean isOfFiles = FileFormat.class.isAssignableFrom(providingClass());
    return isOfFiles ? new Stream(this, metadataPath, surplus) : super.createSource(metadataPath);
  }

  private static final class Stream extends FileStreamSource implements ReportsSourceMetrics {
    // Spark's constructor asks for it. An initial value would replace it after that.
    private Seen seen;
    private final Surplus surplus;

    Stream(DataSource of, String metadataPath, LongAccumulator surplus) {
      super(
          (SparkSession) of.sparkSession(),
          options(of).get("path").get(),
          of.className(),
          of.sourceInfo().schema(),
          of.sourceInfo().partitionColumns(),
          metadataPath,
          options(of));
      this.surplus = new Surplus(surplus);
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
      Map<String, String> figures = seen.unread();
      surplus.addTo(figures);
      return figures;
    }

    @Override
    public Dataset<Row> getBatch(
        Option<org.apache.spark.sql.execution.streaming.Offset> start,
        org.apache.spark.sql.execution.streaming.Offset end) {
      return whole(super.getBatch(start, end));
    }
  }

  /**
   * Returns the rows of all files that a batch lists, each once.
   *
   * <p>Where some files are in directories of partitions, such as {@code day=1}, Spark leaves out those that are in none:
   * {@code PartitioningAwareFileIndex.listFiles} looks into the directories of its partitions only. Here they are read,
   * with NULL for the columns of partitions.
   */
  private static Dataset<Row> whole(Dataset<Row> given) {
    if (given.logicalPlan() instanceof LogicalRelation read
        && read.relation() instanceof HadoopFsRelation files
        && files.location() instanceof InMemoryFileIndex index) {
      List<Path> listed = CollectionConverters.asJava(index.rootPaths());
      List<Path> once = new ArrayList<>(new LinkedHashSet<>(listed));
      PartitionSpec found = index.partitionSpec();
      PartitionSpec partitions =
          withAllDirectories(found, found.partitionColumns(), CollectionConverters.asJava(index.allFiles()));
      if (once.size() < listed.size() || partitions != found) {
        return Dataset$.MODULE$.ofRows(given.sparkSession(), read(given.sparkSession(), read, files, once, partitions));
      }
    }
    return given;
  }

  /**
   * Returns the partitions of files, those without one included.
   *
   * @param found the partitions that the directories name.
   * @param columns of the partitions.
   * @param files all files.
   */
  public static PartitionSpec withAllDirectories(PartitionSpec found, StructType columns, Iterable<FileStatus> files) {
    if (columns.isEmpty()) {
      return found;
    }
    List<PartitionPath> all = new ArrayList<>(CollectionConverters.asJava(found.partitions()));
    Set<Path> known = new HashSet<>();
    all.forEach(each -> known.add(each.path()));
    for (FileStatus file : files) {
      if (known.add(file.getPath().getParent())) {
        InternalRow nulls = new GenericInternalRow(columns.length());
        all.add(new PartitionPath(nulls, file.getPath().getParent()));
      }
    }
    return all.size() == found.partitions().size() ? found : new PartitionSpec(columns, Plans.seq(all));
  }

  private static LogicalPlan read(
      SparkSession session, LogicalRelation read, HadoopFsRelation files, List<Path> paths, PartitionSpec partitions) {
    InMemoryFileIndex exact =
        new InMemoryFileIndex(
            session,
            Plans.seq(paths),
            files.options(),
            Option.<StructType>empty(),
            FileStatusCache.getOrCreate(session),
            Option.apply(partitions),
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

  /**
   * The files that Spark has read, by path; and those that the last listing found and Spark does not read.
   *
   * <p>Spark forgets files that are older than {@code maxFileAge}. Then it cannot tell them from files that came too
   * late, and reads them again if they change. Here a hash remains of each.
   */
  private static final class Seen extends FileStreamSource.SeenFilesMap {
    private final long maxAge;
    private final boolean namesOnly;
    private final Map<String, Long> times = new HashMap<>();
    private final Set<Long> forgotten = new HashSet<>();
    private long newest;
    private long oldest;
    private boolean isListing;
    private Unread changed = new Unread();
    private Unread tooOld = new Unread();

    Seen(FileStreamSource.SeenFilesMap given) {
      super(0, false);
      maxAge = (long) field(given, "maxAgeMs");
      String scope = FileStreamSource.SeenFilesMap.class.getName().replace('.', '$');
      namesOnly = (boolean) field(given, scope + "$$fileNameOnly");
    }

    private static Object field(FileStreamSource.SeenFilesMap of, String name) {
      try {
        Field field = FileStreamSource.SeenFilesMap.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }

    /** Returns how many files have changed and how many came too late, and one of each; nothing if there are none. */
    Map<String, String> unread() {
      Map<String, String> result = new HashMap<>();
      changed.addTo(result, "filesChanged", "changedFile");
      tooOld.addTo(result, "filesTooOld", "tooOldFile");
      return result;
    }

    @Override
    public boolean isNewFile(SparkPath path, long timestamp) {
      if (!isListing) {
        isListing = true;
        changed = new Unread();
        tooOld = new Unread();
      }
      String key = key(path);
      Long before = times.get(key);
      boolean wasForgotten = before == null && !forgotten.isEmpty() && forgotten.contains(hash(key));
      if (before == null && !wasForgotten) {
        if (timestamp < oldest) {
          tooOld.add(path);
        }
        return timestamp >= oldest;
      }
      if (wasForgotten ? timestamp >= oldest : before != timestamp) {
        changed.add(path);
      }
      return false;
    }

    @Override
    public void add(SparkPath path, long timestamp) {
      times.put(key(path), timestamp);
      newest = Math.max(newest, timestamp);
    }

    /** Spark calls it behind each listing. */
    @Override
    public int purge() {
      isListing = false;
      oldest = newest - maxAge;
      int before = times.size();
      times.entrySet().removeIf(each -> each.getValue() < oldest && forgotten.add(hash(each.getKey())));
      return before - times.size();
    }

    @Override
    public int size() {
      return times.size();
    }

    private String key(SparkPath path) {
      return namesOnly ? path.toPath().getName() : path.urlEncoded();
    }

    private static long hash(String key) {
      return XXH64.hashUTF8String(UTF8String.fromString(key), 0);
    }
  }

  /** Files that are not read. */
  private static final class Unread {
    private int number;
    private String first;

    void add(SparkPath path) {
      String name = path.toPath().toString();
      first = number == 0 || name.compareTo(first) < 0 ? name : first;
      number++;
    }

    void addTo(Map<String, String> result, String count, String one) {
      if (number > 0) {
        result.put(count, Integer.toString(number));
        result.put(one, first);
      }
    }
  }
}
