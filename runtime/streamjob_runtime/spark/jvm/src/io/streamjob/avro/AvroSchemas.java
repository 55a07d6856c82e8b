package io.streamjob.avro;

import io.streamjob.records.SchemaRegistry;
import io.streamjob.records.SchemaRegistry.Reference;
import io.streamjob.records.SchemaRegistry.Registered;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.spark.sql.avro.AvroOptions;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Schemas of Avro: read from text, from a registry with what they refer to, and from rows. */
public final class AvroSchemas {
  private AvroSchemas() {}

  /** Returns a schema from its text. Throws Avro's errors. */
  static Schema parse(String text) {
    return new Schema.Parser().parse(text);
  }

  /** Returns the whole text of a schema of a registry, with the schemas that it refers to inside it. */
  public static String whole(SchemaRegistry registry, Registered registered) {
    return schema(registry, registered).toString();
  }

  /** Returns a schema of a registry. Throws Avro's errors and those of the registry. */
  static Schema schema(SchemaRegistry registry, Registered registered) {
    if (!registered.type().equals(SchemaRegistry.AVRO)) {
      throw new org.apache.avro.AvroRuntimeException("schema " + registered.id() + " is not Avro but " + registered.type());
    }
    Schema.Parser parser = new Schema.Parser();
    addReferences(parser, registry, registered, new HashSet<>());
    return parser.parse(registered.schema());
  }

  /** Returns the text of the schema that Spark gives rows of a type. */
  public static String of(DataType type, String name, String namespace) {
    return SchemaConverters.toAvroType(type, false, name, namespace).toString();
  }

  /** Returns the type of the only field of a struct, from its JSON. */
  public static DataType type(String struct) {
    return ((StructType) DataType.fromJson(struct)).fields()[0].dataType();
  }

  /** Returns what reading and writing do with these options. */
  static AvroOptions options(Map<String, String> options) {
    scala.collection.immutable.Map<String, String> given =
        scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(options));
    return AvroOptions.apply(given);
  }

  private static void addReferences(
      Schema.Parser parser, SchemaRegistry registry, Registered registered, Set<Reference> added) {
    for (Reference each : registered.references()) {
      if (added.add(each)) {
        Registered found = registry.version(each.subject(), Integer.toString(each.version()));
        addReferences(parser, registry, found, added);
        parser.parse(found.schema());
      }
    }
  }
}
