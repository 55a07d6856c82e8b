package io.streamjob;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.BadRecordException;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function2;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decodes JSON as Spark's from_json does, by the same classes of Spark and Jackson, with two differences: a text that
 * cannot be read as a whole gives no row instead of a row with NULLs, and Jackson reads characters. Spark gives it a reader
 * of bytes, whose buffer of 8 KB for each record takes half of the time of a short record.
 */
public final class JsonDecoder implements RecordDecoder {
  private static final long serialVersionUID = 1;

  private final StructType type;
  private final Map<String, String> options;
  private final String zone;

  private transient JacksonParser parser;
  private transient Function2<JsonFactory, String, JsonParser> opened;
  private transient GenericInternalRow row;

  /**
   * Takes the fields as DDL, options of from_json, and the time zone of timestamps without one. Throws errors of Spark if
   * these are no fields, or if an option makes no sense.
   */
  public JsonDecoder(String fields, Map<String, String> options, String zone) {
    this.type = ((StructType) CharVarcharUtils.failIfHasCharVarchar(StructType.fromDDL(fields))).asNullable();
    this.options = options;
    this.zone = zone;
    prepare();
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public InternalRow decode(byte[] bytes) {
    if (parser == null) {
      prepare();
    }
    Iterator<InternalRow> rows = rows(new String(bytes, StandardCharsets.UTF_8));
    if (!rows.hasNext()) {
      return null;
    }
    row.update(0, rows.next());
    return row;
  }

  private Iterator<InternalRow> rows(String text) {
    try {
      return parser.parse(text, opened, UTF8String::fromString).iterator();
    } catch (Exception error) {
      // Scala declares no checked exceptions.
      if (error instanceof BadRecordException) {
        return scala.collection.Iterator$.MODULE$.empty();
      }
      throw error;
    }
  }

  private void prepare() {
    scala.collection.immutable.Map<String, String> given = Map$.MODULE$.from(CollectionConverters.asScala(options));
    parser = new JacksonParser(type, new JSONOptions(given, zone, ""), false, JacksonParser.$lessinit$greater$default$4());
    opened = JsonDecoder::open;
    row = new GenericInternalRow(1);
  }

  private static JsonParser open(JsonFactory factory, String text) {
    try {
      return factory.createParser(text);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public String toString() {
    return "json";
  }
}
