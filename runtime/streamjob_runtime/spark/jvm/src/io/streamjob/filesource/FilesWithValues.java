package io.streamjob.filesource;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.mutable.LinkedHashMap$;
import scala.jdk.javaapi.CollectionConverters;

/** Files with the values of columns that they do not have. To Spark, those with the same values are in one directory. */
final class FilesWithValues extends PartitioningAwareFileIndex {
  private final PartitionSpec partitions;
  private final Map<Path, FileStatus> files = new LinkedHashMap<>();
  private final Map<Path, FileStatus[]> directories = new HashMap<>();

  /**
   * Makes the index.
   *
   * @param batch the files, each with a text, or null, for each of the columns.
   */
  FilesWithValues(
      SparkSession session,
      scala.collection.immutable.Map<String, String> options,
      StructType columns,
      List<FoundFile> batch,
      String zone) {
    super(session, options, Option.<StructType>empty(), NoopCache$.MODULE$);
    Map<Map<String, String>, List<FileStatus>> alike = new LinkedHashMap<>();
    for (FoundFile each : batch) {
      files.put(each.status().getPath(), each.status());
      alike.computeIfAbsent(each.values(), values -> new ArrayList<>()).add(each.status());
    }
    List<PartitionPath> paths = new ArrayList<>();
    alike.forEach(
        (values, same) -> {
          Path directory = new Path("/" + paths.size());
          directories.put(directory, same.toArray(new FileStatus[0]));
          paths.add(new PartitionPath(row(columns, values, zone), directory));
        });
    partitions = new PartitionSpec(columns, Plans.seq(paths));
  }

  private static InternalRow row(StructType columns, Map<String, String> values, String zone) {
    return new GenericInternalRow(
        Arrays.stream(columns.fields())
            .map(
                column -> {
                  Literal text = Literal.create(UTF8String.fromString(values.get(column.name())), DataTypes.StringType);
                  return new Cast(text, column.dataType(), Option.apply(zone), EvalMode.ANSI()).eval(null);
                })
            .toArray());
  }

  @Override
  public PartitionSpec partitionSpec() {
    return partitions;
  }

  @Override
  public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
    return LinkedHashMap$.MODULE$.from(CollectionConverters.asScala(files));
  }

  @Override
  public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(directories));
  }

  @Override
  public scala.collection.immutable.Seq<Path> rootPaths() {
    return Plans.seq(List.copyOf(files.keySet()));
  }

  @Override
  public void refresh() {}
}
