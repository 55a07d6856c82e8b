package io.streamjob.avro;

import io.streamjob.records.BrokenRecord;
import io.streamjob.records.RecordDecoder;
import io.streamjob.records.SchemaRegistry;
import io.streamjob.records.SchemaRegistry.Registered;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.util.Utf8;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.AvroOptions;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Decodes Avro as Spark's from_avro does, by the same classes of Spark and Avro, with two differences: bytes that are not
 * exactly one value of the schema are a broken record instead of a row of NULLs, and with a registry the first five bytes name the
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
  public Object decode(byte[] bytes) throws BrokenRecord {
    Task own = task();
    if (registry == null) {
      return read(own, own.last, bytes, 0);
    }
    if (bytes.length < HEADER || bytes[0] != MAGIC) {
      throw new BrokenRecord("it does not begin with the id of a schema");
    }
    int id = ByteBuffer.wrap(bytes, 1, 4).getInt();
    if (id != own.lastId) {
      own.last = own.readers.computeIfAbsent(id, this::reader).orElse(null);
      own.lastId = id;
    }
    if (own.last == null) {
      throw new BrokenRecord("the registry has no schema " + id + " whose values can be read");
    }
    return read(own, own.last, bytes, HEADER);
  }

  @Override
  public String toString() {
    return registry == null ? "avro" : "avro from " + registry;
  }

  private static Object read(Task own, GenericDatumReader<Object> reader, byte[] bytes, int from) throws BrokenRecord {
    try {
      own.decoder = DecoderFactory.get().binaryDecoder(bytes, from, bytes.length - from, own.decoder);
      own.reused = reader.read(own.reused, own.decoder);
      if (!own.decoder.isEnd()) {
        throw new BrokenRecord("more bytes follow its value");
      }
      checkTexts(own.reused);
      Option<Object> value = own.reused == null ? Option.empty() : own.deserializer.deserialize(own.reused);
      return value.isEmpty() ? null : value.get();
    } catch (IOException | RuntimeException broken) {
      own.reused = null;
      throw new BrokenRecord("its bytes are no value of the schema: " + BrokenRecord.shown(String.valueOf(broken.getMessage())));
    }
  }

  /** Throws if a string in a value is no UTF-8, which Avro and Spark would pass on. */
  private static void checkTexts(Object value) throws BrokenRecord {
    if (value instanceof Utf8 text) {
      if (!UTF8String.fromBytes(text.getBytes(), 0, text.getByteLength()).isValid()) {
        throw new BrokenRecord("its bytes are no value of the schema: a string is no UTF-8");
      }
    } else if (value instanceof IndexedRecord fields) {
      for (int index = 0; index < fields.getSchema().getFields().size(); index++) {
        checkTexts(fields.get(index));
      }
    } else if (value instanceof Iterable<?> elements) {
      for (Object each : elements) {
        checkTexts(each);
      }
    } else if (value instanceof Map<?, ?> entries) {
      checkTexts(entries.keySet());
      checkTexts(entries.values());
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
