package io.streamjob.state;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.StatePartitionAllColumnFamiliesWriter;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StatePartitionWriterColumnFamilyInfo;
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads the rows of a stopped query's state as a table, and writes a table as state.
 *
 * <p>Columns of keys and values are numbered, since Spark gives the buffers of several aggregates the same name: {@code
 * key.k0}, {@code value.v0}.
 */
public final class StateRows {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int SEED = 42;

  private StateRows() {}

  /** Returns the stateful operators of a checkpoint as of a batch, with the schemas of their stores, as JSON. */
  public static String describe(SparkSession session, String checkpoint, long batch) throws IOException {
    return JSON.writeValueAsString(
        StateSchemas.of(session, checkpoint, batch).stream().map(StateSchemas::describe).toList());
  }

  /** Returns the rows of a column family as of a batch, as the columns {@code key} and {@code value}. */
  public static Dataset<Row> read(
      SparkSession session, String checkpoint, long operator, String store, String family, long batch) {
    StateStoreColFamilySchema schema =
        StateSchemas.of(session, checkpoint, batch, operator).families(store).get(family).schema();
    Dataset<Row> stored =
        session
            .read()
            .format("statestore")
            .option(StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES(), true)
            .option(StateSourceOptions.OPERATOR_ID(), operator)
            .option(StateSourceOptions.STORE_NAME(), store)
            .option(StateSourceOptions.BATCH_ID(), batch)
            .load(checkpoint);
    Dataset<Row> ours =
        stored.filter(stored.col("column_family_name").equalTo(family)).select("key_bytes", "value_bytes");
    int keys = schema.keySchema().length();
    int values = schema.valueSchema().length();
    StructType columns =
        new StructType().add("key", numbered(schema.keySchema(), "k")).add("value", numbered(schema.valueSchema(), "v"));
    return frame(
        session,
        rows(ours)
            .map(
                row ->
                    new GenericInternalRow(
                        new Object[] {decoded(row.getBinary(0), keys), decoded(row.getBinary(1), values)})),
        columns);
  }

  /**
   * Returns rows as they are stored: partition, bytes of the key, bytes of the value, column family.
   *
   * @param rows with the columns {@code key} and {@code value}, of the family's types
   * @param checkpoint where Spark has described the state
   */
  public static Dataset<Row> encode(
      SparkSession session,
      Dataset<Row> rows,
      String checkpoint,
      long operator,
      String store,
      String family,
      int partitions) {
    StateSchemas schemas = StateSchemas.of(session, checkpoint, 0, operator);
    StateStoreColFamilySchema schema = schemas.families(store).get(family).schema();
    StateSchemas.Placing placing = schemas.placing(store, family);
    StructType keys = schema.keySchema();
    StructType values = schema.valueSchema();
    StructType columns = StructType.fromDDL("partition INT, key_bytes BINARY, value_bytes BINARY");
    JavaRDD<InternalRow> encoded =
        rows(rows)
            .mapPartitions(
                all -> {
                  UnsafeProjection key = UnsafeProjection.create(keys);
                  UnsafeProjection value = UnsafeProjection.create(values);
                  StatePartitionKeyExtractor extractor = placing.extractor();
                  Expression partition = partition(extractor.partitionKeySchema(), partitions);
                  return mapped(
                      all,
                      row -> {
                        UnsafeRow stored = key.apply(checked(row.getStruct(0, keys.length()), keys));
                        Object number = partition.eval(extractor.partitionKey(stored));
                        byte[] bytes = value.apply(checked(row.getStruct(1, values.length()), values)).getBytes();
                        return new GenericInternalRow(new Object[] {number, stored.getBytes(), bytes});
                      });
                });
    return frame(session, encoded, columns).withColumn("column_family_name", org.apache.spark.sql.functions.lit(family));
  }

  /**
   * Writes rows as a store of an operator, behind a batch, in snapshots without ids.
   *
   * @param encoded all rows of the store, from {@link #encode}
   * @param checkpoint where Spark has described the state; the store is written there
   * @param inPlace whether each row is in the partition of the frame that it has to be in, if there are as many
   * @return for each partition and column family with rows a line: partition, rows, checksum, family
   */
  public static List<String> write(
      SparkSession session,
      Dataset<Row> encoded,
      String checkpoint,
      long operator,
      String store,
      long batch,
      int partitions,
      boolean inPlace) {
    StateSchemas schemas = StateSchemas.of(session, checkpoint, 0, operator);
    scala.collection.immutable.Map<String, StatePartitionWriterColumnFamilyInfo> families =
        scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(schemas.families(store)));
    Option<StateSchemaProvider> provider = schemas.provider(store);
    SQLConf settings = session.sessionState().conf().clone();
    // Without ids, the snapshot's name is known; with changelogs, a commit leaves it to a thread of its own.
    settings.setConfString(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION().key(), "1");
    settings.setConfString(EmptyStore.CHANGELOGS, "false");
    StateStoreConf conf = StateStoreConf.apply(settings);
    Configuration hadoop = session.sessionState().newHadoopConf();
    hadoop.set(StreamExecution.RUN_ID_KEY(), UUID.randomUUID().toString());
    SerializableConfiguration given = new SerializableConfiguration(hadoop);
    boolean stays = inPlace && classic(encoded).rdd().getNumPartitions() == partitions;
    return rows(stays ? encoded : encoded.repartitionById(partitions, encoded.col("partition")))
        .mapPartitions(
            rows -> {
              int partition = TaskContext.getPartitionId();
              Map<String, long[]> found = new TreeMap<>();
              new StatePartitionAllColumnFamiliesWriter(
                      conf, given.value(), partition, checkpoint, operator, store, batch, families, provider)
                  .write(CollectionConverters.asScala(mapped(rows, row -> counted(row, partition, found))));
              List<String> lines = new ArrayList<>();
              found.forEach((family, sums) -> lines.add(partition + " " + sums[0] + " " + sums[1] + " " + family));
              return lines.iterator();
            })
        .collect();
  }

  /** Returns one row with the buffers, without any input, of the aggregates of an operator: {@code i0}, {@code i1}. */
  public static Dataset<Row> initial(SparkSession session, LogicalPlan optimized, int number) throws IOException {
    List<Object> values = new ArrayList<>();
    StructType columns = new StructType();
    for (AggregateFunction each : StateForms.aggregates(optimized, number)) {
      InternalRow buffer = initial(each);
      int place = 0;
      for (Attribute attribute : CollectionConverters.asJava(each.aggBufferAttributes())) {
        columns = columns.add("i" + values.size(), attribute.dataType());
        values.add(buffer.get(place++, attribute.dataType()));
      }
    }
    List<InternalRow> rows = List.of(new GenericInternalRow(values.toArray()));
    return frame(session, new JavaSparkContext(session.sparkContext()).parallelize(rows, 1), columns);
  }

  private static InternalRow initial(AggregateFunction function) {
    if (function instanceof DeclarativeAggregate declared) {
      List<Expression> values = CollectionConverters.asJava(declared.initialValues());
      return new GenericInternalRow(values.stream().map(each -> each.eval(null)).toArray());
    }
    ImperativeAggregate imperative =
        ((ImperativeAggregate) function).withNewMutableAggBufferOffset(0).withNewInputAggBufferOffset(0);
    InternalRow buffer = new SpecificInternalRow(imperative.aggBufferSchema());
    imperative.initialize(buffer);
    if (imperative instanceof TypedImperativeAggregate<?> typed) {
      typed.serializeAggregateBufferInPlace(buffer);
    }
    return buffer;
  }

  private static StructType numbered(StructType schema, String prefix) {
    StructType columns = new StructType();
    for (StructField each : schema.fields()) {
      columns = columns.add(prefix + columns.length(), each.dataType());
    }
    return columns;
  }

  /** Checks that no column is null that Spark would read as 0, since it takes it for one that never is. */
  private static InternalRow checked(InternalRow row, StructType columns) {
    for (int place = 0; place < columns.length(); place++) {
      if (!columns.apply(place).nullable() && row.isNullAt(place)) {
        throw new IllegalArgumentException("the column " + columns.apply(place).name() + " of the state cannot be NULL");
      }
    }
    return row;
  }

  private static UnsafeRow decoded(byte[] bytes, int columns) {
    UnsafeRow row = new UnsafeRow(columns);
    row.pointTo(bytes, bytes.length);
    return row;
  }

  private static Expression partition(StructType columns, int partitions) {
    List<Expression> references = new ArrayList<>();
    for (StructField each : columns.fields()) {
      references.add(new BoundReference(references.size(), each.dataType(), true));
    }
    return new HashPartitioning(CollectionConverters.asScala(references).toSeq(), partitions).partitionIdExpression();
  }

  private static JavaRDD<InternalRow> rows(Dataset<Row> frame) {
    return classic(frame).queryExecution().toRdd().toJavaRDD();
  }

  private static Dataset<Row> frame(SparkSession session, JavaRDD<InternalRow> rows, StructType columns) {
    return session.internalCreateDataFrame(rows.rdd(), columns, false);
  }

  private static org.apache.spark.sql.classic.Dataset<Row> classic(Dataset<Row> rows) {
    return (org.apache.spark.sql.classic.Dataset<Row>) rows;
  }

  private static Iterator<InternalRow> mapped(Iterator<InternalRow> rows, Function1<InternalRow, InternalRow> mapping) {
    return CollectionConverters.asJava(CollectionConverters.asScala(rows).map(mapping));
  }

  /** Counts a row by its family, and sums up the hashes as Spark's function {@code xxhash64} computes them. */
  private static InternalRow counted(InternalRow row, int partition, Map<String, long[]> found) {
    if (row.getInt(0) != partition) {
      throw new IllegalStateException("a row of partition " + row.getInt(0) + " in partition " + partition);
    }
    long[] sums = found.computeIfAbsent(row.getString(3), family -> new long[2]);
    sums[0]++;
    sums[1] += hash(row.getBinary(2), hash(row.getBinary(1), SEED));
    return row;
  }

  private static long hash(byte[] bytes, long seed) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, seed);
  }
}
