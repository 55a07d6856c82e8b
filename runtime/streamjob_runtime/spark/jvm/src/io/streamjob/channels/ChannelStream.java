package io.streamjob.channels;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** One consumer's reading of a stream. Its position is the index of the entry that it reads next. */
final class ChannelStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  /** A task costs milliseconds, whatever it reads: fewer records than this are not worth another one. */
  private static final long RECORDS_WORTH_A_TASK = 128;

  private static final Pattern POSITION = Pattern.compile("\\{\"pos\":(\\d+)}");

  private final String stream;
  private final String consumer;
  private final String directory;
  private final long begin;
  private final long firstRecords;
  private long last = Long.MAX_VALUE;
  private volatile boolean limited;

  ChannelStream(String stream, String consumer, String directory, long begin, long firstRecords) {
    this.stream = stream;
    this.consumer = consumer;
    this.directory = directory;
    this.begin = begin;
    this.firstRecords = firstRecords;
  }

  /** Returns whether there was more to read than went into the last batch. */
  boolean wasLimited() {
    return limited;
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return firstRecords > 0 ? ReadLimit.maxRows(firstRecords) : ReadLimit.allAvailable();
  }

  @Override
  public Offset initialOffset() {
    return new Position(begin);
  }

  @Override
  public Offset deserializeOffset(String json) {
    Matcher matcher = POSITION.matcher(json);
    if (!matcher.matches()) {
      throw new IllegalArgumentException("No position in a channel: " + json);
    }
    return new Position(Long.parseLong(matcher.group(1)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    long from = ((Position) start).index;
    if (from >= last) {
      limited = false;
      return start;
    }
    long most = limit instanceof ReadMaxRows ? ((ReadMaxRows) limit).maxRows() : Long.MAX_VALUE;
    // Asked first: what is served in between does not make a batch one that was limited.
    long frontier = Math.min(Channels.frontier(stream, consumer), last);
    long end = Math.min(Channels.end(stream, consumer, from, most), last);
    limited = end < frontier;
    return new Position(end);
  }

  @Override
  public Offset reportLatestOffset() {
    return new Position(Channels.frontier(stream, consumer));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    last = Channels.frontier(stream, consumer);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    List<Channels.Segment> segments = Channels.segments(stream, ((Position) start).index, ((Position) end).index);
    long records = records(segments);
    long slots = Math.min(SparkContext.getOrCreate().defaultParallelism(), segments.size());
    long tasks = Math.max(1, Math.min(slots, records / RECORDS_WORTH_A_TASK));
    Map<String, List<Channels.Segment>> places = new LinkedHashMap<>();
    segments.forEach(each -> places.computeIfAbsent(each.place(), place -> new ArrayList<>()).add(each));
    List<InputPartition> partitions = new ArrayList<>();
    // Each place gets its share of the tasks, rounded up.
    places.forEach(
        (place, here) -> plan(place, here, (tasks * records(here) + records - 1) / records, partitions));
    return partitions.toArray(new InputPartition[0]);
  }

  private void plan(String place, List<Channels.Segment> segments, long tasks, List<InputPartition> partitions) {
    long records = records(segments);
    List<String> names = new ArrayList<>();
    long planned = 0;
    long made = 0;
    for (Channels.Segment segment : segments) {
      // In the order of the stream, which a partition keeps.
      if (!names.isEmpty() && planned >= records * (made + 1) / tasks) {
        partitions.add(new ChannelReaderFactory.Files(directory, names.toArray(new String[0]), place));
        names.clear();
        made++;
      }
      names.add(segment.name());
      planned += segment.records();
    }
    partitions.add(new ChannelReaderFactory.Files(directory, names.toArray(new String[0]), place));
  }

  private static long records(List<Channels.Segment> segments) {
    return segments.stream().mapToLong(Channels.Segment::records).sum();
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ChannelReaderFactory();
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  @Override
  public String toString() {
    return "channel " + stream + " to " + consumer;
  }

  private static final class Position extends Offset {
    private final long index;

    Position(long index) {
      this.index = index;
    }

    @Override
    public String json() {
      return "{\"pos\":" + index + "}";
    }
  }
}
