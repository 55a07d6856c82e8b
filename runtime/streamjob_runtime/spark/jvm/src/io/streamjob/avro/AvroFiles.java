package io.streamjob.avro;

import org.apache.spark.sql.avro.AvroFileFormat;

/**
 * Spark's format of Avro files under its name, {@code avro}, which Spark gives it in a module of its own only. Where that
 * module is on the class path, Spark prefers it.
 */
public final class AvroFiles extends AvroFileFormat {
  private static final long serialVersionUID = 1L;
}
