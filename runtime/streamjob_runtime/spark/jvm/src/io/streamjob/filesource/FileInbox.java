package io.streamjob.filesource;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;

/** The files that Python has found for one reading of a source, and which no batch has yet. */
public final class FileInbox {
  private final Deque<FoundFile> waiting = new ArrayDeque<>();
  private final Deque<FoundFile> reading = new ArrayDeque<>();
  /** Of the unread files, each one that is older than all behind it: the minimum of a queue, at a constant cost. */
  private final Deque<FoundFile> oldest = new ArrayDeque<>();
  private Map<String, String> figures = Map.of();
  private boolean searched;
  private long bytes;
  private long committed = -1;
  private String failure;

  /** Adds files, one JSON object in each line. */
  public void offer(String lines) {
    List<FoundFile> files = lines.lines().map(FoundFile::of).toList();
    synchronized (this) {
      searched = true;
      waiting.addAll(files);
      for (FoundFile file : files) {
        bytes += file.size();
        while (!oldest.isEmpty() && oldest.getLast().modified() > file.modified()) {
          oldest.removeLast();
        }
        oldest.addLast(file);
      }
    }
  }

  /** Returns the number of files that wait. */
  public synchronized int size() {
    return waiting.size();
  }

  /** Lets the query fail when it next asks for files. */
  public synchronized void fail(String message) {
    failure = message;
  }

  /** Sets further figures for the progress of the query. */
  public synchronized void report(Map<String, String> more) {
    searched = true;
    figures = Map.copyOf(more);
  }

  /** Returns the last entry whose batch Spark has committed; -1 for none. */
  public synchronized long committed() {
    return committed;
  }

  synchronized void commit(long entry) {
    committed = entry;
  }

  /**
   * Returns the number of files whose batch has not ended, their bytes, and the time of the oldest one in ms since 1970
   * if there is one; empty before the first search.
   */
  public synchronized String unread() {
    if (!searched) {
      return "";
    }
    String time = oldest.isEmpty() ? "" : " " + oldest.getFirst().modified();
    return waiting.size() + reading.size() + " " + bytes + time;
  }

  /** Returns the figures of a batch that has ended: its files are read. */
  synchronized Map<String, String> ended() {
    long read = reading.stream().mapToLong(FoundFile::size).sum();
    while (!reading.isEmpty()) {
      if (reading.remove() == oldest.peekFirst()) {
        oldest.removeFirst();
      }
    }
    bytes -= read;
    Map<String, String> result = new HashMap<>(figures);
    result.put("bytesRead", Long.toString(read));
    return result;
  }

  /** Returns the next files of one group within a limit, at least one if one waits; they go on waiting until {@link #take}. */
  synchronized List<FoundFile> next(ReadLimit limit) {
    if (failure != null) {
      throw new IllegalStateException(failure);
    }
    long mostFiles = limit instanceof ReadMaxFiles files ? files.maxFiles() : Long.MAX_VALUE;
    long mostBytes = limit instanceof ReadMaxBytes size ? size.maxBytes() : Long.MAX_VALUE;
    List<FoundFile> result = new ArrayList<>();
    long sum = 0;
    for (FoundFile file : waiting) {
      sum += file.size();
      if (!result.isEmpty()
          && (result.size() >= mostFiles || sum > mostBytes || !file.group().equals(result.get(0).group()))) {
        break;
      }
      result.add(file);
    }
    return result;
  }

  synchronized void take(int files) {
    for (int number = 0; number < files; number++) {
      reading.add(waiting.remove());
    }
  }
}
