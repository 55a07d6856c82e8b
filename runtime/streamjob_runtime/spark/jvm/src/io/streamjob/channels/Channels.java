package io.streamjob.channels;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The entries of the streams between chains, and how far each consumer may read, in the driver's memory.
 *
 * <p>It decides nothing: Python appends entries, serves consumers and drops what nobody needs. One text a call, because
 * a call across the language border is what costs.
 */
public final class Channels {
  private static final Map<String, Log> LOGS = new ConcurrentHashMap<>();

  private Channels() {}

  /**
   * A file of whole records in the directory of its stream.
   *
   * @param place the executor that has it, in the words of Spark's scheduler; empty if every process has it
   */
  record Segment(String name, long records, long length, String place) {
    static Segment parse(String text) {
      String[] fields = text.split(" ");
      String place = fields.length > 3 ? fields[3] : "";
      return new Segment(fields[0], Long.parseLong(fields[1]), Long.parseLong(fields[2]), place);
    }
  }

  /** Opens an empty stream whose next entry has an index. */
  public static void open(String stream, long base) {
    if (LOGS.putIfAbsent(stream, new Log(stream, base)) != null) {
      throw new IllegalStateException("Stream " + stream + " is open already; close it first");
    }
  }

  /**
   * Appends entries from an index on, which has to be the next one.
   *
   * @param entries one line an entry; its segments, `name records length place`, are separated by commas. A place may
   *     be left out. The line of an entry without records is empty.
   */
  public static void append(String stream, long index, String entries) {
    List<List<Segment>> parsed = new ArrayList<>();
    for (String line : entries.split("\n", -1)) {
      List<Segment> segments = new ArrayList<>();
      for (String segment : line.isEmpty() ? new String[0] : line.split(",")) {
        segments.add(Segment.parse(segment));
      }
      parsed.add(List.copyOf(segments));
    }
    log(stream).append(index, parsed);
  }

  /** Lets a consumer read the entries below a frontier, in batches of so many records. */
  public static void serve(String stream, String consumer, long frontier, long maxRecords) {
    log(stream).serve(consumer, frontier, maxRecords);
  }

  /** Forgets the entries below an index; returns the names of their segments, a line each. */
  public static String drop(String stream, long below) {
    return log(stream).drop(below);
  }

  /** Forgets a stream. */
  public static void close(String stream) {
    LOGS.remove(stream);
  }

  /**
   * Returns how far a batch of a consumer that stands at `start` reads, by its own limit of records and another one;
   * `start` if there is nothing to read.
   */
  static long end(String stream, String consumer, long start, long maxRecords) {
    return log(stream).end(consumer, start, maxRecords);
  }

  /** Returns how far a consumer may read. */
  static long frontier(String stream, String consumer) {
    return log(stream).frontier(consumer);
  }

  /** Returns the segments of the entries from `start` to below `end`. */
  static List<Segment> segments(String stream, long start, long end) {
    return log(stream).segments(start, end);
  }

  private static Log log(String stream) {
    Log log = LOGS.get(stream);
    if (log == null) {
      throw new IllegalStateException("Stream " + stream + " is not open; it ended with its epoch");
    }
    return log;
  }

  private record Reading(long frontier, long maxRecords) {}

  private static final class Log {
    private final String stream;
    private final List<List<Segment>> entries = new ArrayList<>();
    private final Map<String, Reading> consumers = new HashMap<>();
    private long base;

    Log(String stream, long base) {
      this.stream = stream;
      this.base = base;
    }

    synchronized void append(long index, List<List<Segment>> added) {
      if (index != base + entries.size()) {
        throw new IllegalStateException(
            "Stream " + stream + " got entry " + index + "; its next one is " + (base + entries.size()));
      }
      entries.addAll(added);
    }

    synchronized void serve(String consumer, long frontier, long maxRecords) {
      if (frontier > base + entries.size()) {
        throw new IllegalStateException("Stream " + stream + " has no entries up to " + frontier);
      }
      consumers.put(consumer, new Reading(frontier, maxRecords));
    }

    synchronized String drop(long below) {
      StringJoiner names = new StringJoiner("\n");
      int count = (int) Math.min(Math.max(below - base, 0), entries.size());
      List<List<Segment>> dropped = entries.subList(0, count);
      dropped.forEach(segments -> segments.forEach(segment -> names.add(segment.name())));
      dropped.clear();
      base += count;
      return names.toString();
    }

    synchronized long frontier(String consumer) {
      Reading reading = consumers.get(consumer);
      return reading == null ? base : reading.frontier();
    }

    synchronized long end(String consumer, long start, long maxRecords) {
      Reading reading = consumers.get(consumer);
      if (reading == null || start >= reading.frontier()) {
        return start;
      }
      long most = Math.min(reading.maxRecords(), maxRecords);
      long end = start;
      long records = 0;
      for (List<Segment> segments : range(start, reading.frontier())) {
        long more = segments.stream().mapToLong(Segment::records).sum();
        // Entries without records cost nothing, and a batch of nothing else would not bring the consumer forward.
        if (records > 0 && more > 0 && records + more > most) {
          break;
        }
        records += more;
        end++;
      }
      return end;
    }

    synchronized List<Segment> segments(long start, long end) {
      List<Segment> result = new ArrayList<>();
      range(start, end).forEach(result::addAll);
      return result;
    }

    private List<List<Segment>> range(long start, long end) {
      if (start < base || end > base + entries.size()) {
        throw new IllegalStateException(
            "Stream " + stream + " holds entries " + base + " to " + (base + entries.size() - 1)
                + ", not " + start + " to " + (end - 1) + "; restore the job from a checkpoint");
      }
      return entries.subList((int) (start - base), (int) (end - base));
    }
  }
}
