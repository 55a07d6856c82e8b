package io.streamjob.rules;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import scala.Option;

/** The state stores of joins: Spark's, with {@link JoinCounts} for the numbers of values. */
public final class JoinCountsProvider extends RocksDBStateStoreProvider {
  @Override
  public RocksDB createRocksDB(
      String root,
      RocksDBConf conf,
      File local,
      Configuration hadoop,
      String label,
      boolean families,
      boolean ids,
      int partition,
      Option<RocksDBEventForwarder> events,
      Option<String> id) {
    boolean counts = stateStoreId().storeName().endsWith("-keyToNumValues");
    return counts
        ? new JoinCounts(root, conf, local, hadoop, label, families, ids, partition, events, id)
        : super.createRocksDB(root, conf, local, hadoop, label, families, ids, partition, events, id);
  }
}
