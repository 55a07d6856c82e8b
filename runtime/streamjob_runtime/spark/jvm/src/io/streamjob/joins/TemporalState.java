package io.streamjob.joins;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The state of a key of a {@link TemporalJoin}: the version that is valid, and the rows and versions that wait.
 *
 * <p>Few of these wait in the same value as the version. If they get more, they move into blocks, each ordered by time,
 * and a block is removed when the last of it has been taken. So each row is written about twice, however long the delay
 * is, and a key with few rows takes one read and one write of state in a batch.
 */
final class TemporalState {
  static final long NEVER = Long.MAX_VALUE;

  /** Rows and versions in the value with the version, at most, in bytes: they are written whenever it changes. */
  private static final int HEAD_BYTES = 4 << 10;

  /** The size from which on a block stays as it is. */
  private static final int SMALL_BYTES = 32 << 10;

  /** The size at which a block is closed. */
  private static final int BLOCK_BYTES = 256 << 10;

  /** So many small blocks are joined to larger ones. */
  private static final int SMALL_BLOCKS = 16;

  /** The bytes of a row or a version beside its columns. */
  private static final int ENTRY_BYTES = 48;

  /** A row or a version in time; versions come before rows of the same time. */
  private static final Comparator<Entry> IN_TIME = Comparator.comparingLong(Entry::at).thenComparingInt(Entry::rank);

  private final int columns;
  private final int added;
  private final ValueState<Head> heads;
  private final MapState<Long, Block> blocks;

  private boolean stored;
  private long validFrom;
  private InternalRow valid;
  private long joined;
  private long timer;
  private long number;
  private final List<Entry> waiting = new ArrayList<>();
  private final List<Part> parts = new ArrayList<>();

  /**
   * A row or a version, as it arrives and as it waits.
   *
   * @param at its time in microseconds since 1970
   * @param kind see {@link TemporalJoin}
   * @param row the columns of a row; null for a version
   * @param version the columns of a version; null for a row
   */
  public record Entry(long at, int kind, InternalRow row, InternalRow version) {
    /** Returns a copy that does not share memory. */
    Entry copy() {
      return new Entry(at, kind, row == null ? null : row.copy(), version == null ? null : version.copy());
    }

    private int rank() {
      return kind == TemporalJoin.PREIMAGE ? 0 : row == null ? 1 : 2;
    }

    private int bytes() {
      InternalRow values = row == null ? version : row;
      return ENTRY_BYTES + (values instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 16 * values.numFields());
    }
  }

  /**
   * The least that a key has.
   *
   * @param validFrom the time of the version that is valid, in microseconds since 1970
   * @param valid its columns; null if none is
   * @param joined milliseconds since 1970 up to which the entries of blocks have been taken
   * @param timer the only timer of the key; {@link #NEVER} if it has none
   * @param number of the next block
   * @param waiting entries, in the order of their arrival
   * @param parts blocks, in the order of the arrival of their entries
   */
  public record Head(
      long validFrom, InternalRow valid, long joined, long timer, long number, ArrayData waiting, ArrayData parts) {}

  /** Entries, ordered by time. */
  public record Block(ArrayData entries) {}

  /**
   * A block in the head.
   *
   * @param number its key in the state
   * @param first the milliseconds at which its first entry that has not been taken is due
   * @param bytes its size
   */
  private record Part(long number, long first, int bytes) {}

  /** Declares the state of an operator whose rows and versions have some columns. */
  TemporalState(StatefulProcessorHandle handle, StructType row, StructType version) {
    columns = row.length();
    added = version.length();
    StructType entry =
        new StructType()
            .add("at", DataTypes.LongType)
            .add("kind", DataTypes.IntegerType)
            .add("row", row)
            .add("version", version);
    StructType part =
        new StructType()
            .add("number", DataTypes.LongType)
            .add("first", DataTypes.LongType)
            .add("bytes", DataTypes.IntegerType);
    Encoder<Head> head =
        RecordFields.encoder(
            Head.class,
            DataTypes.LongType,
            version,
            DataTypes.LongType,
            DataTypes.LongType,
            DataTypes.LongType,
            DataTypes.createArrayType(entry),
            DataTypes.createArrayType(part));
    heads = handle.getValueState("heads", head, TTLConfig.NONE());
    Encoder<Block> block = RecordFields.encoder(Block.class, DataTypes.createArrayType(entry));
    blocks = handle.getMapState("blocks", Encoders.LONG(), block, TTLConfig.NONE());
  }

  /** Reads the state of the current key; returns whether it has any. */
  boolean read() {
    Head before = heads.get();
    stored = before != null;
    waiting.clear();
    parts.clear();
    if (!stored) {
      validFrom = 0;
      valid = null;
      joined = Long.MIN_VALUE;
      timer = NEVER;
      number = 0;
      return false;
    }
    validFrom = before.validFrom;
    valid = before.valid;
    joined = before.joined;
    timer = before.timer;
    number = before.number;
    for (int index = 0; index < before.waiting.numElements(); index++) {
      waiting.add(entry(before.waiting, index));
    }
    for (int index = 0; index < before.parts.numElements(); index++) {
      InternalRow part = before.parts.getStruct(index, 3);
      parts.add(new Part(part.getLong(0), part.getLong(1), part.getInt(2)));
    }
    return true;
  }

  /** The time of the version that is valid, in microseconds since 1970. */
  long validFrom() {
    return validFrom;
  }

  /** The columns of the version that is valid; null if none is. */
  InternalRow valid() {
    return valid;
  }

  /** Makes a version the one that is valid; null if none is from now on. */
  void setValid(long at, InternalRow version) {
    validFrom = version == null ? 0 : at;
    valid = version;
  }

  /** The time of the key's timer, in milliseconds since 1970. */
  long timer() {
    return timer;
  }

  void setTimer(long milliseconds) {
    timer = milliseconds;
  }

  /** Returns the first milliseconds at which something that waits is due; {@link #NEVER} if nothing waits. */
  long next() {
    long first = NEVER;
    for (Entry each : waiting) {
      first = Math.min(first, milliseconds(each.at));
    }
    for (Part each : parts) {
      first = Math.min(first, each.first);
    }
    return first;
  }

  /**
   * Takes what is due, in time; what arrives and is not due waits.
   *
   * @param arrived rows and versions that arrive
   * @param watermark in milliseconds since 1970
   */
  List<Entry> take(List<Entry> arrived, long watermark) {
    List<Entry> due = new ArrayList<>();
    for (int index = 0; index < parts.size(); index++) {
      Part part = parts.get(index);
      if (part.first <= watermark) {
        long first = takeFrom(part, watermark, due);
        parts.set(index, new Part(part.number, first, part.bytes));
        if (first == NEVER) {
          blocks.removeKey(part.number);
        }
      }
    }
    parts.removeIf(part -> part.first == NEVER);
    List<Entry> before = new ArrayList<>(waiting);
    waiting.clear();
    for (List<Entry> entries : List.of(before, arrived)) {
      for (Entry each : entries) {
        (milliseconds(each.at) <= watermark ? due : waiting).add(each);
      }
    }
    due.sort(IN_TIME);
    int bytes = 0;
    for (Entry each : waiting) {
      bytes += each.bytes();
    }
    if (bytes > HEAD_BYTES) {
      moveToBlocks(watermark);
    }
    joined = watermark;
    return due;
  }

  /** Writes the state of the current key. */
  void write() {
    if (valid == null && timer == NEVER) {
      if (stored) {
        heads.clear();
      }
      return;
    }
    Object[] listed = new Object[parts.size()];
    for (int index = 0; index < listed.length; index++) {
      Part part = parts.get(index);
      listed[index] = new GenericInternalRow(new Object[] {part.number, part.first, part.bytes});
    }
    heads.update(new Head(validFrom, valid, joined, timer, number, array(waiting), new GenericArrayData(listed)));
  }

  /** Returns the first millisecond at which a watermark has passed a time. */
  static long milliseconds(long microseconds) {
    return -Math.floorDiv(-microseconds, 1000L);
  }

  /** Adds what is due of a block; returns the milliseconds of the first entry that is not, or {@link #NEVER}. */
  private long takeFrom(Part part, long watermark, List<Entry> due) {
    ArrayData entries = blocks.getValue(part.number).entries;
    for (int index = begin(entries); index < entries.numElements(); index++) {
      long milliseconds = milliseconds(entries.getStruct(index, 4).getLong(0));
      if (milliseconds > watermark) {
        return milliseconds;
      }
      due.add(entry(entries, index));
    }
    return NEVER;
  }

  /** Returns the index of the first entry of a block that has not been taken. */
  private int begin(ArrayData entries) {
    int low = 0;
    int high = entries.numElements();
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (milliseconds(entries.getStruct(middle, 4).getLong(0)) <= joined) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private void moveToBlocks(long watermark) {
    List<Entry> moved = new ArrayList<>();
    int small = 0;
    while (small < parts.size() && parts.get(parts.size() - 1 - small).bytes < SMALL_BYTES) {
      small++;
    }
    if (small >= SMALL_BLOCKS) {
      List<Part> last = parts.subList(parts.size() - small, parts.size());
      for (Part part : last) {
        ArrayData entries = blocks.getValue(part.number).entries;
        for (int index = 0; index < entries.numElements(); index++) {
          Entry each = entry(entries, index);
          if (milliseconds(each.at) > watermark) {
            moved.add(each);
          }
        }
        blocks.removeKey(part.number);
      }
      last.clear();
    }
    moved.addAll(waiting);
    waiting.clear();
    moved.sort(IN_TIME);
    int begin = 0;
    int bytes = 0;
    for (int index = 0; index < moved.size(); index++) {
      bytes += moved.get(index).bytes();
      if (bytes >= BLOCK_BYTES || index == moved.size() - 1) {
        parts.add(new Part(number, milliseconds(moved.get(begin).at), bytes));
        blocks.updateValue(number++, new Block(array(moved.subList(begin, index + 1))));
        begin = index + 1;
        bytes = 0;
      }
    }
  }

  private Entry entry(ArrayData entries, int index) {
    InternalRow entry = entries.getStruct(index, 4);
    InternalRow row = entry.isNullAt(2) ? null : entry.getStruct(2, columns);
    InternalRow version = entry.isNullAt(3) ? null : entry.getStruct(3, added);
    return new Entry(entry.getLong(0), entry.getInt(1), row, version);
  }

  private static ArrayData array(List<Entry> entries) {
    Object[] rows = new Object[entries.size()];
    for (int index = 0; index < rows.length; index++) {
      Entry each = entries.get(index);
      rows[index] = new GenericInternalRow(new Object[] {each.at, each.kind, each.row, each.version});
    }
    return new GenericArrayData(rows);
  }
}
