package io.streamjob.protobuf;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkproject.spark_core.protobuf.ByteString;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.EnumValueDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;
import org.sparkproject.spark_core.protobuf.Message;

/** Makes rows of messages, with the types of `ProtobufTypes`. */
final class ProtobufRows {
  private static final long MICROSECONDS = 1_000_000;

  private final Descriptor message;
  private final FieldDescriptor[] fields;
  private final Conversion[] conversions;
  private final boolean defaults;

  /** Returns Spark's value for one of Protobuf. */
  private interface Conversion {
    Object of(Object value) throws InvalidProtocolBufferException;
  }

  /** Takes the type of the messages and of the rows, and whether a scalar that a message lacks has its default. */
  ProtobufRows(Descriptor message, StructType type, boolean defaults) {
    this.message = message;
    this.defaults = defaults;
    StructField[] columns = type.fields();
    this.fields = new FieldDescriptor[columns.length];
    this.conversions = new Conversion[columns.length];
    for (int each = 0; each < columns.length; each++) {
      fields[each] = message.findFieldByName(columns[each].name());
      conversions[each] = conversion(fields[each], columns[each].dataType());
    }
  }

  /** Returns the row for a message. Throws InvalidProtocolBufferException if another schema wrote the message. */
  GenericInternalRow of(Message value) throws InvalidProtocolBufferException {
    refuseOtherTypes(value);
    GenericInternalRow row = new GenericInternalRow(fields.length);
    for (int each = 0; each < fields.length; each++) {
      FieldDescriptor field = fields[each];
      boolean present =
          field.isRepeated()
              || field.hasDefaultValue()
              || value.hasField(field)
              || (defaults && !field.hasPresence());
      row.update(each, present ? conversions[each].of(value.getField(field)) : null);
    }
    return row;
  }

  /** Protobuf takes a field of another type for an unknown one. */
  private void refuseOtherTypes(Message value) throws InvalidProtocolBufferException {
    Map<Integer, ?> unknown = value.getUnknownFields().asMap();
    if (unknown.isEmpty()) {
      return;
    }
    for (int number : unknown.keySet()) {
      FieldDescriptor field = message.findFieldByNumber(number);
      // A closed enum keeps its unknown values there.
      if (field != null && !(field.getType() == FieldDescriptor.Type.ENUM && field.getEnumType().isClosed())) {
        throw new InvalidProtocolBufferException("the field " + field.getFullName() + " has another type");
      }
    }
  }

  private Conversion conversion(FieldDescriptor field, DataType type) {
    if (field.isMapField()) {
      return map(field.getMessageType(), (MapType) type);
    }
    if (!field.isRepeated()) {
      return one(field, type);
    }
    Conversion element = one(field, ((ArrayType) type).elementType());
    return value -> {
      List<?> values = (List<?>) value;
      Object[] converted = new Object[values.size()];
      for (int each = 0; each < converted.length; each++) {
        converted[each] = element.of(values.get(each));
      }
      return new GenericArrayData(converted);
    };
  }

  private Conversion map(Descriptor entry, MapType type) {
    FieldDescriptor keyField = entry.findFieldByName("key");
    FieldDescriptor valueField = entry.findFieldByName("value");
    Conversion key = one(keyField, type.keyType());
    Conversion value = one(valueField, type.valueType());
    return entries -> {
      // The last entry with a key counts.
      Map<Object, Object> converted = new LinkedHashMap<>();
      for (Object each : (List<?>) entries) {
        Message pair = (Message) each;
        converted.put(key.of(pair.getField(keyField)), value.of(pair.getField(valueField)));
      }
      return new ArrayBasedMapData(
          new GenericArrayData(converted.keySet().toArray()), new GenericArrayData(converted.values().toArray()));
    };
  }

  private Conversion one(FieldDescriptor field, DataType type) {
    return switch (field.getJavaType()) {
      case INT -> type instanceof LongType ? value -> Integer.toUnsignedLong((Integer) value) : value -> value;
      case LONG -> type instanceof DecimalType ? value -> unsigned((Long) value) : value -> value;
      case FLOAT, DOUBLE, BOOLEAN -> value -> value;
      case STRING -> value -> UTF8String.fromString((String) value);
      case BYTE_STRING -> value -> ((ByteString) value).toByteArray();
      case ENUM ->
          type.equals(DataTypes.IntegerType)
              ? value -> ((EnumValueDescriptor) value).getNumber()
              : value -> UTF8String.fromString(((EnumValueDescriptor) value).getName());
      case MESSAGE -> message(field.getMessageType(), type);
    };
  }

  private Conversion message(Descriptor kind, DataType type) {
    String name = kind.getFullName();
    if (name.equals(ProtobufTypes.TIMESTAMP) || name.equals(ProtobufTypes.DURATION)) {
      FieldDescriptor seconds = kind.findFieldByName("seconds");
      FieldDescriptor nanos = kind.findFieldByName("nanos");
      return value ->
          microseconds((Long) ((Message) value).getField(seconds), (Integer) ((Message) value).getField(nanos));
    }
    if (!(type instanceof StructType struct)) {
      FieldDescriptor wrapped = kind.findFieldByName("value");
      Conversion inner = one(wrapped, type);
      return value -> inner.of(((Message) value).getField(wrapped));
    }
    ProtobufRows rows = new ProtobufRows(kind, struct, defaults);
    return value -> rows.of((Message) value);
  }

  private static Decimal unsigned(long value) {
    return Decimal.apply(new BigDecimal(new BigInteger(Long.toUnsignedString(value))), 20, 0);
  }

  private static long microseconds(long seconds, int nanos) throws InvalidProtocolBufferException {
    try {
      return Math.addExact(Math.multiplyExact(seconds, MICROSECONDS), Math.floorDiv(nanos, 1000));
    } catch (ArithmeticException tooFar) {
      throw new InvalidProtocolBufferException("a time is too far away");
    }
  }
}
