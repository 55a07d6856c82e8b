package io.streamjob.rules;

import java.io.File;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.ArrayIndexRange;
import org.apache.spark.sql.execution.streaming.state.ByteArrayPair;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.RocksDBIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreCheckpointInfo;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.util.NextIterator;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.List;

/**
 * The number of values of each key of a side of a join, in RocksDB; the numbers that a batch used last stay in memory.
 *
 * <p>For each row, a join reads the number of values of the row's key on both sides, and writes that of its own side. Rows
 * that follow each other often have the same keys. A key without values is remembered, too, because RocksDB is slowest
 * for keys that it does not have. A commit stores the same numbers as without this class.
 */
final class JoinCounts extends RocksDB {
  private static final int PLACES = 1 << 13;
  private static final byte[] NONE = new byte[0];

  /** After so many reads, a batch whose keys hardly repeat goes on without memory. */
  private static final int TRIED = 1 << 14;

  private static final int FEWEST = TRIED / 16;

  private final byte[][] keys = new byte[PLACES][];
  private final byte[][] values = new byte[PLACES][];
  private final boolean[] changed = new boolean[PLACES];
  private String family;
  private boolean remembers;
  private int read;
  private int known;

  JoinCounts(
      String root,
      RocksDBConf conf,
      File local,
      Configuration hadoop,
      String label,
      boolean families,
      boolean ids,
      int partition,
      Option<RocksDBEventForwarder> events,
      Option<String> id) {
    super(root, conf, local, hadoop, label, families, ids, partition, events, id);
  }

  @Override
  public RocksDB load(long version, Option<String> id, boolean readOnly, boolean emptyStore) {
    // Loading applies earlier changes by `put` and `remove`.
    forget();
    super.load(version, id, readOnly, emptyStore);
    remembers = true;
    read = 0;
    known = 0;
    return this;
  }

  @Override
  public Tuple2<Object, StateStoreCheckpointInfo> commit(boolean snapshot) {
    write();
    forget();
    return super.commit(snapshot);
  }

  @Override
  public void rollback() {
    forget();
    super.rollback();
  }

  @Override
  public void release() {
    forget();
    super.release();
  }

  @Override
  public byte[] get(byte[] key, String family) {
    if (!remembers(family)) {
      return super.get(key, family);
    }
    int place = place(key);
    read++;
    if (Arrays.equals(key, keys[place])) {
      known++;
    } else {
      byte[] stored = super.get(key, family);
      remember(place, key, stored == null ? NONE : stored, false);
    }
    return values[place] == NONE ? null : values[place];
  }

  @Override
  public void put(byte[] key, byte[] value, String family, boolean prefixed, boolean merging, boolean checked) {
    if (remembers(family) && !prefixed && !merging && !checked) {
      remember(place(key), key, value, true);
    } else {
      drop();
      super.put(key, value, family, prefixed, merging, checked);
    }
  }

  @Override
  public void remove(byte[] key, String family, boolean prefixed, boolean merging, boolean checked) {
    if (remembers(family) && !prefixed && !merging && !checked) {
      remember(place(key), key, NONE, true);
    } else {
      drop();
      super.remove(key, family, prefixed, merging, checked);
    }
  }

  @Override
  public boolean keyExists(byte[] key, String family) {
    return remembers(family) ? get(key, family) != null : super.keyExists(key, family);
  }

  @Override
  public NextIterator<ByteArrayPair> iterator() {
    write();
    return super.iterator();
  }

  @Override
  public NextIterator<ByteArrayPair> iterator(String family) {
    write();
    return super.iterator(family);
  }

  @Override
  public RocksDBIterator reusableIterator(String family) {
    write();
    return super.reusableIterator(family);
  }

  @Override
  public NextIterator<ByteArrayPair> prefixScan(byte[] prefix, String family) {
    write();
    return super.prefixScan(prefix, family);
  }

  @Override
  public NextIterator<ByteArrayPair> rangeScan(Option<byte[]> from, Option<byte[]> until, String family) {
    write();
    return super.rangeScan(from, until, family);
  }

  @Override
  public Iterator<byte[]> multiGet(byte[][] several, String family) {
    write();
    return super.multiGet(several, family);
  }

  @Override
  public Iterator<ArrayIndexRange<Object>> getMergedValues(byte[] key, String family) {
    write();
    return super.getMergedValues(key, family);
  }

  @Override
  public void putList(
      byte[] key, List<byte[]> several, String family, boolean prefixed, boolean merging, boolean checked) {
    drop();
    super.putList(key, several, family, prefixed, merging, checked);
  }

  @Override
  public void merge(byte[] key, byte[] value, String family, boolean prefixed, boolean merging, boolean checked) {
    drop();
    super.merge(key, value, family, prefixed, merging, checked);
  }

  @Override
  public void mergeList(
      byte[] key, List<byte[]> several, String family, boolean prefixed, boolean merging, boolean checked) {
    drop();
    super.mergeList(key, several, family, prefixed, merging, checked);
  }

  @Override
  public void deleteRange(byte[] from, byte[] until, String family, boolean prefixed, boolean merging) {
    drop();
    super.deleteRange(from, until, family, prefixed, merging);
  }

  @Override
  public boolean removeColFamilyIfExists(String name) {
    drop();
    return super.removeColFamilyIfExists(name);
  }

  /** Returns whether numbers of a family stay in memory: those of the first one that is used. */
  private boolean remembers(String used) {
    if (!remembers) {
      return false;
    }
    if (read >= TRIED) {
      if (known < FEWEST) {
        drop();
        return false;
      }
      read = 0;
      known = 0;
    }
    if (family == null) {
      family = used;
    }
    return family.equals(used);
  }

  private static int place(byte[] key) {
    return Murmur3_x86_32.hashUnsafeBytes(key, Platform.BYTE_ARRAY_OFFSET, key.length, 1) & (PLACES - 1);
  }

  private void remember(int place, byte[] key, byte[] value, boolean change) {
    boolean same = Arrays.equals(key, keys[place]);
    if (!same && changed[place]) {
      write(place);
    }
    keys[place] = key;
    values[place] = value;
    changed[place] = change;
  }

  /** Writes what has changed. */
  private void write() {
    for (int place = 0; remembers && place < PLACES; place++) {
      if (changed[place]) {
        write(place);
      }
    }
  }

  private void write(int place) {
    if (values[place] == NONE) {
      super.remove(keys[place], family, false, false, false);
    } else {
      super.put(keys[place], values[place], family, false, false, false);
    }
    changed[place] = false;
  }

  private void forget() {
    if (family != null) {
      Arrays.fill(keys, null);
      Arrays.fill(values, null);
      Arrays.fill(changed, false);
    }
    family = null;
    remembers = false;
  }

  /** Goes on without memory until the next version is loaded. */
  private void drop() {
    write();
    forget();
  }
}
