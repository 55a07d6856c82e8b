package io.streamjob.text;

import io.streamjob.records.BrokenRecord;
import io.streamjob.records.RecordDecoder;
import java.util.Iterator;

/** Decodes the lines of files, or whole files. An instance belongs to one task. */
interface FileDecoder extends RecordDecoder {
  /**
   * A record: its value, or what is wrong with it and its text, which is null for the whole line. Or it is the header of a
   * file that does not fit the schema, and so makes all other records of the file worthless.
   */
  record Decoded(Object value, String error, String text, boolean isHeader) {
    static Decoded of(Object value) {
      return new Decoded(value, null, null, false);
    }

    static Decoded broken(BrokenRecord broken, String text) {
      return new Decoded(null, broken.getMessage(), text, false);
    }
  }

  /** Begins a file, or a later part of one. */
  default void begin(boolean beginning) {}

  /** Returns the records of a line, or of a file that is read as a whole. Each is read when it is asked for. */
  Iterator<Decoded> records(byte[] bytes);
}
