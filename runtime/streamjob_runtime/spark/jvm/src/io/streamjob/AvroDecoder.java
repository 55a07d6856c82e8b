package io.streamjob;

import io.streamjob.SchemaRegistry.Registered;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.AvroOptions;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import scala.Option;

/**
 * Decodes Avro as Spark's from_avro does, by the same classes of Spark and Avro, with two differences: bytes that are not
 * exactly one value of the schema give no row instead of a row of NULLs, and with a registry the first five bytes name the
 * schema that wrote the others, which are then read as values of this decoder's own schema.
 */
public final class AvroDecoder implements RecordDecoder {
  private static final long serialVersionUID = 1;
  private static final byte MAGIC = 0;
  private static final int HEADER = 5;

  private final String schema;
  private final SchemaRegistry registry;
  private final DataType type;
  private final String rebase;
  private final boolean stableIds;
  private final String stablePrefix;
  private final int depth;

  private transient Task task;

  /** The objects that a task needs, made from the fields that Spark sends to it. */
  private static final class Task {
    final Schema reader;
    final AvroDeserializer deserializer;
    final Map<Integer, Optional<GenericDatumReader<Object>>> readers = new HashMap<>();
    final GenericInternalRow row = new GenericInternalRow(1);
    int lastId = -1;
    GenericDatumReader<Object> last;
    Object reused;
    BinaryDecoder decoder;

    Task(Schema reader, AvroDeserializer deserializer) {
      this.reader = reader;
      this.deserializer = deserializer;
    }
  }

  /**
   * Takes the text of the schema, options of from_avro, and the registry of the schemas that records name, or null if
   * records name none. Throws errors of Avro and Spark if this is not a schema, or Spark has no type for it.
   */
  public AvroDecoder(String schema, Map<String, String> options, SchemaRegistry registry) {
    AvroOptions read = AvroSchemas.options(options);
    this.schema = schema;
    this.registry = registry;
    this.rebase = read.datetimeRebaseModeInRead();
    this.stableIds = read.useStableIdForUnionType();
    this.stablePrefix = read.stableIdPrefixForUnionType();
    this.depth = read.recursiveFieldMaxDepth();
    this.type = SchemaConverters.toSqlType(AvroSchemas.parse(schema), stableIds, stablePrefix, depth).dataType();
    task();
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public InternalRow decode(byte[] bytes) {
    Task own = task();
    if (registry == null) {
      return read(own, own.last, bytes, 0);
    }
    if (bytes.length < HEADER || bytes[0] != MAGIC) {
      return null;
    }
    int id = ByteBuffer.wrap(bytes, 1, 4).getInt();
    if (id != own.lastId) {
      own.last = own.readers.computeIfAbsent(id, this::reader).orElse(null);
      own.lastId = id;
    }
    return own.last == null ? null : read(own, own.last, bytes, HEADER);
  }

  @Override
  public String toString() {
    return registry == null ? "avro" : "avro from " + registry;
  }

  private static InternalRow read(Task own, GenericDatumReader<Object> reader, byte[] bytes, int from) {
    try {
      own.decoder = DecoderFactory.get().binaryDecoder(bytes, from, bytes.length - from, own.decoder);
      own.reused = reader.read(own.reused, own.decoder);
      if (!own.decoder.isEnd()) {
        return null;
      }
      Option<Object> value = own.reused == null ? Option.empty() : own.deserializer.deserialize(own.reused);
      own.row.update(0, value.isEmpty() ? null : value.get());
      return own.row;
    } catch (IOException | RuntimeException broken) {
      own.reused = null;
      return null;
    }
  }

  /** Returns what reads values of a schema of the registry; empty if it has none, or values of it cannot be read. */
  private Optional<GenericDatumReader<Object>> reader(int id) {
    Optional<Registered> found = registry.byId(id);
    if (found.isEmpty()) {
      return Optional.empty();
    }
    try {
      Schema writer = AvroSchemas.schema(registry, found.get());
      return Optional.of(new GenericDatumReader<>(writer, task().reader));
    } catch (AvroRuntimeException unusable) {
      return Optional.empty();
    }
  }

  private Task task() {
    if (task == null) {
      Schema reader = AvroSchemas.parse(schema);
      task = new Task(reader, new AvroDeserializer(withoutNull(reader), type, rebase, stableIds, stablePrefix, depth));
      task.last = registry == null ? new GenericDatumReader<>(reader, reader) : null;
    }
    return task;
  }

  /** Returns the schema of values that are not null. */
  private static Schema withoutNull(Schema schema) {
    if (schema.getType() != Schema.Type.UNION || !schema.isNullable()) {
      return schema;
    }
    java.util.List<Schema> others =
        schema.getTypes().stream().filter(each -> each.getType() != Schema.Type.NULL).toList();
    return others.size() == 1 ? others.get(0) : Schema.createUnion(others);
  }
}
