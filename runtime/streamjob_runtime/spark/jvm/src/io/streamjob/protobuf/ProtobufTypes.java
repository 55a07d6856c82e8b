package io.streamjob.protobuf;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;

/** The types that Spark's from_protobuf gives messages, with options of the same names. */
final class ProtobufTypes {
  static final String TIMESTAMP = "google.protobuf.Timestamp";
  static final String DURATION = "google.protobuf.Duration";
  static final DecimalType UNSIGNED_LONG = DecimalType.apply(20, 0);
  private static final Set<String> WRAPPERS =
      Set.of("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64");

  private final Options options;

  /** The options: `depth` is that of messages within themselves, 0 if there must be none. */
  record Options(boolean enumsAsInts, boolean upcast, boolean unwrap, boolean defaults, int depth)
      implements Serializable {
    private static final long serialVersionUID = 1;

    static Options of(Map<String, String> given) {
      Map<String, String> options = new HashMap<>();
      given.forEach((name, value) -> options.put(name.toLowerCase(java.util.Locale.ROOT), value.strip()));
      return new Options(
          Boolean.parseBoolean(options.get("enums.as.ints")),
          Boolean.parseBoolean(options.get("upcast.unsigned.ints")),
          Boolean.parseBoolean(options.get("unwrap.primitive.wrapper.types")),
          Boolean.parseBoolean(options.get("emit.default.values")),
          Integer.parseInt(options.getOrDefault("recursive.fields.max.depth", "0")));
    }
  }

  ProtobufTypes(Options options) {
    this.options = options;
  }

  /** Returns the type of a message. Throws IllegalArgumentException if there is none. */
  StructType of(Descriptor message) {
    StructType found = fields(message, Map.of(message.getFullName(), 1));
    if (found.length() == 0) {
      throw new IllegalArgumentException("the message " + message.getFullName() + " has no fields");
    }
    return found;
  }

  static boolean isWrapper(Descriptor message) {
    return message.getFile().getPackage().equals("google.protobuf")
        && message.getName().endsWith("Value")
        && WRAPPERS.contains(message.getName().substring(0, message.getName().length() - "Value".length()));
  }

  private StructType fields(Descriptor message, Map<String, Integer> around) {
    StructType type = new StructType();
    for (FieldDescriptor each : message.getFields()) {
      Optional<DataType> found = each.isMapField() ? map(each, around) : one(each, around);
      if (found.isPresent()) {
        boolean isList = each.isRepeated() && !each.isMapField();
        DataType kind = isList ? ArrayType.apply(found.get(), false) : found.get();
        type = type.add(each.getName(), kind, !each.isRequired());
      }
    }
    return type;
  }

  private Optional<DataType> map(FieldDescriptor field, Map<String, Integer> around) {
    Optional<DataType> key = one(field.getMessageType().findFieldByName("key"), around);
    Optional<DataType> value = one(field.getMessageType().findFieldByName("value"), around);
    return value.map(each -> MapType.apply(key.orElseThrow(), each, false));
  }

  /** Returns the type of a single value; empty if the field is left out, because it has no fields or is too deep. */
  private Optional<DataType> one(FieldDescriptor field, Map<String, Integer> around) {
    return switch (field.getType()) {
      case UINT32 -> Optional.of(options.upcast ? DataTypes.LongType : DataTypes.IntegerType);
      case INT32, SINT32, FIXED32, SFIXED32 -> Optional.of(DataTypes.IntegerType);
      case UINT64 -> Optional.of(options.upcast ? UNSIGNED_LONG : DataTypes.LongType);
      case INT64, SINT64, FIXED64, SFIXED64 -> Optional.of(DataTypes.LongType);
      case FLOAT -> Optional.of(DataTypes.FloatType);
      case DOUBLE -> Optional.of(DataTypes.DoubleType);
      case BOOL -> Optional.of(DataTypes.BooleanType);
      case STRING -> Optional.of(DataTypes.StringType);
      case BYTES -> Optional.of(DataTypes.BinaryType);
      case ENUM -> Optional.of(options.enumsAsInts ? DataTypes.IntegerType : DataTypes.StringType);
      case MESSAGE, GROUP -> message(field, around);
    };
  }

  private Optional<DataType> message(FieldDescriptor field, Map<String, Integer> around) {
    Descriptor message = field.getMessageType();
    String name = message.getFullName();
    if (name.equals(TIMESTAMP)) {
      return Optional.of(DataTypes.TimestampType);
    }
    if (name.equals(DURATION)) {
      return Optional.of(DayTimeIntervalType.apply());
    }
    if (options.unwrap && isWrapper(message)) {
      return one(message.findFieldByName("value"), around);
    }
    int depth = around.getOrDefault(name, 0);
    if (depth > 0 && options.depth == 0) {
      throw new IllegalArgumentException(
          "the field " + field.getFullName() + " has the message " + name
              + " within itself: set the option recursive.fields.max.depth to 1 or more, up to 10");
    }
    if (depth > 0 && depth >= options.depth) {
      return Optional.empty();
    }
    Map<String, Integer> deeper = new HashMap<>(around);
    deeper.put(name, depth + 1);
    StructType found = fields(message, deeper);
    return found.length() == 0 ? Optional.empty() : Optional.of(found);
  }
}
