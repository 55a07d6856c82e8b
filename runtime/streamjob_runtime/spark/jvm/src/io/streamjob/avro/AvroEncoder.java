package io.streamjob.avro;

import io.streamjob.records.RecordEncoder;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.avro.AvroSerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** Encodes Avro as Spark's to_avro does, by the same classes of Spark and Avro, behind the id of its schema if it has one. */
public final class AvroEncoder implements RecordEncoder {
  private static final long serialVersionUID = 1;
  private static final int NO_ID = -1;

  private final DataType type;
  private final String schema;
  private final int id;

  private transient Task task;

  private record Task(
      AvroSerializer serializer, GenericDatumWriter<Object> writer, ByteArrayOutputStream out, byte[] header) {}

  /**
   * Takes the type of the values, the text of their schema, and its id in a registry, or -1 without one. Throws errors of
   * Avro and Spark if this is not a schema, or values of the type cannot be written with it.
   */
  public AvroEncoder(DataType type, String schema, int id) {
    this.type = type;
    this.schema = schema;
    this.id = id;
    task();
  }

  @Override
  public byte[] encode(InternalRow row) {
    if (row.isNullAt(0)) {
      return null;
    }
    Task own = task();
    try {
      own.out.reset();
      own.out.write(own.header);
      // An encoder for each record costs less than the buffer of one that is reused.
      BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(own.out, null);
      own.writer.write(own.serializer.serialize(row.get(0, type)), encoder);
      return own.out.toByteArray();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public String toString() {
    return id == NO_ID ? "avro" : "avro with schema " + id;
  }

  private Task task() {
    if (task == null) {
      Schema parsed = AvroSchemas.parse(schema);
      byte[] header = id == NO_ID ? new byte[0] : ByteBuffer.allocate(5).put((byte) 0).putInt(id).array();
      AvroSerializer serializer = new AvroSerializer(type, parsed, false);
      task = new Task(serializer, new GenericDatumWriter<>(parsed), new ByteArrayOutputStream(), header);
    }
    return task;
  }
}
