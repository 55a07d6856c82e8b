package io.streamjob;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Joins each row with the version of its key that is valid at the time of the row.
 *
 * <p>Rows and versions wait until the watermark has passed their times: nothing that belongs before them can arrive any
 * more. Spark then calls their timers in the order of time, so that the join is a merge of two ordered streams: a
 * version becomes the one that is valid, and a row is joined with it. So a key's state is that version, and all rows
 * and versions whose time the watermark has not passed.
 *
 * <p>Semantics: Flink's {@code TemporalRowTimeJoinOperator}.
 */
public final class TemporalJoin extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;

  private static final long NEVER = -1;

  /** How a version changes which one is valid. */
  private static final int BEGINS = 0;

  /** The same as {@code delete}, but gives way to a version of the same time: the image before an update. */
  private static final int PREIMAGE = 2;

  private static final Comparator<Row> BY_TIME =
      Comparator.<Row>comparingLong(each -> each.getLong(0))
          .thenComparingInt(each -> each.getInt(1) == PREIMAGE ? 0 : 1);

  private final int columns;
  private final int added;
  private final StructType moment;
  private final StructType valid;
  private final boolean inner;
  private final long validForUs;
  private transient MapState<Long, Row> moments;
  private transient ValueState<Row> version;

  private TemporalJoin(StructType row, StructType version, boolean inner, long validForUs) {
    this.columns = row.length();
    this.added = version.length();
    this.inner = inner;
    this.validForUs = validForUs;
    StructType waitingRow = new StructType().add("at", DataTypes.LongType).add("row", row);
    StructType waitingVersion =
        new StructType().add("at", DataTypes.LongType).add("change", DataTypes.IntegerType).add("version", version);
    this.moment =
        new StructType()
            .add("rows", DataTypes.createArrayType(waitingRow))
            .add("versions", DataTypes.createArrayType(waitingVersion));
    this.valid =
        new StructType().add("at", DataTypes.LongType).add("timer", DataTypes.LongType).add("version", version);
  }

  /**
   * Returns rows with the columns of the versions that are valid at their times.
   *
   * @param input rows and versions, with the columns {@code at}, {@code row}, {@code version}, {@code change}, those of
   *     the key, and the event time of rows. {@code at} is in microseconds since 1970. A row has no version, and a
   *     version no row. {@code change} is 0 if the version begins, 1 if it ends, 2 for the image before an update.
   * @param keys the key
   * @param row the columns of a row
   * @param version the columns of a version
   * @param inner whether rows without a version are dropped
   * @param validForUs for how long a version is valid, in microseconds; -1 for until the next one
   */
  public static Dataset<Row> join(
      Dataset<Row> input, StructType keys, StructType row, StructType version, boolean inner, long validForUs) {
    Column[] grouping = new Column[keys.length()];
    for (int index = 0; index < grouping.length; index++) {
      grouping[index] = input.col(keys.fields()[index].name());
    }
    StructType output = row;
    for (int index = 0; index < version.length(); index++) {
      output = output.add(version.fields()[index]);
    }
    return input
        .groupBy(grouping)
        .as(Encoders.row(keys), Encoders.row(input.schema()))
        .transformWithState(
            new TemporalJoin(row, version, inner, validForUs),
            TimeMode.EventTime(),
            OutputMode.Append(),
            Encoders.row(output));
  }

  /** Returns for how long a version is valid, in microseconds; -1 for until the next one. */
  long validForUs() {
    return validForUs;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    moments = getHandle().getMapState("moments", Encoders.LONG(), Encoders.row(moment), TTLConfig.NONE());
    version = getHandle().getValueState("version", Encoders.row(valid), TTLConfig.NONE());
  }

  /** Rows and versions that wait for the watermark to reach one millisecond. */
  private static final class Moment {
    private final List<Row> rows = new ArrayList<>();
    private final List<Row> versions = new ArrayList<>();
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> input, TimerValues times) {
    long watermark = times.getCurrentWatermarkInMs();
    List<Row> output = new ArrayList<>();
    Map<Long, Moment> arrived = new TreeMap<>();
    List<Row> behind = new ArrayList<>();
    while (input.hasNext()) {
      Row each = input.next();
      if (each.isNullAt(0)) {
        add(output, each.getStruct(1), null); // No version is valid at an unknown time.
      } else if (!each.isNullAt(1)) {
        momentOf(arrived, each).rows.add(RowFactory.create(each.get(0), each.get(1)));
      } else {
        Row change = RowFactory.create(each.get(0), each.get(3), each.get(2));
        (milliseconds(each.getLong(0)) <= watermark ? behind : momentOf(arrived, each).versions).add(change);
      }
    }
    arrived.forEach(this::store);
    if (!behind.isEmpty()) {
      applyBehind(behind, watermark);
    }
    return CollectionConverters.asScala(output.iterator());
  }

  @Override
  public Iterator<Row> handleExpiredTimer(Row key, TimerValues times, ExpiredTimerInfo timer) {
    long now = timer.getExpiryTimeInMs();
    List<Row> output = new ArrayList<>();
    Row before = version.get();
    Row current = before;
    Row stored = moments.getValue(now);
    if (stored != null) {
      List<Row> rows = new ArrayList<>(stored.<Row>getList(0));
      List<Row> versions = new ArrayList<>(stored.<Row>getList(1));
      rows.sort(Comparator.comparingLong(each -> each.getLong(0)));
      versions.sort(BY_TIME);
      int next = 0;
      for (Row row : rows) {
        while (next < versions.size() && versions.get(next).getLong(0) <= row.getLong(0)) {
          current = changed(current, versions.get(next++));
        }
        add(output, row.getStruct(1), validAt(current, row.getLong(0)));
      }
      while (next < versions.size()) {
        current = changed(current, versions.get(next++));
      }
      moments.removeKey(now);
    }
    if (current != null && !current.isNullAt(1) && current.getLong(1) == now) {
      current = expired(current, now) ? null : withTimer(current, NEVER);
    }
    keep(before, current);
    return CollectionConverters.asScala(output.iterator());
  }

  /**
   * Applies versions that come behind the watermark.
   *
   * <p>Rows that are joined already stay as they are; those that wait get the version. The timers of a time that the
   * watermark had passed before this batch are not called any more, so a version is applied at once if nothing waits
   * that comes before it.
   */
  private void applyBehind(List<Row> versions, long watermark) {
    long first = Long.MAX_VALUE;
    Iterator<Object> timers = getHandle().listTimers();
    while (timers.hasNext()) {
      first = Math.min(first, (Long) timers.next());
    }
    versions.sort(BY_TIME);
    Row before = version.get();
    Row current = before;
    Map<Long, Moment> waiting = new TreeMap<>();
    for (Row each : versions) {
      if (milliseconds(each.getLong(0)) < first) {
        current = changed(current, each);
      } else {
        momentOf(waiting, each).versions.add(each);
      }
    }
    if (current != null && expired(current, Math.min(watermark, first - 1))) {
      current = null;
    }
    keep(before, current);
    waiting.forEach(this::store);
  }

  private void store(long milliseconds, Moment moment) {
    Row stored = moments.getValue(milliseconds);
    if (stored == null) {
      getHandle().registerTimer(milliseconds);
    } else {
      moment.rows.addAll(0, stored.getList(0));
      moment.versions.addAll(0, stored.getList(1));
    }
    moments.updateValue(milliseconds, RowFactory.create(scala(moment.rows), scala(moment.versions)));
  }

  /** Returns what is valid after a change; null if nothing is. */
  private static Row changed(Row current, Row change) {
    if (current != null && current.getLong(0) > change.getLong(0)) {
      return current;
    }
    Object timer = current == null ? null : current.get(1);
    return change.getInt(1) == BEGINS ? RowFactory.create(change.get(0), timer, change.get(2)) : null;
  }

  private Row validAt(Row current, long at) {
    boolean over = current == null || validForUs != NEVER && at - current.getLong(0) >= validForUs;
    return over ? null : current.getStruct(2);
  }

  private boolean expired(Row current, long now) {
    return validForUs != NEVER && milliseconds(current.getLong(0) + validForUs) <= now;
  }

  private void keep(Row before, Row current) {
    if (current == null) {
      if (before != null) {
        version.clear();
      }
      return;
    }
    Row kept = current;
    if (validForUs != NEVER && (kept.isNullAt(1) || kept.getLong(1) == NEVER)) {
      long timer = milliseconds(kept.getLong(0) + validForUs);
      getHandle().registerTimer(timer);
      kept = withTimer(kept, timer);
    }
    if (kept != before) {
      version.update(kept);
    }
  }

  private static Row withTimer(Row current, long timer) {
    return RowFactory.create(current.get(0), timer, current.get(2));
  }

  private void add(List<Row> output, Row row, Row match) {
    if (match == null && inner) {
      return;
    }
    Object[] values = new Object[columns + added];
    for (int index = 0; index < columns; index++) {
      values[index] = row.get(index);
    }
    for (int index = 0; match != null && index < added; index++) {
      values[columns + index] = match.get(index);
    }
    output.add(RowFactory.create(values));
  }

  private static Moment momentOf(Map<Long, Moment> moments, Row each) {
    return moments.computeIfAbsent(milliseconds(each.getLong(0)), none -> new Moment());
  }

  /** Returns the first millisecond at which a watermark has passed a time. */
  private static long milliseconds(long microseconds) {
    return -Math.floorDiv(-microseconds, 1000L);
  }

  private static scala.collection.Seq<Row> scala(List<Row> rows) {
    return CollectionConverters.asScala(rows).toSeq();
  }
}
