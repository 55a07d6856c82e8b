package io.streamjob.channels;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's format of one consumer's reading of a stream: a schema, and the options `stream`, `consumer`, `directory` and
 * `begin`, the entry that is read first; optionally `firstRecords`, the most records of the first batch.
 */
public final class ChannelSource implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    throw new IllegalArgumentException("A channel has the schema of its producer; give it with schema()");
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new ChannelTable(schema, new CaseInsensitiveStringMap(properties).get("stream"));
  }

  private static final class ChannelTable implements Table, SupportsRead {
    private final StructType rows;
    private final String stream;

    ChannelTable(StructType rows, String stream) {
      this.rows = rows;
      this.stream = stream;
    }

    @Override
    public String name() {
      return stream;
    }

    @Override
    public Column[] columns() {
      return CatalogV2Util.structTypeToV2Columns(rows, true);
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new ChannelScan(rows, options);
    }
  }

  private record ChannelScan(StructType readSchema, CaseInsensitiveStringMap options) implements Scan {
    @Override
    public String description() {
      return "channel " + options.get("stream") + " to " + options.get("consumer");
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new ChannelStream(
          options.get("stream"),
          options.get("consumer"),
          options.get("directory"),
          options.getLong("begin", 0),
          options.getLong("firstRecords", 0));
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return ColumnarSupportMode.UNSUPPORTED;
    }
  }
}
