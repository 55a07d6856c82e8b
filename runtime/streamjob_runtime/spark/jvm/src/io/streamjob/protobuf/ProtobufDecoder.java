package io.streamjob.protobuf;

import io.streamjob.records.BrokenRecord;
import io.streamjob.records.RecordDecoder;
import io.streamjob.records.SchemaRegistry;
import io.streamjob.records.SchemaRegistry.Registered;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.sparkproject.spark_core.protobuf.ByteString;
import org.sparkproject.spark_core.protobuf.CodedInputStream;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.DynamicMessage;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;
import org.sparkproject.spark_core.protobuf.UnsafeByteOperations;

/**
 * Decodes messages of Protobuf to the types that Spark's from_protobuf gives them. With a registry, the first bytes name the
 * schema and the message that wrote the others: a message of another name, or with fields of other types, is a broken record.
 */
public final class ProtobufDecoder implements RecordDecoder {
  private static final long serialVersionUID = 1;
  private static final byte MAGIC = 0;
  private static final int ID = 5;
  private static final int MOST_LEVELS = 100;

  private final ProtobufMessage message;
  private final SchemaRegistry registry;
  private final StructType type;
  private final boolean defaults;

  private transient Task task;

  /** The objects that a task needs, made from the fields that Spark sends to it. */
  private static final class Task {
    final Descriptor reader;
    final ProtobufRows rows;
    final Map<ByteString, Boolean> readable = new HashMap<>();
    byte[] lastHeader = new byte[0];
    boolean lastReadable;

    Task(Descriptor reader, ProtobufRows rows) {
      this.reader = reader;
      this.rows = rows;
    }
  }

  /**
   * Takes the message that rows are made of, options of from_protobuf, and the registry of the schemas that records name,
   * or null if records name none. Throws IllegalArgumentException if Spark has no type for the message.
   */
  public ProtobufDecoder(ProtobufMessage message, Map<String, String> options, SchemaRegistry registry) {
    ProtobufTypes.Options read = ProtobufTypes.Options.of(options);
    this.message = message;
    this.registry = registry;
    this.type = new ProtobufTypes(read).of(message.descriptor());
    this.defaults = read.defaults();
    task();
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public Object decode(byte[] bytes) throws BrokenRecord {
    Task own = task();
    int from = 0;
    if (registry != null) {
      from = own.lastHeader.length;
      if (from == 0 || bytes.length < from || !Arrays.equals(bytes, 0, from, own.lastHeader, 0, from)) {
        from = header(own, bytes);
      }
      if (from < 0 || !own.lastReadable) {
        throw new BrokenRecord("it does not begin with the id of a schema whose messages can be read");
      }
    }
    try {
      ByteString content = UnsafeByteOperations.unsafeWrap(ByteBuffer.wrap(bytes, from, bytes.length - from));
      return own.rows.of(DynamicMessage.parseFrom(own.reader, content));
    } catch (InvalidProtocolBufferException broken) {
      throw new BrokenRecord("its bytes are no message: " + BrokenRecord.shown(broken.getMessage()));
    }
  }

  @Override
  public String toString() {
    return "protobuf " + message + (registry == null ? "" : " from " + registry);
  }

  /** Returns how long the header of a record is, and keeps whether its message can be read; -1 if there is none. */
  private int header(Task own, byte[] bytes) {
    if (bytes.length <= ID || bytes[0] != MAGIC) {
      return -1;
    }
    int id = ByteBuffer.wrap(bytes, 1, 4).getInt();
    int[] path;
    int length;
    try {
      CodedInputStream numbers = CodedInputStream.newInstance(bytes, ID, bytes.length - ID);
      int levels = numbers.readSInt32();
      if (levels < 0 || levels > MOST_LEVELS) {
        return -1;
      }
      path = new int[Math.max(1, levels)];
      for (int each = 0; each < levels; each++) {
        path[each] = numbers.readSInt32();
      }
      length = ID + numbers.getTotalBytesRead();
    } catch (IOException broken) {
      return -1;
    }
    ByteString header = ByteString.copyFrom(bytes, 0, length);
    Boolean known = own.readable.get(header);
    if (known == null) {
      Optional<Registered> found = registry.byId(id);
      if (found.isEmpty()) {
        // The registry's client keeps that for a while.
        return -1;
      }
      known = isReadable(found.get(), path);
      own.readable.put(header, known);
    }
    own.lastHeader = header.toByteArray();
    own.lastReadable = known;
    return length;
  }

  private boolean isReadable(Registered registered, int[] path) {
    try {
      Descriptor writer = ProtobufMessage.at(ProtobufSchemas.files(registry, registered), path);
      return writer != null
          && writer.getFullName().equals(message.toString())
          && ProtobufEvolution.isReadable(writer, task().reader);
    } catch (IllegalArgumentException unusable) {
      return false;
    }
  }

  private Task task() {
    if (task == null) {
      task = new Task(message.descriptor(), new ProtobufRows(message.descriptor(), type, defaults));
    }
    return task;
  }
}
