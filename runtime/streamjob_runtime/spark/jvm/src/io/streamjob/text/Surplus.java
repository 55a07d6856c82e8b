package io.streamjob.text;

import java.util.Map;
import org.apache.spark.util.LongAccumulator;

/** How many more records than rows of Spark there are in files, batch by batch. */
public final class Surplus {
  private final LongAccumulator counted;
  private long reported;

  /** Begins with what comes from now on. */
  public Surplus(LongAccumulator counted) {
    this.counted = counted;
    this.reported = counted.sum();
  }

  /** Adds the number since the last call to the figures of a batch, unless it is 0. */
  public void addTo(Map<String, String> figures) {
    long sum = counted.sum();
    if (sum != reported) {
      figures.put("recordsSurplus", Long.toString(sum - reported));
      reported = sum;
    }
  }
}
