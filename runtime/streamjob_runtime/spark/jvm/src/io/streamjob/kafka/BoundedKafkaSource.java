package io.streamjob.kafka;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's format `kafka` as a stream with an end: it takes `endingOffsets` as the batch source does, with an offset for
 * each partition of `assign`, and without that option ends where the topics end now. The connector is looked up when it
 * is used, so that this jar works without it.
 */
public final class BoundedKafkaSource implements TableProvider {
  private static final String CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider";
  private static final String END = "endingOffsets";

  private final TableProvider connector;

  public BoundedKafkaSource() throws ReflectiveOperationException {
    connector = connector();
  }

  /** Returns Spark's connector. */
  static TableProvider connector() throws ReflectiveOperationException {
    return (TableProvider) Class.forName(CONNECTOR).getConstructor().newInstance();
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return connector.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Bounded((SupportsRead) connector.getTable(schema, partitioning, properties));
  }

  private static final class Bounded implements SupportsRead {
    private final SupportsRead table;

    Bounded(SupportsRead table) {
      this.table = table;
    }

    @Override
    public String name() {
      return table.name();
    }

    @Override
    public Column[] columns() {
      return table.columns();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      // Spark refuses the option for a stream.
      Map<String, String> others = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
      others.putAll(options.asCaseSensitiveMap());
      others.remove(END);
      ScanBuilder builder = table.newScanBuilder(new CaseInsensitiveStringMap(others));
      return () -> new BoundedScan(builder.build(), options.get(END));
    }
  }

  private record BoundedScan(Scan scan, String end) implements Scan {
    @Override
    public StructType readSchema() {
      return scan.readSchema();
    }

    @Override
    public String description() {
      return scan.description();
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return scan.supportedCustomMetrics();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new BoundedKafkaStream(scan.toMicroBatchStream(checkpointLocation), end);
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return scan.columnarSupportMode();
    }
  }
}
