package io.streamjob.state;

import java.io.File;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf$;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** A state store without rows: Spark opens a version only from its files, and makes none for a store that is new. */
public final class EmptyStore {
  static final String CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled";

  private EmptyStore() {}

  /**
   * Writes version 1 of a store, without rows, as a snapshot.
   *
   * @param session whose settings the store has
   * @param directory where the snapshot goes
   * @param scratch a directory for the store's files while it is open
   */
  public static void write(SparkSession session, String directory, String scratch) {
    SQLConf settings = session.sessionState().conf().clone();
    // With changelogs, a commit leaves the snapshot to a thread of its own.
    settings.setConfString(CHANGELOGS, "false");
    RocksDB store =
        new RocksDB(
            directory,
            RocksDBConf$.MODULE$.apply(StateStoreConf.apply(settings)),
            new File(scratch),
            session.sessionState().newHadoopConf(),
            "empty store",
            false,
            true,
            RocksDB.$lessinit$greater$default$8(),
            Option.empty(),
            Option.empty());
    try {
      store.load(0, Option.empty(), false, false);
      store.commit(true);
    } finally {
      store.close();
    }
  }
}
