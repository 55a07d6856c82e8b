package io.streamjob.text;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import io.streamjob.records.BrokenRecord;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decodes JSON, by Jackson and Spark's conversions of single values: a record is one object, whole, in which each field is
 * a value of its type. What else Spark would take is broken here, unless an option of the source allows it.
 */
public final class JsonDecoder implements FileDecoder {
  private static final long serialVersionUID = 1;

  private final StructType type;
  private final Map<String, String> options;
  private final String zone;

  private transient Task task;

  /** The objects that a task needs, made from the fields that Spark sends to it. */
  private record Task(JsonFactory factory, Charset charset, JsonReading reading, JsonReading.Reading root) {}

  /**
   * Takes the fields as DDL, options of from_json and our own, and the time zone of timestamps without one. Throws errors
   * if these are no fields, or if an option makes no sense.
   */
  public JsonDecoder(String fields, Map<String, String> options, String zone) {
    this.type = ((StructType) CharVarcharUtils.failIfHasCharVarchar(StructType.fromDDL(fields))).asNullable();
    this.options = Map.copyOf(options);
    this.zone = zone;
    task();
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public Object decode(byte[] bytes) throws BrokenRecord {
    List<Object> rows = rows(bytes, false);
    if (rows.isEmpty()) {
      throw new BrokenRecord("it is empty");
    }
    return rows.get(0);
  }

  /** As Spark, takes the objects of an array for records of their own, and skips blank lines. */
  @Override
  public Iterator<Decoded> records(byte[] bytes) {
    try {
      return rows(bytes, true).stream().map(Decoded::of).iterator();
    } catch (BrokenRecord broken) {
      return List.of(Decoded.broken(broken, null)).iterator();
    }
  }

  private List<Object> rows(byte[] bytes, boolean alsoArrays) throws BrokenRecord {
    Task own = task();
    String text = RecordTexts.withoutMark(RecordTexts.of(bytes, own.charset));
    own.reading.begin(text);
    try (JsonParser parser = own.factory.createParser(text)) {
      List<Object> rows = new ArrayList<>(1);
      JsonToken first = parser.nextToken();
      if (first == null) {
        return rows;
      }
      if (first == JsonToken.START_ARRAY && alsoArrays) {
        while (parser.nextToken() != JsonToken.END_ARRAY) {
          rows.add(row(own, parser));
        }
      } else {
        rows.add(row(own, parser));
      }
      if (parser.nextToken() != null) {
        throw new BrokenRecord("more text follows its JSON value");
      }
      return rows;
    } catch (JsonProcessingException broken) {
      throw new BrokenRecord("it is no JSON: " + BrokenRecord.shown(broken.getOriginalMessage()));
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
  }

  private static Object row(Task own, JsonParser parser) throws IOException, BrokenRecord {
    if (parser.currentToken() != JsonToken.START_OBJECT) {
      throw new BrokenRecord("it is no JSON object");
    }
    return own.root.read(parser);
  }

  private Task task() {
    if (task == null) {
      TreeMap<String, String> given = FieldRules.ignoringCase(options);
      // The patterns of old releases take a number in a text for days since 1970.
      given.putIfAbsent("enableDateTimeParsingFallback", "false");
      JacksonParser values = new JacksonParser(type, spark(given), false, JacksonParser.$lessinit$greater$default$4());
      given.putIfAbsent("allowSingleQuotes", "false");
      given.putIfAbsent("allowNonNumericNumbers", "false");
      JSONOptions strict = spark(given);
      String encoding = strict.encoding().getOrElse(StandardCharsets.UTF_8::name);
      JsonReading reading = new JsonReading(values, new FieldRules(given), FieldRules.flag(given, "allowDuplicateKeys"));
      task = new Task(strict.buildJsonFactory(), Charset.forName(encoding), reading, reading.of(type));
    }
    return task;
  }

  private JSONOptions spark(Map<String, String> given) {
    return new JSONOptions(Map$.MODULE$.from(CollectionConverters.asScala(given)), zone, "");
  }

  @Override
  public String toString() {
    return "json";
  }
}
