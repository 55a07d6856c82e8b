package io.streamjob.text;

import io.streamjob.records.BrokenRecord;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;

/** Texts of records, without characters that Java and Spark would replace by others. */
final class RecordTexts {
  private static final char REPLACEMENT = '\uFFFD';
  private static final char BYTE_ORDER_MARK = '\uFEFF';

  private RecordTexts() {}

  /** Returns the text that bytes are; throws if they are none. */
  static String of(byte[] bytes, Charset charset) throws BrokenRecord {
    String text = new String(bytes, charset);
    if (text.indexOf(REPLACEMENT) >= 0) {
      try {
        charset.newDecoder().decode(ByteBuffer.wrap(bytes));
      } catch (CharacterCodingException broken) {
        throw new BrokenRecord("its bytes are no " + charset + " (the option encoding names another one)");
      }
    }
    return text;
  }

  /** Returns a text without the byte order mark that may stand before it. */
  static String withoutMark(String text) {
    return !text.isEmpty() && text.charAt(0) == BYTE_ORDER_MARK ? text.substring(1) : text;
  }

  /** Returns whether a text has half of a surrogate pair, which UTF-8 cannot write. */
  static boolean hasHalfOfAPair(String text) {
    for (int each = 0; each < text.length(); each++) {
      char unit = text.charAt(each);
      if (Character.isSurrogate(unit)) {
        boolean pair =
            Character.isHighSurrogate(unit)
                && each + 1 < text.length()
                && Character.isLowSurrogate(text.charAt(each + 1));
        if (!pair) {
          return true;
        }
        each++;
      }
    }
    return false;
  }
}
