package io.streamjob.text;

import com.univocity.parsers.common.TextParsingException;
import com.univocity.parsers.csv.CsvParser;
import com.univocity.parsers.csv.CsvParserSettings;
import com.univocity.parsers.csv.UnescapedQuoteHandling;
import io.streamjob.records.BrokenRecord;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.csv.CSVOptions;
import org.apache.spark.sql.catalyst.csv.UnivocityParser;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decodes CSV as RFC 4180 describes it, by the parser and the conversions of Spark: a record has a value for each field,
 * and its quotes are those that the options say. What else Spark would take is broken here.
 */
public final class CsvDecoder implements FileDecoder {
  private static final long serialVersionUID = 1;
  private static final Pattern DIGITS = Pattern.compile("-?[0-9]+(\\.[0-9]*)?");

  /** The characters of floating-point numbers. Java takes others as well, as in 0x1p3 and 1d. */
  private static final String FLOATING = "0123456789+-.eE \t\n\u000B\f\r";

  private static final Pattern LINE_END = Pattern.compile("\\r?\\n\\z");

  /** A value behind the last one: if a quote is not closed, it is in the last value. No text has its first character. */
  private static final String END = "\uFDD0end of records";

  /** The most characters of a header in a message. */
  private static final int LONGEST_HEADER = 2000;

  /** The largest buffer of a parser, in characters. Its default, 1 Mi characters, would be allocated for each text. */
  private static final int BUFFER = 1 << 12;

  private final StructType type;
  private final Map<String, String> options;
  private final String zone;
  private final boolean isCaseSensitive;

  private transient Task task;

  /** The objects that a task needs, made from the fields that Spark sends to it. */
  private static final class Task {
    final CSVOptions options;

    /** Parses lines, each of which is a record. */
    final CsvParser lines;

    /** Parses texts of several records. */
    final CsvParser texts;

    /** Stands behind a line: without its line break, the parser would end each record by an exception. */
    final String end;

    final Charset charset;
    final Conversion[] conversions;

    /** Whether an empty text is a value of a field. */
    final boolean[] hasEmpty;

    final String nullValue;
    final boolean ignoresHeader;
    boolean headerIsDue;

    Task(
        CSVOptions options,
        CsvParserSettings settings,
        Conversion[] conversions,
        boolean[] hasEmpty,
        TreeMap<String, String> given) {
      this.options = options;
      this.lines = new CsvParser(settings);
      this.texts = new CsvParser(settings);
      this.end = settings.getFormat().getDelimiterString() + END + options.lineSeparator().getOrElse(() -> "\n");
      this.charset = Charset.forName(options.charset());
      this.conversions = conversions;
      this.hasEmpty = hasEmpty;
      this.nullValue = given.get("nullValue");
      this.ignoresHeader = Boolean.parseBoolean(given.get("enforceSchema"));
    }
  }

  /** Converts the text of a field that is not NULL. */
  private interface Conversion {
    Object of(String text) throws BrokenRecord.Field;
  }

  /**
   * Takes the fields as DDL, options of from_csv and our own, and the time zone of timestamps without one. Throws errors if
   * these are no fields of CSV, or if an option makes no sense.
   */
  public CsvDecoder(String fields, Map<String, String> options, String zone) {
    this.type = ((StructType) CharVarcharUtils.failIfHasCharVarchar(StructType.fromDDL(fields))).asNullable();
    this.options = Map.copyOf(options);
    this.zone = zone;
    this.isCaseSensitive = SQLConf.get().caseSensitiveAnalysis();
    task();
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public Object decode(byte[] bytes) throws BrokenRecord {
    Task own = task();
    Records records = new Records(own, LINE_END.matcher(RecordTexts.of(bytes, own.charset)).replaceFirst(""));
    String[] values = records.next();
    if (values == null) {
      throw new BrokenRecord("it is empty");
    }
    Object row = row(own, values);
    if (records.next() != null) {
      throw new BrokenRecord("more lines follow its first one (a value with line breaks needs quotes)");
    }
    return row;
  }

  @Override
  public void begin(boolean beginning) {
    task().headerIsDue = beginning && task().options.headerFlag();
  }

  /**
   * As Spark, skips blank lines, comments and, with the option header, the first other line of a file. Its names must be
   * those of the fields, unless the option enforceSchema says that they mean nothing; that is Spark's own default.
   */
  @Override
  public Iterator<Decoded> records(byte[] bytes) {
    Task own = task();
    try {
      String text = RecordTexts.of(bytes, own.charset);
      if (text.isBlank()) {
        return Collections.emptyIterator();
      }
      // Spark takes it away where it reads lines.
      return new Rows(own, own.options.multiLine() ? RecordTexts.withoutMark(text) : text);
    } catch (BrokenRecord broken) {
      return List.of(Decoded.broken(broken, null)).iterator();
    }
  }

  /** The records of a text, as texts. */
  private static final class Records {
    private final Task own;
    private final String text;
    private final boolean isLine;
    private int begin;
    private int end;

    Records(Task own, String text) {
      this.own = own;
      this.text = text;
      boolean breaks = text.indexOf('\n') >= 0;
      boolean returns = text.indexOf('\r') >= 0;
      String separator = own.options.lineSeparator().getOrElse(() -> returns && !breaks ? "\r" : "\n");
      this.isLine = !own.options.multiLine() && !breaks && !returns && !text.contains(separator) && !text.isBlank();
      if (!isLine) {
        own.texts.beginParsing(new StringReader(text + separator + END));
      }
    }

    /** Returns the values of the next record; null behind the last one. */
    String[] next() throws BrokenRecord {
      begin = end;
      String[] values;
      try {
        if (isLine) {
          end = text.length();
          return begin == end ? null : withoutEnd(own.lines.parseLine(text + own.end));
        }
        values = own.texts.parseNext();
        end = Math.min(text.length(), (int) own.texts.getContext().currentChar());
      } catch (TextParsingException | ArrayIndexOutOfBoundsException broken) {
        end = text.length();
        throw new BrokenRecord(
            broken instanceof TextParsingException parsing && parsing.getCause() instanceof ArrayIndexOutOfBoundsException
                ? "it has more columns or characters than the options maxColumns and maxCharsPerColumn allow"
                : "its quotes are not as the options quote and escape say");
      }
      if (values == null || (values.length == 1 && END.equals(values[0]))) {
        return null;
      }
      String last = values[values.length - 1];
      if (last != null && last.endsWith(END)) {
        throw notClosed();
      }
      return values;
    }

    private String[] withoutEnd(String[] values) throws BrokenRecord {
      if (values == null) {
        return null;
      }
      int last = values.length - 1;
      if (!END.equals(values[last])) {
        throw notClosed();
      }
      return Arrays.copyOf(values, last);
    }

    private BrokenRecord notClosed() {
      String how = own.options.multiLine() ? "" : " (a value with line breaks needs the option multiLine: true)";
      return new BrokenRecord("a quote in it is not closed" + how);
    }

    /** Returns the text of the record that {@link #next} has read, or could not read. */
    String read() {
      return text.substring(begin, end);
    }
  }

  /** The records of a text, as rows. */
  private final class Rows implements Iterator<Decoded> {
    private final Task own;
    private final Records records;
    private Decoded next;
    private boolean ended;

    Rows(Task own, String text) {
      this.own = own;
      this.records = new Records(own, text);
      advance();
    }

    @Override
    public boolean hasNext() {
      return next != null;
    }

    @Override
    public Decoded next() {
      if (next == null) {
        throw new NoSuchElementException();
      }
      Decoded read = next;
      advance();
      return read;
    }

    private void advance() {
      next = null;
      while (next == null && !ended) {
        try {
          String[] values = records.next();
          if (values == null) {
            ended = true;
          } else if (own.headerIsDue) {
            own.headerIsDue = false;
            next = header(own, values);
          } else {
            next = Decoded.of(row(own, values));
          }
        } catch (BrokenRecord broken) {
          String text = own.options.multiLine() ? records.read().strip() : null;
          next = Decoded.broken(broken, text);
          // Behind quotes that mean nothing, nobody knows where the next record begins.
          ended = records.end == records.text.length();
        }
      }
    }
  }

  private Object row(Task own, String[] values) throws BrokenRecord {
    StructField[] fields = type.fields();
    if (values.length != fields.length) {
      throw new BrokenRecord("it has " + values.length + (values.length == 1 ? " column" : " columns") + " instead of " + fields.length);
    }
    GenericInternalRow row = new GenericInternalRow(fields.length);
    for (int index = 0; index < fields.length; index++) {
      String value = values[index];
      if (value == null || value.equals(own.nullValue) || (value.isEmpty() && !own.hasEmpty[index])) {
        continue;
      }
      try {
        row.update(index, own.conversions[index].of(value));
      } catch (BrokenRecord.Field broken) {
        throw broken.at(fields[index].name());
      }
    }
    return row;
  }

  /** Returns what is wrong with the names in a header; null if they are those of the fields, in their order. */
  private Decoded header(Task own, String[] names) {
    String[] fields = type.fieldNames();
    boolean same = names.length == fields.length;
    for (int index = 0; same && index < fields.length; index++) {
      String name = names[index] == null ? "" : names[index].strip();
      String field = fields[index].strip();
      same = isCaseSensitive ? name.equals(field) : name.equalsIgnoreCase(field);
    }
    if (same || own.ignoresHeader) {
      return null;
    }
    String found = Arrays.stream(names).map(name -> name == null ? "\"\"" : name.strip()).collect(Collectors.joining(", "));
    String shown = BrokenRecord.shown(found, LONGEST_HEADER);
    return new Decoded(null, "has the columns " + shown + " instead of " + String.join(", ", fields), null, true);
  }

  private Task task() {
    if (task == null) {
      TreeMap<String, String> given = FieldRules.ignoringCase(options);
      given.putIfAbsent("escape", given.getOrDefault("quote", "\""));
      given.putIfAbsent("enableDateTimeParsingFallback", "false");
      CSVOptions read = new CSVOptions(Map$.MODULE$.from(CollectionConverters.asScala(given)), false, zone);
      CsvParserSettings settings = read.asParserSettings();
      // Spark takes "" for NULL, and a carriage return in quotes for a line feed.
      settings.setNullValue(null);
      settings.setNormalizeLineEndingsWithinQuotes(false);
      settings.setMaxColumns(settings.getMaxColumns() + 1);
      settings.setInputBufferSize(BUFFER);
      if (!given.containsKey("unescapedQuoteHandling")) {
        settings.setUnescapedQuoteHandling(UnescapedQuoteHandling.RAISE_ERROR);
      }
      UnivocityParser values = new UnivocityParser(type, read);
      FieldRules rules = new FieldRules(given);
      Conversion[] conversions = new Conversion[type.length()];
      boolean[] hasEmpty = new boolean[type.length()];
      for (int index = 0; index < conversions.length; index++) {
        StructField field = type.fields()[index];
        conversions[index] = conversion(values, rules, read, field);
        hasEmpty[index] = field.dataType() instanceof StringType || field.dataType() instanceof BinaryType;
      }
      task = new Task(read, settings, conversions, hasEmpty, given);
    }
    return task;
  }

  private static Conversion conversion(UnivocityParser spark, FieldRules rules, CSVOptions options, StructField field) {
    DataType type = field.dataType();
    if (type instanceof StringType) {
      return UTF8String::fromString;
    }
    if (type instanceof BinaryType) {
      return text -> text.getBytes(StandardCharsets.UTF_8);
    }
    Conversion conversion = bySpark(spark, field);
    if (type instanceof DecimalType decimal) {
      return text -> rules.decimal(text, decimal);
    }
    if (type instanceof FloatType || type instanceof DoubleType) {
      List<String> names = List.of(options.nanValue(), options.positiveInf(), options.negativeInf());
      return text -> {
        if (!names.contains(text) && !text.chars().allMatch(each -> FLOATING.indexOf(each) >= 0)) {
          throw new BrokenRecord.Field(FieldRules.isNo(FieldRules.quoted(text), type));
        }
        Object value = conversion.of(text);
        if (Double.isInfinite(((Number) value).doubleValue()) && !names.contains(text)) {
          throw new BrokenRecord.Field(FieldRules.cannotHold(text, type));
        }
        return value;
      };
    }
    if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return text -> {
        if (rules.readsEpochs() && DIGITS.matcher(text).matches()) {
          return rules.micros(new BigDecimal(text), type);
        }
        rules.checkDate(text);
        return conversion.of(text);
      };
    }
    return conversion;
  }

  private static Conversion bySpark(UnivocityParser spark, StructField field) {
    Function1<String, Object> conversion = spark.makeConverter(field.name(), field.dataType(), true);
    return text -> {
      try {
        Object value = conversion.apply(text);
        if (value != null) {
          return value;
        }
      } catch (RuntimeException notOfTheType) {
        // Below: what Spark says about it does not name the field.
      }
      throw new BrokenRecord.Field(FieldRules.isNo(FieldRules.quoted(text), field.dataType()));
    };
  }

  @Override
  public String toString() {
    return "csv";
  }
}
