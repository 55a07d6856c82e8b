package io.streamjob.kafka;

import java.util.Map;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Where a stream of topics begins, by the rules of Spark's connector. */
public final class KafkaBeginning {
  private KafkaBeginning() {}

  /** Returns the offsets as Spark writes them; the directory is for the stream's own notes. */
  public static String of(SparkSession session, Map<String, String> options, String directory)
      throws ReflectiveOperationException {
    // The stream wants the session of its thread.
    SparkSession.setActiveSession(session);
    TableProvider connector = BoundedKafkaSource.connector();
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
    SupportsRead table =
        (SupportsRead) connector.getTable(connector.inferSchema(given), new Transform[0], options);
    MicroBatchStream stream = table.newScanBuilder(given).build().toMicroBatchStream(directory);
    try {
      return stream.initialOffset().json();
    } finally {
      stream.stop();
    }
  }
}
