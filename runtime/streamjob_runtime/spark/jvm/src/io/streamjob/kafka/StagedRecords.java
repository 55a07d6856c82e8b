package io.streamjob.kafka;

import com.github.luben.zstd.Zstd;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;

/**
 * Records that wait to be produced, in one file.
 *
 * <p>A header (magic, version), blocks, and an end: the number of all records. A block is compressed by itself, and has
 * a checksum; so readers and writers hold one block at a time. Each task writes one such part. Several parts in a row are
 * a file, too.
 */
final class StagedRecords {
  static final int NONE = -1;
  static final long NO_TIMESTAMP = Long.MIN_VALUE;

  private static final int MAGIC = 0x534a5252; // SJRR
  private static final int VERSION = 1;
  private static final int HEADER = 8;
  private static final int BLOCK_HEADER = 16;
  private static final int BLOCK = 1 << 20;
  private static final int LEVEL = 1;

  private StagedRecords() {}

  /** A file that is no batch of records, or a damaged one. */
  static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    Unreadable(String message) {
      super(message);
    }
  }

  /** Takes the records of a batch, in their order; what is missing is null, {@link #NONE} or {@link #NO_TIMESTAMP}. */
  interface Taker {
    void take(byte[] topic, int partition, long timestamp, byte[] key, byte[] value, byte[][] headers)
        throws IOException;
  }

  /** Writes one part, as records come. */
  static final class Writer implements AutoCloseable {
    private final FileChannel channel;
    private final Block block = new Block();
    private final DataOutputStream out = new DataOutputStream(block);
    private int inBlock;
    private long records;

    Writer(Path file) throws IOException {
      channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
      writeAll(channel, ByteBuffer.allocate(HEADER).putInt(MAGIC).putInt(VERSION).flip());
    }

    long records() {
      return records;
    }

    /** Adds a record; headers are names and values in turn. */
    void add(byte[] topic, int partition, long timestamp, byte[] key, byte[] value, byte[][] headers)
        throws IOException {
      bytes(topic);
      out.writeInt(partition);
      out.writeLong(timestamp);
      bytes(key);
      bytes(value);
      out.writeInt(headers.length);
      for (byte[] part : headers) {
        bytes(part);
      }
      inBlock++;
      records++;
      if (block.size() >= BLOCK) {
        flush();
      }
    }

    private void bytes(byte[] content) throws IOException {
      out.writeInt(content == null ? NONE : content.length);
      if (content != null) {
        out.write(content);
      }
    }

    private void flush() throws IOException {
      int length = block.size();
      byte[] target = new byte[BLOCK_HEADER + Math.toIntExact(Zstd.compressBound(length))];
      int compressed =
          Math.toIntExact(
              Zstd.compressByteArray(
                  target, BLOCK_HEADER, target.length - BLOCK_HEADER, block.content(), 0, length, LEVEL));
      ByteBuffer whole = ByteBuffer.wrap(target, 0, BLOCK_HEADER + compressed);
      whole.putInt(length).putInt(compressed).putInt(inBlock).putInt(checksum(target, BLOCK_HEADER, compressed));
      writeAll(channel, whole.rewind());
      block.reset();
      inBlock = 0;
    }

    /** Ends the part; without it, readers find the file damaged. */
    void finish() throws IOException {
      if (inBlock > 0) {
        flush();
      }
      ByteBuffer end = ByteBuffer.allocate(BLOCK_HEADER + Long.BYTES);
      writeAll(channel, end.putLong(BLOCK_HEADER, records));
    }

    @Override
    public void close() throws IOException {
      channel.close();
    }
  }

  /** A block that is being filled; its content is not copied to be read. */
  private static final class Block extends ByteArrayOutputStream {
    private Block() {
      super(BLOCK + BLOCK / 4);
    }

    private byte[] content() {
      return buf;
    }
  }

  /** Hands on the records of a file, and returns how many there are. */
  static long read(Path file, Taker taker) throws IOException {
    try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 16))) {
      long found = 0;
      do {
        found += readPart(in, taker);
      } while (hasMore(in));
      return found;
    } catch (EOFException e) {
      throw new Unreadable("damaged: it ends too early");
    }
  }

  private static boolean hasMore(DataInputStream in) throws IOException {
    in.mark(1);
    if (in.read() < 0) {
      return false;
    }
    in.reset();
    return true;
  }

  private static long readPart(DataInputStream in, Taker taker) throws IOException {
    if (in.readInt() != MAGIC) {
      throw new Unreadable("no batch of staged records");
    }
    int version = in.readInt();
    if (version != VERSION) {
      throw new Unreadable("staged records of version " + version + ", and this reads " + VERSION);
    }
    long found = 0;
    while (true) {
      int length = in.readInt();
      int compressed = in.readInt();
      int records = in.readInt();
      int checksum = in.readInt();
      if (length == 0) {
        if (in.readLong() != found) {
          throw new Unreadable("damaged: records are missing");
        }
        return found;
      }
      byte[] content = in.readNBytes(compressed);
      if (content.length < compressed || checksum(content, 0, compressed) != checksum) {
        throw new Unreadable("damaged: the checksum of a block differs");
      }
      handOn(ByteBuffer.wrap(Zstd.decompress(content, length)), records, taker);
      found += records;
    }
  }

  private static void handOn(ByteBuffer block, int records, Taker taker) throws IOException {
    for (int each = 0; each < records; each++) {
      byte[] topic = bytes(block);
      int partition = block.getInt();
      long timestamp = block.getLong();
      byte[] key = bytes(block);
      byte[] value = bytes(block);
      byte[][] headers = new byte[block.getInt()][];
      for (int part = 0; part < headers.length; part++) {
        headers[part] = bytes(block);
      }
      taker.take(topic, partition, timestamp, key, value, headers);
    }
  }

  private static byte[] bytes(ByteBuffer block) {
    int length = block.getInt();
    if (length == NONE) {
      return null;
    }
    byte[] content = new byte[length];
    block.get(content);
    return content;
  }

  private static int checksum(byte[] content, int offset, int length) {
    CRC32C checksum = new CRC32C();
    checksum.update(content, offset, length);
    return (int) checksum.getValue();
  }

  private static void writeAll(FileChannel channel, ByteBuffer content) throws IOException {
    while (content.hasRemaining()) {
      channel.write(content);
    }
  }
}
