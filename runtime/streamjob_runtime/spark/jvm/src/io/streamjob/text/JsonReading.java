package io.streamjob.text;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonStreamContext;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.exc.InputCoercionException;
import io.streamjob.records.BrokenRecord;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;

/** Reads values of JSON as Spark's types. Objects, arrays, texts and exact numbers are read here, the rest by Spark. */
final class JsonReading {
  /** Reads the value whose first token a parser has read, and leaves the parser at its last one. */
  interface Reading {
    Object read(JsonParser parser) throws IOException, BrokenRecord;
  }

  /** Reads a value as a {@link Reading} does, and leaves it to others to name its field. */
  private interface Conversion {
    Object of(JsonParser parser) throws IOException, BrokenRecord, BrokenRecord.Field;
  }

  private final JacksonParser spark;
  private final FieldRules rules;
  private final boolean allowDuplicateKeys;

  private String text = "";
  private boolean mayHaveHalves;

  JsonReading(JacksonParser spark, FieldRules rules, boolean allowDuplicateKeys) {
    this.spark = spark;
    this.rules = rules;
    this.allowDuplicateKeys = allowDuplicateKeys;
  }

  /** Begins a record with this text. */
  void begin(String record) {
    text = record;
    // Half of a surrogate pair can only be written as an escape.
    mayHaveHalves = record.contains("\\u");
  }

  /** Returns what reads a type. Throws if JSON has no such values. */
  Reading of(DataType type) {
    Conversion conversion = conversion(type);
    boolean hasNull = type instanceof VariantType;
    return parser -> {
      if (parser.currentToken() == JsonToken.VALUE_NULL && !hasNull) {
        return null;
      }
      try {
        return conversion.of(parser);
      } catch (BrokenRecord.Field broken) {
        throw broken.at(field(parser));
      }
    };
  }

  private Conversion conversion(DataType type) {
    if (type instanceof StructType struct) {
      return object(struct);
    }
    if (type instanceof ArrayType array) {
      return array(of(array.elementType()), type);
    }
    if (type instanceof MapType map) {
      if (!(map.keyType() instanceof StringType)) {
        throw new IllegalArgumentException("the keys of a map in JSON are texts, and not " + map.keyType().sql());
      }
      return map(of(map.valueType()), type);
    }
    if (type instanceof StringType) {
      return this::string;
    }
    if (type instanceof DecimalType decimal) {
      return parser ->
          parser.currentToken() == JsonToken.VALUE_STRING
              ? rules.decimal(parser.getText(), decimal)
              : rules.decimal(number(parser, type), decimal);
    }
    Conversion conversion = bySpark(type);
    if (type instanceof ByteType) {
      return parser -> {
        Object value = conversion.of(parser);
        // Jackson takes 128 for -128.
        if (((Byte) value).intValue() != parser.getIntValue()) {
          throw broken(parser, type);
        }
        return value;
      };
    }
    if (type instanceof FloatType || type instanceof DoubleType) {
      return parser -> {
        Object value = conversion.of(parser);
        if (Double.isInfinite(((Number) value).doubleValue()) && isWrittenOut(parser)) {
          throw new BrokenRecord.Field(FieldRules.cannotHold(parser.getText(), type));
        }
        return value;
      };
    }
    if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return parser -> {
        if (parser.currentToken().isNumeric()) {
          return rules.micros(number(parser, type), type);
        }
        if (parser.currentToken() == JsonToken.VALUE_STRING) {
          rules.checkDate(parser.getText());
        }
        return conversion.of(parser);
      };
    }
    if (type instanceof DateType) {
      return parser -> {
        if (parser.currentToken().isNumeric()) {
          String days = "; read days since 1970 as an INT, and compute date_from_unix_date";
          throw new BrokenRecord.Field(FieldRules.isNo(parser.getText(), type) + days);
        }
        return conversion.of(parser);
      };
    }
    return conversion;
  }

  private Conversion object(StructType type) {
    StructField[] fields = type.fields();
    Map<String, Integer> indices = new HashMap<>();
    Reading[] readings = new Reading[fields.length];
    for (int index = 0; index < fields.length; index++) {
      indices.put(fields[index].name(), index);
      readings[index] = of(fields[index].dataType());
    }
    return parser -> {
      expect(parser, JsonToken.START_OBJECT, type);
      GenericInternalRow row = new GenericInternalRow(fields.length);
      boolean[] read = new boolean[fields.length];
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        Integer index = indices.get(parser.currentName());
        parser.nextToken();
        if (index == null) {
          parser.skipChildren();
          continue;
        }
        if (read[index]) {
          checkDuplicate(parser);
        }
        read[index] = true;
        row.update(index, readings[index].read(parser));
      }
      return row;
    };
  }

  private Conversion array(Reading element, DataType type) {
    return parser -> {
      expect(parser, JsonToken.START_ARRAY, type);
      List<Object> values = new ArrayList<>();
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        values.add(element.read(parser));
      }
      return new GenericArrayData(values.toArray());
    };
  }

  private Conversion map(Reading value, DataType type) {
    return parser -> {
      expect(parser, JsonToken.START_OBJECT, type);
      Map<Object, Object> entries = new LinkedHashMap<>();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        UTF8String key = utf8(parser, parser.currentName());
        parser.nextToken();
        if (entries.containsKey(key)) {
          checkDuplicate(parser);
        }
        entries.put(key, value.read(parser));
      }
      return new ArrayBasedMapData(
          new GenericArrayData(entries.keySet().toArray()), new GenericArrayData(entries.values().toArray()));
    };
  }

  /** Reads a text, or any other value as the text that it has in the record. */
  private Object string(JsonParser parser) throws IOException, BrokenRecord {
    if (!parser.currentToken().isStructStart()) {
      return utf8(parser, parser.getText());
    }
    int from = (int) parser.currentTokenLocation().getCharOffset();
    parser.skipChildren();
    return UTF8String.fromString(text.substring(from, (int) parser.currentLocation().getCharOffset()));
  }

  private static BigDecimal number(JsonParser parser, DataType type) throws IOException, BrokenRecord.Field {
    if (parser.currentToken().isNumeric()) {
      try {
        return parser.getDecimalValue();
      } catch (NumberFormatException | JsonProcessingException notFinite) {
        // Below: it is NaN, or has too many digits for any number.
      }
    }
    throw broken(parser, type);
  }

  private Conversion bySpark(DataType type) {
    Function1<JsonParser, Object> conversion = spark.makeConverter(type);
    return parser -> {
      if (type instanceof BinaryType && parser.currentToken() == JsonToken.VALUE_STRING) {
        // Otherwise the parser decodes it while it reads it, and stops within a text that is no base64.
        parser.getText();
      }
      try {
        Object value = conversion.apply(parser);
        if (value != null) {
          return value;
        }
      } catch (RuntimeException notOfTheType) {
        // Below: what Spark says about it does not name the field.
      } catch (Exception error) {
        // Scala declares no checked exceptions.
        boolean ofValue = error instanceof InputCoercionException || type instanceof BinaryType;
        if (error instanceof IOException failed && !ofValue) {
          throw failed;
        }
      }
      throw broken(parser, type);
    };
  }

  private void checkDuplicate(JsonParser parser) throws BrokenRecord {
    if (!allowDuplicateKeys) {
      String how = "is there twice (the option allowDuplicateKeys: true takes the last)";
      throw new BrokenRecord.Field(how).at(field(parser));
    }
  }

  private UTF8String utf8(JsonParser parser, String value) throws BrokenRecord {
    if (mayHaveHalves && RecordTexts.hasHalfOfAPair(value)) {
      throw new BrokenRecord.Field("has half of a surrogate pair, which is no character").at(field(parser));
    }
    return UTF8String.fromString(value);
  }

  private static void expect(JsonParser parser, JsonToken token, DataType type) throws IOException, BrokenRecord.Field {
    if (parser.currentToken() != token) {
      throw broken(parser, type);
    }
  }

  private static BrokenRecord.Field broken(JsonParser parser, DataType type) throws IOException {
    String found =
        switch (parser.currentToken()) {
          case START_OBJECT, END_OBJECT -> "an object";
          case START_ARRAY, END_ARRAY -> "an array";
          case VALUE_STRING -> FieldRules.quoted(parser.getText());
          default -> parser.getText();
        };
    return new BrokenRecord.Field(FieldRules.isNo(found, type));
  }

  /** Returns whether a number has digits, and is not NaN or Infinity. */
  private static boolean isWrittenOut(JsonParser parser) throws IOException {
    return parser.currentToken().isNumeric() && parser.getText().chars().anyMatch(Character::isDigit);
  }

  /** Returns the path of the field whose value a parser reads, such as `after.lines[2].price`. */
  private static String field(JsonParser parser) {
    StringBuilder path = new StringBuilder();
    for (JsonStreamContext at = parser.getParsingContext(); at != null; at = at.getParent()) {
      String separator = path.isEmpty() || path.charAt(0) == '[' ? "" : ".";
      if (at.inArray() && at.hasCurrentIndex()) {
        path.insert(0, separator).insert(0, "[" + at.getCurrentIndex() + "]");
      } else if (at.inObject() && at.getCurrentName() != null) {
        path.insert(0, separator).insert(0, at.getCurrentName());
      }
    }
    return path.toString();
  }
}
