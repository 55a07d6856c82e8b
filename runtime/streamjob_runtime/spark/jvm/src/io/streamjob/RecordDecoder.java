package io.streamjob;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;

/** Decodes the key or the value of a record. An instance belongs to one task. */
public interface RecordDecoder extends Serializable {
  /** Returns the type of what it decodes. */
  DataType type();

  /** Returns a row with the decoded value as its only field, until the next call; null for bytes of another form. */
  InternalRow decode(byte[] bytes);
}
