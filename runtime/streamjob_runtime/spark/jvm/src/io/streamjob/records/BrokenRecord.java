package io.streamjob.records;

/** A record does not have the declared form. The message says what is wrong with it, to the author of the job. */
public final class BrokenRecord extends Exception {
  private static final long serialVersionUID = 1;
  private static final int LONGEST = 100;

  /** A field of a record is not a value of its type. The message continues that of the record behind the field's name. */
  public static final class Field extends Exception {
    private static final long serialVersionUID = 1;

    public Field(String what) {
      super(what, null, false, false);
    }

    /** Returns the error of the record that has the field at this path. */
    public BrokenRecord at(String path) {
      return new BrokenRecord("the field " + path + " " + getMessage());
    }
  }

  public BrokenRecord(String what) {
    // Without a stack trace, which would take most of the time of a broken record.
    super(what, null, false, false);
  }

  /** Returns a text for a message: cut off behind its first characters. */
  public static String shown(String text) {
    return shown(text, LONGEST);
  }

  /** Returns a text for a message: cut off behind so many characters. */
  public static String shown(String text, int longest) {
    if (text.length() <= longest) {
      return text;
    }
    int end = Character.isHighSurrogate(text.charAt(longest - 1)) ? longest - 1 : longest;
    return text.substring(0, end) + "…";
  }
}
