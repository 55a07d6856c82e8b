package io.streamjob.protobuf;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.sparkproject.spark_core.protobuf.ByteString;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.EnumDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.EnumValueDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.OneofDescriptor;
import org.sparkproject.spark_core.protobuf.DynamicMessage;

/** Makes messages of rows. Columns and fields are matched by name; a column that is NULL gives no field. */
final class ProtobufMessages {
  private static final long MICROSECONDS = 1_000_000;
  private static final long LARGEST_UINT32 = 0xFFFF_FFFFL;

  private final Descriptor message;
  private final FieldDescriptor[] fields;
  private final Conversion[] conversions;

  /** Returns Protobuf's value for one of a row, an array or a map. */
  private interface Conversion {
    Object of(SpecializedGetters from, int at);
  }

  /** Takes the type of rows and messages. Throws IllegalArgumentException if the messages cannot hold the rows. */
  ProtobufMessages(StructType type, Descriptor message) {
    this.message = message;
    StructField[] columns = type.fields();
    this.fields = new FieldDescriptor[columns.length];
    this.conversions = new Conversion[columns.length];
    for (int each = 0; each < columns.length; each++) {
      fields[each] = field(message, columns[each].name());
      conversions[each] = conversion(columns[each].dataType(), fields[each]);
    }
    for (FieldDescriptor each : message.getFields()) {
      if (each.isRequired() && !List.of(fields).contains(each)) {
        throw new IllegalArgumentException("they have no column for the required field " + each.getFullName());
      }
    }
  }

  /** Returns the message for a row. Throws IllegalArgumentException for values that it cannot hold. */
  DynamicMessage of(InternalRow row) {
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(message);
    for (int each = 0; each < fields.length; each++) {
      FieldDescriptor field = fields[each];
      if (row.isNullAt(each)) {
        if (field.isRequired()) {
          throw new IllegalArgumentException("the required field " + field.getFullName() + " is NULL");
        }
        continue;
      }
      OneofDescriptor alternatives = field.getContainingOneof();
      if (alternatives != null && builder.hasOneof(alternatives)) {
        throw new IllegalArgumentException(
            "two fields of " + alternatives.getFullName() + " are not NULL, and a message holds one");
      }
      builder.setField(field, conversions[each].of(row, each));
    }
    return builder.build();
  }

  private static FieldDescriptor field(Descriptor message, String column) {
    FieldDescriptor exact = message.findFieldByName(column);
    if (exact != null) {
      return exact;
    }
    String lower = column.toLowerCase(Locale.ROOT);
    List<FieldDescriptor> alike =
        message.getFields().stream().filter(each -> each.getName().toLowerCase(Locale.ROOT).equals(lower)).toList();
    if (alike.size() != 1) {
      throw new IllegalArgumentException(
          "the message " + message.getFullName() + " has no field for the column " + column);
    }
    return alike.get(0);
  }

  private static Conversion conversion(DataType type, FieldDescriptor field) {
    if (field.isMapField() && type instanceof MapType map) {
      return map(map, field.getMessageType());
    }
    if (field.isRepeated() && !field.isMapField() && type instanceof ArrayType array) {
      Conversion element = one(array.elementType(), field);
      return (from, at) -> {
        ArrayData values = from.getArray(at);
        List<Object> converted = new ArrayList<>(values.numElements());
        for (int each = 0; each < values.numElements(); each++) {
          converted.add(element.of(withoutNull(values, each, field), each));
        }
        return converted;
      };
    }
    if (field.isRepeated()) {
      throw unlike(type, field);
    }
    return one(type, field);
  }

  private static Conversion map(MapType type, Descriptor entry) {
    FieldDescriptor keyField = entry.findFieldByName("key");
    FieldDescriptor valueField = entry.findFieldByName("value");
    Conversion key = one(type.keyType(), keyField);
    Conversion value = one(type.valueType(), valueField);
    return (from, at) -> {
      MapData map = from.getMap(at);
      List<DynamicMessage> entries = new ArrayList<>(map.numElements());
      for (int each = 0; each < map.numElements(); each++) {
        entries.add(
            DynamicMessage.newBuilder(entry)
                .setField(keyField, key.of(map.keyArray(), each))
                .setField(valueField, value.of(withoutNull(map.valueArray(), each, valueField), each))
                .build());
      }
      return entries;
    };
  }

  private static ArrayData withoutNull(ArrayData values, int at, FieldDescriptor field) {
    if (values.isNullAt(at)) {
      throw new IllegalArgumentException("an element of " + field.getFullName() + " is NULL");
    }
    return values;
  }

  private static Conversion one(DataType type, FieldDescriptor field) {
    Conversion found =
        switch (field.getType()) {
          case INT32, SINT32, SFIXED32 -> integer(type);
          case UINT32, FIXED32 -> type instanceof LongType ? uint32(field) : integer(type);
          case INT64, SINT64, SFIXED64 -> wide(type);
          case UINT64, FIXED64 -> type instanceof DecimalType decimal ? uint64(decimal, field) : wide(type);
          case FLOAT -> type instanceof FloatType ? (from, at) -> from.getFloat(at) : null;
          case DOUBLE -> real(type);
          case BOOL -> type instanceof BooleanType ? (from, at) -> from.getBoolean(at) : null;
          case STRING -> type instanceof StringType ? (from, at) -> from.getUTF8String(at).toString() : null;
          case BYTES -> type instanceof BinaryType ? (from, at) -> ByteString.copyFrom(from.getBinary(at)) : null;
          case ENUM -> enumeration(type, field.getEnumType());
          case MESSAGE, GROUP -> message(type, field.getMessageType());
        };
    if (found == null) {
      throw unlike(type, field);
    }
    return found;
  }

  private static IllegalArgumentException unlike(DataType type, FieldDescriptor field) {
    String kind = field.getType().name().toLowerCase(Locale.ROOT);
    boolean ofName = field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
    String named = field.isMapField() ? "map" : ofName ? field.getMessageType().getFullName() : kind;
    String whole = (field.isRepeated() && !field.isMapField() ? "repeated " : "") + named;
    return new IllegalArgumentException(
        "the field " + field.getFullName() + " is " + whole + ", and its column is " + type.sql());
  }

  private static Conversion integer(DataType type) {
    if (type instanceof IntegerType) {
      return SpecializedGetters::getInt;
    }
    if (type instanceof ShortType) {
      return (from, at) -> (int) from.getShort(at);
    }
    return type instanceof ByteType ? (from, at) -> (int) from.getByte(at) : null;
  }

  private static Conversion wide(DataType type) {
    if (type instanceof LongType) {
      return SpecializedGetters::getLong;
    }
    Conversion narrow = integer(type);
    return narrow == null ? null : (from, at) -> ((Integer) narrow.of(from, at)).longValue();
  }

  private static Conversion real(DataType type) {
    if (type instanceof DoubleType) {
      return SpecializedGetters::getDouble;
    }
    return type instanceof FloatType ? (from, at) -> (double) from.getFloat(at) : null;
  }

  private static Conversion uint32(FieldDescriptor field) {
    return (from, at) -> {
      long value = from.getLong(at);
      if (value < 0 || value > LARGEST_UINT32) {
        throw new IllegalArgumentException(field.getFullName() + " cannot hold " + value);
      }
      return (int) value;
    };
  }

  private static Conversion uint64(DecimalType type, FieldDescriptor field) {
    if (type.scale() != 0) {
      return null;
    }
    return (from, at) -> {
      java.math.BigInteger value = from.getDecimal(at, type.precision(), 0).toJavaBigDecimal().toBigInteger();
      if (value.signum() < 0 || value.bitLength() > Long.SIZE) {
        throw new IllegalArgumentException(field.getFullName() + " cannot hold " + value);
      }
      return value.longValue();
    };
  }

  private static Conversion enumeration(DataType type, EnumDescriptor names) {
    if (type instanceof StringType) {
      return (from, at) -> known(names.findValueByName(from.getUTF8String(at).toString()), names, from.getUTF8String(at));
    }
    if (!(type instanceof IntegerType)) {
      return null;
    }
    return (from, at) -> known(names.findValueByNumber(from.getInt(at)), names, from.getInt(at));
  }

  private static EnumValueDescriptor known(EnumValueDescriptor value, EnumDescriptor names, Object given) {
    if (value == null) {
      throw new IllegalArgumentException(given + " is no value of the enum " + names.getFullName());
    }
    return value;
  }

  private static Conversion message(DataType type, Descriptor message) {
    String name = message.getFullName();
    if (type instanceof StructType struct) {
      ProtobufMessages nested = new ProtobufMessages(struct, message);
      return (from, at) -> nested.of(from.getStruct(at, struct.length()));
    }
    boolean isTime = type instanceof TimestampType && name.equals(ProtobufTypes.TIMESTAMP);
    if (isTime || (type instanceof DayTimeIntervalType && name.equals(ProtobufTypes.DURATION))) {
      return (from, at) -> time(message, from.getLong(at), isTime);
    }
    if (!ProtobufTypes.isWrapper(message)) {
      return null;
    }
    FieldDescriptor wrapped = Objects.requireNonNull(message.findFieldByName("value"));
    Conversion inner = one(type, wrapped);
    return (from, at) -> DynamicMessage.newBuilder(message).setField(wrapped, inner.of(from, at)).build();
  }

  /** Returns a Timestamp, whose nanoseconds count forward, or a Duration, whose parts have the same sign. */
  private static DynamicMessage time(Descriptor message, long microseconds, boolean forward) {
    long seconds = forward ? Math.floorDiv(microseconds, MICROSECONDS) : microseconds / MICROSECONDS;
    return DynamicMessage.newBuilder(message)
        .setField(message.findFieldByName("seconds"), seconds)
        .setField(message.findFieldByName("nanos"), (int) (microseconds - seconds * MICROSECONDS) * 1000)
        .build();
  }
}
