package io.streamjob.text;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table of files in which each file is read once under its own name.
 *
 * <p>Spark lists the files of a table by their names. For a name with a character of a pattern, such as {@code a*.json},
 * it takes all of them instead: {@code DataSource.checkAndGlobPathIfNecessary} returns all paths for each path that
 * is not to be resolved. So all would be read once more for each such file.
 */
public final class NamedFiles {
  private NamedFiles() {}

  /**
   * Returns the rows of all files of a table, each once; any other rows as they are.
   *
   * <p>Where some files are in directories of partitions, such as {@code day=1}, Spark leaves out those that are in none:
   * {@code PartitioningAwareFileIndex.listFiles} looks into the directories of its partitions only. Here they are read,
   * with NULL for the columns of partitions.
   */
  public static Dataset<Row> of(org.apache.spark.sql.Dataset<Row> rows) {
    Dataset<Row> given = (Dataset<Row>) rows;
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
}
