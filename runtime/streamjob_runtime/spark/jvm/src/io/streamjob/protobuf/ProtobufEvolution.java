package io.streamjob.protobuf;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor.Type;

/**
 * Whether messages that one schema wrote can be read with another one. Fields are matched by their numbers. Which types may
 * replace each other: https://protobuf.dev/programming-guides/proto3/#updating
 */
final class ProtobufEvolution {
  private static final List<Set<Type>> ALIKE =
      List.of(
          Set.of(Type.INT32, Type.UINT32, Type.INT64, Type.UINT64, Type.BOOL, Type.ENUM),
          Set.of(Type.SINT32, Type.SINT64),
          Set.of(Type.FIXED32, Type.SFIXED32),
          Set.of(Type.FIXED64, Type.SFIXED64),
          Set.of(Type.STRING, Type.BYTES),
          Set.of(Type.MESSAGE, Type.BYTES));

  private ProtobufEvolution() {}

  /** Returns whether all that a writer writes into fields of a reader has a type that the reader reads. */
  static boolean isReadable(Descriptor writer, Descriptor reader) {
    return isReadable(writer, reader, new HashSet<>());
  }

  private static boolean isReadable(Descriptor writer, Descriptor reader, Set<List<String>> compared) {
    if (!compared.add(List.of(writer.getFullName(), reader.getFullName()))) {
      return true;
    }
    for (FieldDescriptor written : writer.getFields()) {
      FieldDescriptor read = reader.findFieldByNumber(written.getNumber());
      if (read != null && !isReadable(written, read, compared)) {
        return false;
      }
    }
    return true;
  }

  private static boolean isReadable(FieldDescriptor written, FieldDescriptor read, Set<List<String>> compared) {
    Type from = written.getType();
    Type to = read.getType();
    if (from != to && ALIKE.stream().noneMatch(each -> each.contains(from) && each.contains(to))) {
      return false;
    }
    // The numbers of a packed list are bytes to a reader of one number.
    if (written.isPacked() && !read.isRepeated()) {
      return false;
    }
    boolean nested = written.getJavaType() == FieldDescriptor.JavaType.MESSAGE && read.getJavaType() == written.getJavaType();
    return !nested || isReadable(written.getMessageType(), read.getMessageType(), compared);
  }
}
