"""Messages of Protobuf, written by Google's library for Python from descriptors that are made here."""

from __future__ import annotations

import struct
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

_Field = descriptor_pb2.FieldDescriptorProto
TIMES = (timestamp_pb2, duration_pb2, wrappers_pb2)

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";

/* An order. */
message Order {
  int64 id = 1;
  string name = 2;  // of the customer
  enum State { UNKNOWN = 0; PAID = 1; }
  State state = 3;
  repeated Line lines = 4;
  map<string, double> prices = 5;
  oneof payment { string card = 6; uint32 cash = 7; }
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration took = 9;
  google.protobuf.Int32Value stars = 10;
  optional bool gift = 11;
  repeated sint32 codes = 12;
  bytes raw = 13;
  message Line { string sku = 1; fixed32 count = 2; }
}
"""


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptors of `ORDER`, as protoc would make them."""
    file = _file("order.proto", "shop")
    file.dependency.extend(each.DESCRIPTOR.name for each in TIMES)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    _add(line, "sku", 1, _Field.TYPE_STRING)
    _add(line, "count", 2, _Field.TYPE_FIXED32)
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, _Field.TYPE_STRING)
    _add(entry, "value", 2, _Field.TYPE_DOUBLE)
    state = order.enum_type.add(name="State")
    state.value.add(name="UNKNOWN", number=0)
    state.value.add(name="PAID", number=1)
    order.oneof_decl.add(name="payment")
    order.oneof_decl.add(name="_gift")
    _add(order, "id", 1, _Field.TYPE_INT64)
    _add(order, "name", 2, _Field.TYPE_STRING)
    _add(order, "state", 3, _Field.TYPE_ENUM, type_name=".shop.Order.State")
    _add(order, "lines", 4, _Field.TYPE_MESSAGE, type_name=".shop.Order.Line", label=_Field.LABEL_REPEATED)
    _add(order, "prices", 5, _Field.TYPE_MESSAGE, type_name=".shop.Order.PricesEntry", label=_Field.LABEL_REPEATED)
    _add(order, "card", 6, _Field.TYPE_STRING, oneof_index=0)
    _add(order, "cash", 7, _Field.TYPE_UINT32, oneof_index=0)
    _add(order, "at", 8, _Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    _add(order, "took", 9, _Field.TYPE_MESSAGE, type_name=".google.protobuf.Duration")
    _add(order, "stars", 10, _Field.TYPE_MESSAGE, type_name=".google.protobuf.Int32Value")
    _add(order, "gift", 11, _Field.TYPE_BOOL, oneof_index=1, proto3_optional=True)
    _add(order, "codes", 12, _Field.TYPE_SINT32, label=_Field.LABEL_REPEATED)
    _add(order, "raw", 13, _Field.TYPE_BYTES)
    return file


def descriptor_set(file: descriptor_pb2.FileDescriptorProto, *, imports: bool = True) -> bytes:
    """Return what `protoc --descriptor_set_out --include_imports` writes for a file."""
    found = descriptor_pb2.FileDescriptorSet()
    for each in TIMES if imports else ():
        each.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.add().CopyFrom(file)
    return bytes(found.SerializeToString())


def message_class(file: descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """Return the class of the messages of a file with a full name."""
    pool = descriptor_pool.DescriptorPool()
    found = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set(file))
    for each in found.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def named(schema_id: int, content: bytes, *indexes: int) -> bytes:
    """Return a record with the id of its schema and the numbers of its message, as Confluent's serializers do."""
    numbers = (len(indexes), *indexes) if indexes else (0,)
    return struct.pack(">bI", 0, schema_id) + bytes(2 * each for each in numbers) + content


def _file(name: str, package: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: Any, **fields: Any) -> None:
    message.field.add(name=name, number=number, type=kind, **{"label": _Field.LABEL_OPTIONAL, **fields})
