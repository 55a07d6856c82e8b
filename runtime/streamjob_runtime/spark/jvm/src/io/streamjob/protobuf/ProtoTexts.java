package io.streamjob.protobuf;

import com.squareup.wire.schema.CoreLoader;
import com.squareup.wire.schema.ErrorCollector;
import com.squareup.wire.schema.Linker;
import com.squareup.wire.schema.Location;
import com.squareup.wire.schema.ProtoFile;
import com.squareup.wire.schema.Schema;
import com.squareup.wire.schema.SchemaException;
import com.squareup.wire.schema.internal.SchemaEncoder;
import com.squareup.wire.schema.internal.parser.ProtoParser;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorProto;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;

/** Compiles .proto files by Wire. The only class that needs its jars. */
final class ProtoTexts {
  private static final String MAIN = "the schema";

  private ProtoTexts() {}

  /**
   * Returns the descriptors of a .proto file, after those of the files that it imports.
   *
   * @param text the content of the file
   * @param imported the contents of the files that it imports, and so on, by the names under which they are imported
   * @throws IllegalArgumentException it cannot be compiled
   */
  static FileDescriptorSet compile(String text, Map<String, String> imported) {
    try {
      Map<String, ProtoFile> parsed = new LinkedHashMap<>();
      imported.forEach((name, each) -> parsed.put(name, parse(name, each)));
      parsed.put(MAIN, parse(MAIN, text));
      for (ProtoFile each : List.copyOf(parsed.values())) {
        imports(each).forEach(name -> parsed.computeIfAbsent(name, missing -> wellKnown(each, missing)));
      }
      Schema schema = new Linker(CoreLoader.INSTANCE, new ErrorCollector(), true, true).link(parsed.values());
      Map<String, FileDescriptorProto> compiled = new LinkedHashMap<>();
      add(MAIN, schema, new SchemaEncoder(schema), compiled);
      return FileDescriptorSet.newBuilder().addAllFile(compiled.values()).build();
    } catch (SchemaException | IllegalStateException | InvalidProtocolBufferException error) {
      // Wire gives the place of a mistake on lines of their own.
      throw new IllegalArgumentException(error.getMessage().replaceAll("\\s*\\n\\s*", ", "), error);
    }
  }

  private static ProtoFile parse(String name, String text) {
    return ProtoFile.Companion.get(ProtoParser.Companion.parse(Location.get(name), text));
  }

  private static ProtoFile wellKnown(ProtoFile importing, String name) {
    try {
      return CoreLoader.INSTANCE.load(name);
    } catch (IllegalStateException unknown) {
      String from = importing.getLocation().getPath();
      throw new IllegalArgumentException(from + " imports " + name + ", which is not with it", unknown);
    }
  }

  private static void add(
      String name, Schema schema, SchemaEncoder encoder, Map<String, FileDescriptorProto> compiled)
      throws InvalidProtocolBufferException {
    if (compiled.containsKey(name)) {
      return;
    }
    ProtoFile file = schema.protoFile(name);
    for (String each : imports(file).toList()) {
      if (!ProtobufSchemas.isWellKnown(each)) {
        add(each, schema, encoder, compiled);
      }
    }
    compiled.put(name, FileDescriptorProto.parseFrom(encoder.encode(file).toByteArray()));
  }

  private static Stream<String> imports(ProtoFile file) {
    return Stream.of(file.getImports(), file.getPublicImports(), file.getWeakImports()).flatMap(List::stream);
  }
}
