package io.streamjob.state;

import java.util.UUID;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Where the partitions of a query's state are.
 *
 * <p>Spark opens a partition of a fresh query anywhere, and runs its tasks there from then on. Telling Spark's
 * coordinator that the partition is open already places it.
 */
public final class StatePlacement {
  private StatePlacement() {}

  /**
   * Places the partitions of an operator of a query that has not run a batch yet.
   *
   * @param session the query's session
   * @param runId the query's run
   * @param location the query's checkpoint
   * @param operator the operator's number
   * @param stores the names of its state stores, separated by line ends
   * @param places host and executor of each partition, separated by blanks, a partition a line
   */
  @SuppressWarnings("unchecked")
  public static void seed(
      SparkSession session, String runId, String location, long operator, String stores, String places) {
    StateStoreCoordinatorRef coordinator = session.sessionState().streamingQueryManager().stateStoreCoordinator();
    String root = new Path(new Path(location), "state").toString();
    UUID run = UUID.fromString(runId);
    Seq<StateStoreProviderId> others = (Seq<StateStoreProviderId>) (Seq<?>) Nil$.MODULE$;
    String[] lines = places.split("\n");
    for (int partition = 0; partition < lines.length; partition++) {
      String[] place = lines[partition].split(" ");
      for (String store : stores.split("\n")) {
        StateStoreId id = new StateStoreId(root, operator, partition, store);
        coordinator.reportActiveInstance(new StateStoreProviderId(id, run), place[0], place[1], others);
      }
    }
  }
}
