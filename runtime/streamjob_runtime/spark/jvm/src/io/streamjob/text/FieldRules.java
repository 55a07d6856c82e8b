package io.streamjob.text;

import io.streamjob.records.BrokenRecord;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.ExprUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import scala.Function1;

/**
 * What fields of JSON and CSV may be, beyond the rules of Spark: a text that Spark reads in one of several ways, or as a
 * value that it does not say, is broken, unless an option says how to read it.
 */
final class FieldRules {
  private static final Pattern BASE64 =
      Pattern.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)");
  private static final int MOST_SCALE = 40;

  private final boolean rounding;
  private final boolean localeGiven;
  private final boolean formatGiven;
  private final EpochUnit epochUnit;
  private final Function1<String, BigDecimal> decimals;

  /** What numbers in fields of times count. */
  private enum EpochUnit {
    S(6),
    MS(3),
    US(0),
    NS(-3);

    /** By how many digits a number is shifted to the left to become microseconds. */
    private final int digits;

    EpochUnit(int digits) {
      this.digits = digits;
    }
  }

  /** Takes the options of a source, by names in any case. */
  FieldRules(TreeMap<String, String> options) {
    this.rounding = flag(options, "rounding");
    this.localeGiven = options.containsKey("locale");
    this.formatGiven = options.containsKey("timestampFormat");
    String unit = options.get("epochUnit");
    this.epochUnit = unit == null ? null : EpochUnit.valueOf(unit.toUpperCase(Locale.ROOT));
    this.decimals = ExprUtils.getDecimalParser(Locale.forLanguageTag(options.getOrDefault("locale", "en-US")));
  }

  /** Returns options in a map that, like Spark, ignores the case of their names. */
  static TreeMap<String, String> ignoringCase(Map<String, String> options) {
    TreeMap<String, String> sorted = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    sorted.putAll(options);
    return sorted;
  }

  /** Returns an option that is true or false, by default false. */
  static boolean flag(Map<String, String> options, String name) {
    String value = options.getOrDefault(name, "false");
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw new IllegalArgumentException(name + " is '" + value + "', and not true or false");
    }
    return Boolean.parseBoolean(value);
  }

  /** Returns whether numbers in fields of times count something. */
  boolean readsEpochs() {
    return epochUnit != null;
  }

  /** Returns the microseconds that a number in a field of times stands for; digits behind the microsecond are cut off. */
  long micros(BigDecimal number, DataType type) throws BrokenRecord.Field {
    if (epochUnit == null) {
      String what = ", a number for " + type.sql() + ": epochUnit has to say whether it counts s, ms, us or ns";
      throw new BrokenRecord.Field(is(number.toString()) + what);
    }
    try {
      if (Math.abs(number.scale()) <= MOST_SCALE) {
        return number.movePointRight(epochUnit.digits).setScale(0, RoundingMode.FLOOR).longValueExact();
      }
    } catch (ArithmeticException tooFar) {
      // Below, with the numbers that have too many digits.
    }
    String unit = " with epochUnit: " + epochUnit.name().toLowerCase(Locale.ROOT);
    throw new BrokenRecord.Field(cannotHold(number.toString(), type) + unit);
  }

  /** Throws if a text for a TIMESTAMP is only a time: Spark would read it as one of the day on which it runs. */
  void checkDate(String text) throws BrokenRecord.Field {
    if (formatGiven) {
      return;
    }
    int first = 0;
    while (first < text.length() && text.charAt(first) <= ' ') {
      first++;
    }
    int colon = text.indexOf(':', first);
    if (first < text.length() && (text.charAt(first) == 'T' || (colon >= 0 && colon - first < 3))) {
      throw new BrokenRecord.Field(is(quoted(text)) + ", a time without a date");
    }
  }

  /** Returns the decimal that a text is. */
  Decimal decimal(String text, DecimalType type) throws BrokenRecord.Field {
    if (!localeGiven && text.indexOf(',') >= 0) {
      throw new BrokenRecord.Field(isNo(quoted(text), type) + " (the option locale says what a comma in it means)");
    }
    BigDecimal number;
    try {
      number = decimals.apply(text);
    } catch (Exception noNumber) {
      // Scala declares no checked exceptions.
      String hint = "; Debezium writes decimals in base64 unless decimal.handling.mode is string";
      throw new BrokenRecord.Field(isNo(quoted(text), type) + (BASE64.matcher(text).matches() ? hint : ""));
    }
    return decimal(number, type);
  }

  /** Returns a number as a decimal; throws if it has more digits than its type, unless it may be rounded. */
  Decimal decimal(BigDecimal number, DecimalType type) throws BrokenRecord.Field {
    // Before the point; a number with a long exponent must not be written out.
    long digits = number.signum() == 0 ? 0 : (long) number.precision() - number.scale();
    if (digits > type.precision() - type.scale()) {
      throw new BrokenRecord.Field(cannotHold(number.toString(), type));
    }
    BigDecimal fitted;
    try {
      boolean tiny = digits < -type.scale() || number.signum() == 0;
      if (tiny && number.signum() != 0 && !rounding) {
        throw new ArithmeticException();
      }
      RoundingMode mode = rounding ? RoundingMode.HALF_UP : RoundingMode.UNNECESSARY;
      fitted = tiny ? BigDecimal.ZERO.setScale(type.scale()) : number.setScale(type.scale(), mode);
    } catch (ArithmeticException inexact) {
      String how = " without rounding (the option rounding: true)";
      throw new BrokenRecord.Field(cannotHold(number.toString(), type) + how);
    }
    if (fitted.precision() > type.precision()) {
      throw new BrokenRecord.Field(cannotHold(number.toString(), type));
    }
    return Decimal.apply(fitted, type.precision(), type.scale());
  }

  /** Returns the message for a text that stands in a field. */
  static String is(String text) {
    return "is " + BrokenRecord.shown(text);
  }

  /** Returns the message for a text that is no value of a type. */
  static String isNo(String text, DataType type) {
    return is(text) + ", which is no " + type.sql();
  }

  /** Returns the message for a number that a type has no value for. */
  static String cannotHold(String text, DataType type) {
    return is(text) + ", which " + type.sql() + " cannot hold";
  }

  static String quoted(String text) {
    return '"' + BrokenRecord.shown(text) + '"';
  }
}
