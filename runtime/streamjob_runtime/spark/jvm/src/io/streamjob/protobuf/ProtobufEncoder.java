package io.streamjob.protobuf;

import io.streamjob.records.RecordEncoder;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.sparkproject.spark_core.protobuf.CodedOutputStream;
import org.sparkproject.spark_core.protobuf.DynamicMessage;

/**
 * Encodes messages of Protobuf, behind the id of their schema and their number in it if it has one, as Confluent's
 * serializers do.
 */
public final class ProtobufEncoder implements RecordEncoder {
  private static final long serialVersionUID = 1;
  private static final int NO_ID = -1;
  /** The numbers of the first message of a schema have a short form. */
  private static final List<Integer> FIRST = List.of(0);

  private final StructType type;
  private final ProtobufMessage message;
  private final int id;

  private transient Task task;

  private record Task(ProtobufMessages messages, byte[] header) {}

  /**
   * Takes the type of the values, their message, and the id of its schema in a registry, or -1 without one. Throws
   * IllegalArgumentException if the message cannot hold the values.
   */
  public ProtobufEncoder(DataType type, ProtobufMessage message, int id) {
    if (!(type instanceof StructType struct)) {
      throw new IllegalArgumentException(
          "a message of Protobuf needs a struct, and the column is " + type.sql() + ": make it with struct(…)");
    }
    this.type = struct;
    this.message = message;
    this.id = id;
    task();
  }

  @Override
  public byte[] encode(InternalRow row) {
    if (row.isNullAt(0)) {
      return null;
    }
    Task own = task();
    DynamicMessage encoded = own.messages.of(row.getStruct(0, type.length()));
    byte[] bytes = new byte[own.header.length + encoded.getSerializedSize()];
    System.arraycopy(own.header, 0, bytes, 0, own.header.length);
    try {
      CodedOutputStream out =
          CodedOutputStream.newInstance(bytes, own.header.length, bytes.length - own.header.length);
      encoded.writeTo(out);
      out.checkNoSpaceLeft();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return bytes;
  }

  @Override
  public String toString() {
    return "protobuf " + message + (id == NO_ID ? "" : " with schema " + id);
  }

  private Task task() {
    if (task == null) {
      byte[] header = id == NO_ID ? new byte[0] : header(id, message.indexes());
      task = new Task(new ProtobufMessages(type, message.descriptor()), header);
    }
    return task;
  }

  private static byte[] header(int id, List<Integer> path) {
    ByteArrayOutputStream header = new ByteArrayOutputStream();
    header.writeBytes(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
    CodedOutputStream numbers = CodedOutputStream.newInstance(header);
    try {
      numbers.writeSInt32NoTag(path.equals(FIRST) ? 0 : path.size());
      if (!path.equals(FIRST)) {
        for (int each : path) {
          numbers.writeSInt32NoTag(each);
        }
      }
      numbers.flush();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return header.toByteArray();
  }
}
