package io.streamjob.filesource;

import io.streamjob.plans.Plans;
import io.streamjob.text.NamedFiles;
import io.streamjob.text.Surplus;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
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
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.PartitioningUtils$;
import org.apache.spark.sql.execution.datasources.binaryfile.BinaryFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
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
  private static final String DAMAGE = "__streamjob_damage";

  private final transient Map<Integer, FileInbox> inboxes = new ConcurrentHashMap<>();
  private final transient FileFormat format;
  private final transient Surplus surplus;
  private final String form;
  private final boolean leavesOut;
  private final String root;
  private final StructType partitions;
  private final StructType beside;
  private final StructType data;
  private final CaseInsensitiveMap<String> given;

  /**
   * Makes the stream.
   *
   * @param form Spark's name of the format.
   * @param schema the columns of the files and directories; null where the format has its own.
   * @param options those of the format, and the limits of a batch.
   * @param root the directory above those of partitions.
   * @param sample some files, one JSON object in each line, whose directories say what the columns of partitions are.
   * @param surplus counts how many more records than rows of Spark there are in the files.
   * @param leavesOut whether a damaged file is one row, with no values but its error in a further column.
   */
  public DiscoveredFiles(
      SparkSession session,
      String form,
      StructType schema,
      Map<String, String> options,
      String root,
      String sample,
      LongAccumulator surplus,
      boolean leavesOut)
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
    this.form = form;
    this.leavesOut = leavesOut;
    this.root = root;
    this.given = CaseInsensitiveMap$.MODULE$.apply(options());
    this.surplus = new Surplus(surplus);
    this.format =
        schema != null && ParquetUtils.hasFieldIds(schema)
            ? new ParquetById()
            : (FileFormat) providingClass().getDeclaredConstructor().newInstance();
    List<FoundFile> files = sample.lines().map(FoundFile::of).toList();
    PartitionSpec found = partitions(files, Option.apply(schema));
    this.partitions = found.partitionColumns();
    this.beside = leavesOut ? partitions.add(DAMAGE, DataTypes.StringType) : partitions;
    StructType all = schema != null ? schema : format.inferSchema(session, options(), Plans.seq(statuses(files))).get();
    Set<String> names = new HashSet<>();
    CollectionConverters.asJava(partitions).forEach(each -> names.add(key(each)));
    List<StructField> rest = new ArrayList<>();
    CollectionConverters.asJava(all).forEach(each -> rest.add(each));
    rest.removeIf(each -> names.contains(key(each)));
    this.data = new StructType(rest.toArray(new StructField[0])).asNullable();
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

  /** Returns what {@link FileInbox#unread} says of one reading. */
  public String unread(int directory) {
    return inbox(directory).unread();
  }

  @Override
  public SourceInfo sourceInfo() {
    List<StructField> all = new ArrayList<>(CollectionConverters.asJava(data));
    all.addAll(CollectionConverters.asJava(beside));
    Seq<String> names = Plans.seq(List.of(beside.fieldNames()));
    return new SourceInfo("FileSource[" + root + "]", new StructType(all.toArray(new StructField[0])), names);
  }

  @Override
  public Source createSource(String metadataPath) {
    Path log = new Path(metadataPath);
    return new FileSource(this, inbox(Integer.parseInt(log.getName())), log);
  }

  ReadLimit limit() {
    Option<String> files = given.get("maxFilesPerTrigger");
    Option<String> bytes = given.get("maxBytesPerTrigger");
    if (files.isDefined()) {
      return ReadLimit.maxFiles((int) Math.min(Long.parseLong(files.get().strip()), Integer.MAX_VALUE));
    }
    return bytes.isDefined() ? ReadLimit.maxBytes(Long.parseLong(bytes.get().strip())) : ReadLimit.allAvailable();
  }

  Surplus surplus() {
    return surplus;
  }

  /** Returns the files of a batch, the damaged ones with their errors if they are to be left out. */
  List<FoundFile> checked(List<FoundFile> batch) {
    return leavesOut && !batch.isEmpty() ? DamagedFiles.marked(session(), form, optionsOf(batch), batch) : batch;
  }

  /** Returns the rows of the files of a batch. */
  Dataset<Row> rows(List<FoundFile> batch) {
    Map<Boolean, List<FoundFile>> parts = batch.stream().collect(Collectors.partitioningBy(this::isLeftOut));
    Dataset<Row> whole = rows(parts.get(false), format);
    return parts.get(true).isEmpty() ? whole : whole.union(rows(parts.get(true), new Unread(format)));
  }

  private Dataset<Row> rows(List<FoundFile> batch, FileFormat format) {
    Map<Path, FileStatus> files = new LinkedHashMap<>();
    batch.forEach(each -> files.put(each.status().getPath(), each.status()));
    PartitionSpec found =
        NamedFiles.withAllDirectories(
            withDamage(partitions(batch, Option.apply(partitions)), batch), beside, statuses(batch));
    Seq<FileStatus> all = Plans.seq(List.copyOf(files.values()));
    Map<Path, FileStatus[]> directories =
        batch.stream()
            .collect(
                Collectors.groupingBy(
                    each -> isLeftOut(each) ? each.status().getPath() : each.directory(),
                    Collectors.collectingAndThen(
                        Collectors.toList(), each -> statuses(each).toArray(new FileStatus[0]))));
    InMemoryFileIndex index =
        new InMemoryFileIndex(
            session(),
            Plans.seq(List.copyOf(files.keySet())),
            options(),
            Option.<StructType>empty(),
            new Listed(files),
            Option.apply(found),
            Option.empty()) {
          /** Spark takes a file for a directory if another one has its name and a slash at the beginning of its own. */
          @Override
          public Seq<FileStatus> allFiles() {
            return all;
          }

          @Override
          public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
            return scala.collection.immutable.Map.from(CollectionConverters.asScala(directories));
          }
        };
    HadoopFsRelation relation =
        new HadoopFsRelation(index, beside, data, Option.empty(), format, optionsOf(batch), session());
    return Dataset$.MODULE$.ofRows(session(), LogicalRelation$.MODULE$.apply(relation, true));
  }

  private scala.collection.immutable.Map<String, String> optionsOf(List<FoundFile> batch) {
    Map<String, String> options = new HashMap<>(CollectionConverters.asJava(given));
    if (batch.stream().anyMatch(FoundFile::hasColon)) {
      options.put("fs.file.impl", RawLocalFileSystem.class.getName());
      options.put("fs.file.impl.disable.cache", "true");
    }
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(options));
  }

  private boolean isLeftOut(FoundFile file) {
    return leavesOut && file.error() != null;
  }

  /** Returns partitions with the column for an error; each damaged file is a partition, in which it alone has a value. */
  private PartitionSpec withDamage(PartitionSpec found, List<FoundFile> files) {
    List<PartitionPath> all = new ArrayList<>();
    CollectionConverters.asJava(found.partitions()).forEach(each -> all.add(damage(each.values(), null, each.path())));
    InternalRow nulls = new GenericInternalRow(partitions.length());
    files.stream()
        .filter(this::isLeftOut)
        .forEach(each -> all.add(damage(nulls, each.error(), each.status().getPath())));
    return leavesOut ? new PartitionSpec(beside, Plans.seq(all)) : found;
  }

  private static PartitionPath damage(InternalRow values, String error, Path path) {
    Object[] further = {UTF8String.fromString(error)};
    return new PartitionPath(new JoinedRow(values, new GenericInternalRow(further)), path);
  }

  private static List<FileStatus> statuses(List<FoundFile> files) {
    return files.stream().map(FoundFile::status).toList();
  }

  private PartitionSpec partitions(List<FoundFile> files, Option<StructType> types) {
    Set<Path> directories = new HashSet<>();
    Set<Path> roots = new HashSet<>();
    files.forEach(each -> directories.add(each.directory()));
    files.forEach(each -> roots.add(each.root() == null ? FoundFile.path(root) : each.root()));
    SQLConf conf = session().sessionState().conf();
    return PartitioningUtils$.MODULE$.parsePartitions(
        Plans.seq(List.copyOf(directories)),
        // The types of what was found first would not hold for what comes later.
        false,
        CollectionConverters.asScala(roots).toSet(),
        types,
        conf.caseSensitiveAnalysis(),
        conf.validatePartitionColumns(),
        conf.sessionLocalTimeZone(),
        false);
  }

  /**
   * Parquet files whose columns are found by their field ids.
   *
   * <p>They skip no rows by filters: Spark would look for the columns of filters by name, and an older file may have
   * another column of this name.
   */
  private static final class ParquetById extends ParquetFileFormat {
    private static final long serialVersionUID = 1L;

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
        org.apache.spark.sql.SparkSession session,
        StructType data,
        StructType partitions,
        StructType required,
        Seq<Filter> filters,
        scala.collection.immutable.Map<String, String> options,
        Configuration configuration) {
      configuration.setBoolean(SQLConf.PARQUET_FIELD_ID_READ_ENABLED().key(), true);
      return super.buildReaderWithPartitionValues(
          session, data, partitions, required, nothing(), options, configuration);
    }
  }

  /** Files of which nothing is read: each is one row without values. */
  private static final class Unread extends BinaryFileFormat {
    private static final long serialVersionUID = 1L;

    private final FileFormat format;

    Unread(FileFormat format) {
      this.format = format;
    }

    /** As the other files have them: a union has rows of one type. */
    @Override
    public Seq<StructField> metadataSchemaFields() {
      return format.metadataSchemaFields();
    }

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReader(
        org.apache.spark.sql.SparkSession session,
        StructType data,
        StructType partitions,
        StructType required,
        Seq<Filter> filters,
        scala.collection.immutable.Map<String, String> options,
        Configuration configuration) {
      // The number of a row in a file, which is never NULL, is a column of its metadata.
      Object[] row = CollectionConverters.asJava(required).stream().map(each -> each.nullable() ? null : 0L).toArray();
      return (Function1<PartitionedFile, Iterator<InternalRow>> & Serializable)
          file -> CollectionConverters.asScala(List.<InternalRow>of(new GenericInternalRow(row)).iterator());
    }
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
