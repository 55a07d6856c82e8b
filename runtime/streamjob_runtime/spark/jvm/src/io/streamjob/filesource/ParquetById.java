package io.streamjob.filesource;

import io.streamjob.plans.Plans;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Parquet files whose columns are found by their field ids.
 *
 * <p>Files skip no rows by filters: Spark would look for the columns of filters by name, and an older file may have
 * another column of this name.
 */
final class ParquetById extends ParquetFileFormat {
  private static final long serialVersionUID = 1L;

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType data,
      StructType partitions,
      StructType required,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration configuration) {
    configuration.setBoolean(SQLConf.PARQUET_FIELD_ID_READ_ENABLED().key(), true);
    return super.buildReaderWithPartitionValues(
        session, data, partitions, required, Plans.seq(List.<Filter>of()), options, configuration);
  }
}
