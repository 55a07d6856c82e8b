package io.streamjob.records;

import java.io.Serializable;
import org.apache.spark.sql.types.DataType;

/** Decodes the key or the value of a record. An instance belongs to one task. */
public interface RecordDecoder extends Serializable {
  /** Returns the type of what it decodes. */
  DataType type();

  /** Returns the decoded value in Spark's form, until the next call; null for NULL. Throws if the bytes have another form. */
  Object decode(byte[] bytes) throws BrokenRecord;
}
