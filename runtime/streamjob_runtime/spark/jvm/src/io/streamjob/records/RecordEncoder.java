package io.streamjob.records;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;

/** Encodes keys or values of records. An instance belongs to one task. */
public interface RecordEncoder extends Serializable {
  /** Returns the bytes for the only field of a row; null for NULL. */
  byte[] encode(InternalRow row);
}
