package io.streamjob.protobuf;

import io.streamjob.records.SchemaRegistry;
import io.streamjob.records.SchemaRegistry.Reference;
import io.streamjob.records.SchemaRegistry.Registered;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.sparkproject.spark_core.protobuf.AnyProto;
import org.sparkproject.spark_core.protobuf.DescriptorProtos;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorProto;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileOptions;
import org.sparkproject.spark_core.protobuf.Descriptors.DescriptorValidationException;
import org.sparkproject.spark_core.protobuf.Descriptors.FileDescriptor;
import org.sparkproject.spark_core.protobuf.DurationProto;
import org.sparkproject.spark_core.protobuf.EmptyProto;
import org.sparkproject.spark_core.protobuf.FieldMaskProto;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;
import org.sparkproject.spark_core.protobuf.StructProto;
import org.sparkproject.spark_core.protobuf.TimestampProto;
import org.sparkproject.spark_core.protobuf.WrappersProto;

/**
 * Schemas of Protobuf: texts of .proto files, and sets of descriptors as `protoc` writes them, in base64. In a set, the
 * files that a file imports come before it.
 */
public final class ProtobufSchemas {
  /** A keyword that only a .proto file has. */
  private static final String OF_TEXT = "{";

  private static final Map<String, FileDescriptor> WELL_KNOWN = new LinkedHashMap<>();

  /** Compiling takes much longer than a task of a small batch, and a schema with an id never changes. */
  private static final Map<Id, List<FileDescriptor>> COMPILED = new ConcurrentHashMap<>();

  static {
    for (FileDescriptor each :
        List.of(
            AnyProto.getDescriptor(),
            DescriptorProtos.getDescriptor(),
            DurationProto.getDescriptor(),
            EmptyProto.getDescriptor(),
            FieldMaskProto.getDescriptor(),
            StructProto.getDescriptor(),
            TimestampProto.getDescriptor(),
            WrappersProto.getDescriptor())) {
      WELL_KNOWN.put(each.getName(), each);
    }
  }

  private record Id(SchemaRegistry registry, int number) {}

  private ProtobufSchemas() {}

  /** Returns a schema of a registry, with the files that it imports, as a set of descriptors in base64. */
  public static String whole(SchemaRegistry registry, Registered registered) {
    return Base64.getEncoder().encodeToString(compiled(registry, registered).toByteArray());
  }

  /**
   * Returns a message of a schema.
   *
   * @param schema the text of a .proto file, or a set of descriptors in base64
   * @param name the message's name; null for the only one of the schema
   * @throws IllegalArgumentException the schema cannot be read, or has no such message
   */
  public static ProtobufMessage message(String schema, String name) {
    return ProtobufMessage.named(descriptors(schema), name);
  }

  /** Returns the files of a schema of a registry, as `files` does. Throws the registry's errors, too. */
  static List<FileDescriptor> files(SchemaRegistry registry, Registered registered) {
    Id id = new Id(registry, registered.id());
    List<FileDescriptor> known = COMPILED.get(id);
    if (known == null) {
      known = files(compiled(registry, registered));
      COMPILED.put(id, known);
    }
    return known;
  }

  private static FileDescriptorSet compiled(SchemaRegistry registry, Registered registered) {
    if (!registered.type().equals(SchemaRegistry.PROTOBUF)) {
      throw new IllegalArgumentException(
          "schema " + registered.id() + " is not Protobuf but " + registered.type());
    }
    Map<String, String> imported = new LinkedHashMap<>();
    addReferences(registry, registered, imported);
    return ProtoTexts.compile(registered.schema(), imported);
  }

  /** Returns the files of a set; the one that imports the others is the last. Throws IllegalArgumentException. */
  static List<FileDescriptor> files(FileDescriptorSet set) {
    Map<String, FileDescriptor> built = new LinkedHashMap<>();
    try {
      for (FileDescriptorProto each : set.getFileList()) {
        FileDescriptor[] imported =
            each.getDependencyList().stream().map(name -> imported(each, name, built)).toArray(FileDescriptor[]::new);
        // Otherwise Java replaces what is no UTF-8 in the strings of the second version.
        FileOptions options = each.getOptions().toBuilder().setJavaStringCheckUtf8(true).build();
        built.put(each.getName(), FileDescriptor.buildFrom(each.toBuilder().setOptions(options).build(), imported));
      }
    } catch (DescriptorValidationException error) {
      throw new IllegalArgumentException(error.getMessage(), error);
    }
    return List.copyOf(built.values());
  }

  static boolean isWellKnown(String file) {
    return WELL_KNOWN.containsKey(file);
  }

  private static FileDescriptorSet descriptors(String schema) {
    if (schema.contains(OF_TEXT)) {
      return ProtoTexts.compile(schema, Map.of());
    }
    try {
      FileDescriptorSet set = FileDescriptorSet.parseFrom(Base64.getMimeDecoder().decode(schema));
      if (set.getFileCount() > 0) {
        return set;
      }
    } catch (InvalidProtocolBufferException notASet) {
      throw new IllegalArgumentException("it is no set of descriptors: " + notASet.getMessage(), notASet);
    }
    throw new IllegalArgumentException("the set of descriptors is empty");
  }

  private static FileDescriptor imported(
      FileDescriptorProto importing, String name, Map<String, FileDescriptor> built) {
    FileDescriptor found = built.getOrDefault(name, WELL_KNOWN.get(name));
    if (found == null) {
      String what = importing.getName() + " imports " + name + ", which is not with it: use protoc --include_imports";
      throw new IllegalArgumentException(what);
    }
    return found;
  }

  private static void addReferences(SchemaRegistry registry, Registered registered, Map<String, String> imported) {
    for (Reference each : registered.references()) {
      if (!imported.containsKey(each.name())) {
        Registered found = registry.version(each.subject(), Integer.toString(each.version()));
        imported.put(each.name(), found.schema());
        addReferences(registry, found, imported);
      }
    }
  }
}
