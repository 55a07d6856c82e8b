package io.streamjob.state;

import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Copies a state store of a stopped query into a snapshot of RocksDB, in the directory in which the store is.
 *
 * <p>Spark's own rewriting of state reads from RocksDB only, so this opens Spark's stores one by one.
 */
public final class StateCopy {
  private static final String FAMILY = "default";

  private final Configuration hadoop;
  private final SQLConf settings;
  private final StateStoreId id;
  private final StateStoreColFamilySchema schema;
  private final int prefix;

  private StateCopy(SparkSession session, StateStoreId id, int prefix) {
    this.hadoop = session.sessionState().newHadoopConf();
    this.hadoop.set(StreamExecution.RUN_ID_KEY(), UUID.randomUUID().toString());
    this.settings = session.sessionState().conf().clone();
    this.id = id;
    this.prefix = prefix;
    this.schema = schemas(id.checkpointRootLocation(), id.operatorId(), id.storeName(), hadoop, List.of()).get(0);
  }

  /**
   * Returns the schemas of the column families of a store.
   *
   * @param root the directory {@code state} of the checkpoint
   * @param files the files with the schemas; none if the store has one of a fixed name
   */
  static List<StateStoreColFamilySchema> schemas(
      String root, long operator, String name, Configuration hadoop, List<Path> files) {
    StateSchemaCompatibilityChecker checker =
        new StateSchemaCompatibilityChecker(
            new StateStoreProviderId(new StateStoreId(root, operator, 0, name), UUID.randomUUID()),
            hadoop,
            CollectionConverters.asScala(files).toList(),
            StateSchemaCompatibilityChecker.$lessinit$greater$default$4(),
            StateSchemaCompatibilityChecker.$lessinit$greater$default$5());
    return CollectionConverters.asJava(checker.readSchemaFile());
  }

  /** Returns how a store keeps its keys, of which the operator looks some columns up, the first ones. */
  static KeyStateEncoderSpec keys(StructType columns, int prefix) {
    return prefix > 0 ? new PrefixKeyScanStateEncoderSpec(columns, prefix) : new NoPrefixKeyStateEncoderSpec(columns);
  }

  /**
   * Copies a version of a store.
   *
   * @param session whose settings name the class that keeps the store
   * @param root the directory `state` of the checkpoint
   * @param prefix how many columns of the key the operator looks up by
   * @return the number of rows and their checksum, as read, and then of the copy
   */
  public static long[] copy(
      SparkSession session, String root, long operator, int partition, String name, int prefix, long version) {
    StateCopy copy = new StateCopy(session, new StateStoreId(root, operator, partition, name), prefix);
    String from = copy.settings.getConfString(SQLConf.STATE_STORE_PROVIDER_CLASS().key());
    String to = RocksDBStateStoreProvider.class.getName();
    long[] found = new long[4];
    StateStoreProvider target = copy.open(to);
    try {
      StateStore empty = target.getStore(version - 1, Option.empty(), true, true);
      copy.read(from, version, empty, found, 0);
      empty.commit();
    } finally {
      target.close();
    }
    copy.read(to, version, null, found, 2);
    return found;
  }

  private void read(String provider, long version, StateStore target, long[] found, int at) {
    StateStoreProvider source = open(provider);
    try {
      ReadStateStore store = source.getReadStore(version, Option.empty());
      StateStoreIterator<UnsafeRowPair> rows = store.iterator(FAMILY);
      while (rows.hasNext()) {
        UnsafeRowPair row = rows.next();
        found[at]++;
        found[at + 1] += hash(row.value(), hash(row.key(), 42));
        if (target != null) {
          target.put(row.key(), row.value(), FAMILY);
        }
      }
      rows.close();
      store.release();
    } finally {
      source.close();
    }
  }

  private StateStoreProvider open(String provider) {
    settings.setConfString(SQLConf.STATE_STORE_PROVIDER_CLASS().key(), provider);
    return StateStoreProvider.createAndInit(
        new StateStoreProviderId(id, UUID.randomUUID()),
        schema.keySchema(),
        schema.valueSchema(),
        keys(schema.keySchema(), prefix),
        false,
        StateStoreConf.apply(settings),
        hadoop,
        false,
        Option.empty());
  }

  private static long hash(UnsafeRow row, long seed) {
    return XXH64.hashUnsafeBytes(row.getBaseObject(), row.getBaseOffset(), row.getSizeInBytes(), seed);
  }
}
