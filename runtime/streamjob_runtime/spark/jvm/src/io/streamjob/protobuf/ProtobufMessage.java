package io.streamjob.protobuf;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FileDescriptor;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;

/** A type of messages, in a form that Spark can send to a task. */
final class ProtobufMessage implements Serializable {
  private static final long serialVersionUID = 1;

  private final byte[] files;
  private final String name;

  private transient Descriptor descriptor;

  private ProtobufMessage(FileDescriptorSet files, Descriptor descriptor) {
    this.files = files.toByteArray();
    this.name = descriptor.getFullName();
    this.descriptor = descriptor;
  }

  /** Returns the message with a name, or the only one if the name is null. Throws IllegalArgumentException. */
  static ProtobufMessage named(FileDescriptorSet set, String name) {
    List<FileDescriptor> files = ProtobufSchemas.files(set);
    List<Descriptor> main = files.get(files.size() - 1).getMessageTypes();
    if (name == null) {
      if (main.size() != 1) {
        String found = main.isEmpty() ? "none" : String.join(", ", main.stream().map(Descriptor::getFullName).toList());
        throw new IllegalArgumentException("`message` has to name one of its messages: " + found);
      }
      return new ProtobufMessage(set, main.get(0));
    }
    Map<String, Descriptor> all = new LinkedHashMap<>();
    for (int file = files.size() - 1; file >= 0; file--) {
      addAll(files.get(file).getMessageTypes(), all);
    }
    Descriptor found = all.get(name);
    if (found == null) {
      List<Descriptor> alike = all.values().stream().filter(each -> each.getName().equals(name)).toList();
      if (alike.size() != 1) {
        throw new IllegalArgumentException(
            "it has no message " + name + "; it has " + String.join(", ", all.keySet()));
      }
      found = alike.get(0);
    }
    return new ProtobufMessage(set, found);
  }

  /** Returns the message of the last file at a path: a number at each level, as `indexes` gives them; null without it. */
  static Descriptor at(List<FileDescriptor> files, int[] path) {
    List<Descriptor> level = files.get(files.size() - 1).getMessageTypes();
    Descriptor found = null;
    for (int index : path) {
      if (index < 0 || index >= level.size()) {
        return null;
      }
      found = level.get(index);
      level = nested(found);
    }
    return found;
  }

  Descriptor descriptor() {
    if (descriptor == null) {
      try {
        descriptor = named(FileDescriptorSet.parseFrom(files), name).descriptor;
      } catch (InvalidProtocolBufferException impossible) {
        throw new IllegalStateException(impossible);
      }
    }
    return descriptor;
  }

  /** Returns its full name. */
  @Override
  public String toString() {
    return name;
  }

  /** Returns its number among the messages of its file; before it, those of the messages around it. */
  List<Integer> indexes() {
    List<FileDescriptor> all;
    try {
      all = ProtobufSchemas.files(FileDescriptorSet.parseFrom(files));
    } catch (InvalidProtocolBufferException impossible) {
      throw new IllegalStateException(impossible);
    }
    Descriptor own = descriptor();
    if (!own.getFile().getName().equals(all.get(all.size() - 1).getName())) {
      throw new IllegalArgumentException(name + " is a message of an imported file: name one of the schema's own");
    }
    List<Integer> path = new ArrayList<>();
    for (Descriptor each = own; each != null; each = each.getContainingType()) {
      Descriptor around = each.getContainingType();
      path.add(0, (around == null ? each.getFile().getMessageTypes() : nested(around)).indexOf(each));
    }
    return path;
  }

  /** Returns the messages in a message. Entries of maps are not written by anybody, and have no numbers. */
  private static List<Descriptor> nested(Descriptor message) {
    return message.getNestedTypes().stream().filter(each -> !each.getOptions().getMapEntry()).toList();
  }

  private static void addAll(List<Descriptor> messages, Map<String, Descriptor> all) {
    for (Descriptor each : messages) {
      all.put(each.getFullName(), each);
      addAll(nested(each), all);
    }
  }
}
