package io.streamjob.filesource;

import io.streamjob.plans.Plans;
import io.streamjob.text.NamedFiles;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.PartitioningUtils$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A stream of files in one of Spark's formats, of which Python finds the files; Spark lists none.
 *
 * <p>As Spark's own stream of files it is a source of data of its format, so that {@code _metadata} is a column.
 */
public final class DiscoveredFiles extends DataSource {
  private static final long serialVersionUID = 1L;

  private final transient Map<Integer, FileInbox> inboxes = new ConcurrentHashMap<>();
  private final transient FileFormat format;
  private final transient LongAccumulator surplus;
  private final String root;
  private final StructType partitions;
  private final StructType data;
  private final transient List<String> beside;
  private final Map<String, String> given;
  private long reported;

  /**
   * Makes the stream.
   *
   * @param form Spark's name of the format.
   * @param schema the columns of the files and directories; null where the format has its own.
   * @param options those of the format, and the limits of a batch.
   * @param root the directory above those of partitions.
   * @param sample some files, one JSON object in each line, whose directories say what the columns of partitions are.
   * @param surplus counts how many more records than rows of Spark there are in the files.
   * @param beside the columns that stand beside the files, and not in them; null if directories name such columns. A
   *     file without a value of some of the first ones has these columns itself.
   */
  public DiscoveredFiles(
      SparkSession session,
      String form,
      StructType schema,
      Map<String, String> options,
      String root,
      String sample,
      LongAccumulator surplus,
      List<String> beside)
      throws ReflectiveOperationException {
    super(
        session,
        form,
        nothing(),
        Option.apply(schema),
        nothing(),
        Option.empty(),
        scala.collection.immutable.Map.from(CollectionConverters.asScala(options)),
        Option.empty(),
        Option.empty());
    this.root = root;
    this.given = new HashMap<>(options);
    this.surplus = surplus;
    this.reported = surplus.sum();
    this.beside = beside;
    this.format =
        schema != null && ParquetUtils.hasFieldIds(schema)
            ? new ParquetById()
            : (FileFormat) providingClass().getDeclaredConstructor().newInstance();
    List<FoundFile> files = sample.lines().map(FoundFile::of).toList();
    this.partitions =
        beside == null
            ? partitions(files, Option.apply(schema)).partitionColumns()
            : new StructType(beside.stream().map(schema::apply).toArray(StructField[]::new));
    StructType all = schema != null ? schema : format.inferSchema(session, options(), Plans.seq(statuses(files))).get();
    Set<String> names = new HashSet<>();
    CollectionConverters.asJava(partitions).forEach(each -> names.add(key(each)));
    List<StructField> rest = new ArrayList<>();
    CollectionConverters.asJava(all).forEach(each -> rest.add(each));
    rest.removeIf(each -> names.contains(key(each)));
    this.data = new StructType(rest.toArray(new StructField[0]));
  }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> nothing() {
    return (Seq<T>) (Seq<?>) Nil$.MODULE$;
  }

  private String key(StructField field) {
    return session().sessionState().conf().caseSensitiveAnalysis() ? field.name() : field.name().toLowerCase();
  }

  SparkSession session() {
    return (SparkSession) sparkSession();
  }

  String root() {
    return root;
  }

  /** Returns the stream. */
  public Dataset<Row> stream() {
    return Dataset$.MODULE$.ofRows(session(), StreamingRelation$.MODULE$.apply(this));
  }

  /** Returns the names of the columns of partitions, in the order of their directories. */
  public List<String> directories() {
    return List.of(partitions.fieldNames());
  }

  /** Returns the inbox of the reading that has this number below `sources/`; a join of the stream with itself has two. */
  public FileInbox inbox(int directory) {
    return inboxes.computeIfAbsent(directory, number -> new FileInbox());
  }

  @Override
  public SourceInfo sourceInfo() {
    List<StructField> all = new ArrayList<>(CollectionConverters.asJava(data));
    all.addAll(CollectionConverters.asJava(partitions));
    Seq<String> names = Plans.seq(List.of(partitions.fieldNames()));
    return new SourceInfo("FileSource[" + root + "]", new StructType(all.toArray(new StructField[0])), names);
  }

  @Override
  public Source createSource(String metadataPath) {
    Path log = new Path(metadataPath);
    return new FileSource(this, inbox(Integer.parseInt(log.getName())), log);
  }

  ReadLimit limit() {
    String files = option("maxFilesPerTrigger");
    String bytes = option("maxBytesPerTrigger");
    if (files != null) {
      return ReadLimit.maxFiles(Integer.parseInt(files));
    }
    return bytes != null ? ReadLimit.maxBytes(Long.parseLong(bytes)) : ReadLimit.allAvailable();
  }

  private String option(String name) {
    return given.entrySet().stream()
        .filter(each -> each.getKey().equalsIgnoreCase(name))
        .map(Map.Entry::getValue)
        .findFirst()
        .orElse(null);
  }

  void addSurplus(Map<String, String> figures) {
    long sum = surplus.sum();
    if (sum != reported) {
      figures.put("recordsSurplus", Long.toString(sum - reported));
      reported = sum;
    }
  }

  /** Returns the rows of the files of a batch. */
  Dataset<Row> rows(List<FoundFile> batch) {
    if (beside == null) {
      return rows(
          listed(
              batch,
              NamedFiles.withAllDirectories(partitions(batch, Option.apply(partitions)), partitions, statuses(batch))),
          data);
    }
    Map<Set<String>, List<FoundFile>> alike = new LinkedHashMap<>();
    batch.forEach(each -> alike.computeIfAbsent(each.values().keySet(), names -> new ArrayList<>()).add(each));
    return alike.entrySet().stream()
        .map(each -> withValues(each.getValue(), each.getKey()))
        .reduce((some, others) -> some.union(others))
        .orElseGet(() -> withValues(batch, Set.of()));
  }

  private Dataset<Row> withValues(List<FoundFile> batch, Set<String> names) {
    List<StructField> own = new ArrayList<>(List.of(data.fields()));
    List<StructField> given = new ArrayList<>();
    List.of(partitions.fields()).forEach(each -> (names.contains(each.name()) ? given : own).add(each));
    StructType columns = new StructType(given.toArray(new StructField[0]));
    String zone = session().sessionState().conf().sessionLocalTimeZone();
    return rows(
        given.isEmpty()
            ? listed(batch, PartitionSpec.emptySpec())
            : new FilesWithValues(session(), options(), columns, batch, zone),
        new StructType(own.toArray(new StructField[0])));
  }

  private InMemoryFileIndex listed(List<FoundFile> batch, PartitionSpec spec) {
    Map<Path, FileStatus> files = new LinkedHashMap<>();
    batch.forEach(each -> files.put(each.status().getPath(), each.status()));
    return new InMemoryFileIndex(
        session(),
        Plans.seq(List.copyOf(files.keySet())),
        options(),
        Option.<StructType>empty(),
        new Listed(files),
        Option.apply(spec),
        Option.empty());
  }

  private Dataset<Row> rows(PartitioningAwareFileIndex index, StructType data) {
    HadoopFsRelation relation =
        new HadoopFsRelation(
            index,
            index.partitionSchema(),
            data.asNullable(),
            Option.empty(),
            format,
            CaseInsensitiveMap$.MODULE$.apply(options()),
            session());
    return Dataset$.MODULE$.ofRows(session(), LogicalRelation$.MODULE$.apply(relation, true));
  }

  private static List<FileStatus> statuses(List<FoundFile> files) {
    return files.stream().map(FoundFile::status).toList();
  }

  private PartitionSpec partitions(List<FoundFile> files, Option<StructType> types) {
    Set<Path> directories = new HashSet<>();
    Set<Path> roots = new HashSet<>();
    files.forEach(each -> directories.add(each.status().getPath().getParent()));
    files.forEach(each -> roots.add(each.root() == null ? new Path(root) : each.root()));
    SQLConf conf = session().sessionState().conf();
    return PartitioningUtils$.MODULE$.parsePartitions(
        Plans.seq(List.copyOf(directories)),
        conf.partitionColumnTypeInferenceEnabled(),
        CollectionConverters.asScala(roots).toSet(),
        types,
        conf.caseSensitiveAnalysis(),
        conf.validatePartitionColumns(),
        conf.sessionLocalTimeZone(),
        false);
  }

  /** What Spark would list: each file of a batch is a path of its own. */
  private static final class Listed extends FileStatusCache {
    private final Map<Path, FileStatus> files;

    Listed(Map<Path, FileStatus> files) {
      this.files = files;
    }

    @Override
    public Option<FileStatus[]> getLeafFiles(Path path) {
      return Option.apply(files.get(path)).map(each -> new FileStatus[] {each});
    }

    @Override
    public void putLeafFiles(Path path, FileStatus[] leaves) {}

    @Override
    public void invalidateAll() {}
  }
}
