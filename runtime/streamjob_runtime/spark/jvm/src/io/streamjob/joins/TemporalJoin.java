package io.streamjob.joins;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Joins each row with the version of its key that is valid at the time of the row.
 *
 * <p>Rows and versions wait until the watermark has passed their times: nothing that belongs before them can arrive any
 * more. Then the join is a merge of two ordered streams: a version becomes the one that is valid, and a row is joined
 * with it. So a key's state is that version, and all rows and versions whose time the watermark has not passed. A timer
 * for the first of them calls keys for which nothing arrives.
 *
 * <p>Semantics: Flink's {@code TemporalRowTimeJoinOperator}.
 */
public final class TemporalJoin extends StatefulProcessor<Row, TemporalState.Entry, TemporalJoin.Joined> {
  private static final long serialVersionUID = 1L;

  private static final long NEVER = -1;

  /** A version begins. The other version ends the one before it. */
  private static final int BEGINS = 0;

  /** A version ends, but this gives way to a version of the same time: it is the image before an update. */
  static final int PREIMAGE = 2;

  /** A row without a time: no version is valid then. */
  private static final int UNTIMED = 4;

  private final StructType row;
  private final StructType version;
  private final boolean inner;
  private final long validForUs;
  private transient TemporalState state;

  private TemporalJoin(StructType row, StructType version, boolean inner, long validForUs) {
    this.row = row;
    this.version = version;
    this.inner = inner;
    this.validForUs = validForUs;
  }

  /** A row, and the version that was valid at its time; null if none was. */
  public record Joined(InternalRow row, InternalRow version) {}

  /**
   * Returns rows with the columns of the versions that are valid at their times.
   *
   * @param input rows and versions, with the columns {@code at}, {@code kind}, {@code row}, {@code version}, those of
   *     the key, and the event time of rows. {@code at} is in microseconds since 1970. A row has no version, and a
   *     version no row. {@code kind} is 0 if a version begins, 1 if it ends, 2 for the image before an update, 3 for a
   *     row, 4 for a row without a time.
   * @param keys the key
   * @param row the columns of a row
   * @param version the columns of a version
   * @param inner whether rows without a version are dropped
   * @param validForUs for how long a version is valid, in microseconds; -1 for until the next one
   */
  public static Dataset<?> join(
      Dataset<Row> input, StructType keys, StructType row, StructType version, boolean inner, long validForUs) {
    Column[] grouping = new Column[keys.length()];
    for (int index = 0; index < grouping.length; index++) {
      grouping[index] = input.col(keys.fields()[index].name());
    }
    Encoder<TemporalState.Entry> entry =
        RecordFields.encoder(TemporalState.Entry.class, DataTypes.LongType, DataTypes.IntegerType, row, version);
    return input
        .groupBy(grouping)
        .as(Encoders.row(keys), entry)
        .transformWithState(
            new TemporalJoin(row, version, inner, validForUs),
            TimeMode.EventTime(),
            OutputMode.Append(),
            RecordFields.spread(Joined.class, row, version));
  }

  /** Returns for how long a version is valid, in microseconds; -1 for until the next one. */
  public long validForUs() {
    return validForUs;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    state = new TemporalState(getHandle(), row, version);
  }

  @Override
  public Iterator<Joined> handleInputRows(Row key, Iterator<TemporalState.Entry> input, TimerValues times) {
    List<Joined> output = new ArrayList<>();
    List<TemporalState.Entry> arrived = new ArrayList<>();
    while (input.hasNext()) {
      // Spark gives its memory to the next row.
      TemporalState.Entry each = input.next().copy();
      if (each.kind() == UNTIMED) {
        add(output, each.row(), null);
      } else {
        arrived.add(each);
      }
    }
    if (!arrived.isEmpty()) {
      state.read();
      advance(arrived, times.getCurrentWatermarkInMs(), output, NEVER);
    }
    return CollectionConverters.asScala(output.iterator());
  }

  @Override
  public Iterator<Joined> handleExpiredTimer(Row key, TimerValues times, ExpiredTimerInfo timer) {
    List<Joined> output = new ArrayList<>();
    if (state.read()) {
      advance(List.of(), times.getCurrentWatermarkInMs(), output, timer.getExpiryTimeInMs());
    }
    return CollectionConverters.asScala(output.iterator());
  }

  /**
   * Joins all rows whose time the watermark has passed.
   *
   * <p>A version may come behind the watermark. Rows that are joined already stay as they are; those that wait get the
   * version.
   *
   * @param fired the timer that Spark calls, and removes; -1 if it calls none
   */
  private void advance(List<TemporalState.Entry> arrived, long watermark, List<Joined> output, long fired) {
    for (TemporalState.Entry each : state.take(arrived, watermark)) {
      if (each.row() != null) {
        add(output, each.row(), validAt(each.at()));
      } else if (state.valid() == null || state.validFrom() <= each.at()) {
        state.setValid(each.at(), each.kind() == BEGINS ? each.version() : null);
      }
    }
    if (expiry() <= watermark) {
      state.setValid(0, null);
    }
    // Spark 4.3 does not call a timer of a time that the watermark has passed already. Nothing that is due is left.
    long next = Math.min(state.next(), expiry());
    if (next != state.timer()) {
      if (state.timer() != TemporalState.NEVER && state.timer() != fired) {
        getHandle().deleteTimer(state.timer());
      }
      if (next != TemporalState.NEVER) {
        getHandle().registerTimer(next);
      }
      state.setTimer(next);
    }
    state.write();
  }

  private InternalRow validAt(long at) {
    return validForUs != NEVER && at - state.validFrom() >= validForUs ? null : state.valid();
  }

  /** Returns when the version that is valid is so no longer, in milliseconds since 1970. */
  private long expiry() {
    boolean ends = state.valid() != null && validForUs != NEVER;
    return ends ? TemporalState.milliseconds(state.validFrom() + validForUs) : TemporalState.NEVER;
  }

  private void add(List<Joined> output, InternalRow row, InternalRow match) {
    if (match != null || !inner) {
      output.add(new Joined(row, match));
    }
  }
}
