package io.streamjob.joins;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheBuilder;
import java.io.Serializable;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutionException;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Joins rows with a table of a database, which is asked for the keys of the rows.
 *
 * <p>A task takes some thousand rows, looks their keys up in a cache that all tasks of its process share, asks the
 * database for all others at once, and goes on. The cache also knows keys that the table does not have.
 */
public final class Lookup implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1L;
  private static final int ROWS = 10_000;
  private static final int KEYS = 512;

  /** Without a cache, a task remembers so many keys and rows, so that it asks for a key once in a batch. */
  private static final int REMEMBERED = 100_000;

  private static final long FIRST_PAUSE_MS = 100;

  /** The caches and connections of this process; those of a job's earlier starts go by themselves. */
  private static final Cache<String, Here> HERE =
      CacheBuilder.newBuilder()
          .expireAfterAccess(Duration.ofMinutes(10))
          .<String, Here>removalListener(gone -> gone.getValue().close())
          .build();

  private final String id = UUID.randomUUID().toString();
  private final JDBCOptions options;
  private final StructType schema;
  private final int[] keys;
  private final int added;
  private final boolean inner;
  private final Limits limits;
  private final LongAccumulator hits;
  private final LongAccumulator misses;
  private final LongAccumulator queries;
  private final LongAccumulator retries;
  private final LongAccumulator nanoseconds;

  /** How much is cached and for how long, and how patient a query is. */
  private record Limits(long rows, long ttlMs, int timeoutSeconds, int retries) implements Serializable {}

  /** The rows that a task has found in its batch. */
  private static final class Found {
    private final Map<List<Object>, List<Row>> rows = new HashMap<>();
    private int size;

    private void putAll(Map<List<Object>, List<Row>> more) {
      int added = more.size() + more.values().stream().mapToInt(List::size).sum();
      if (size + added > REMEMBERED) {
        rows.clear();
        size = 0;
      }
      rows.putAll(more);
      size += added;
    }
  }

  /** The state that all tasks of a process share. */
  private record Here(Cache<List<Object>, List<Row>> cache, Deque<Connection> idle) {
    private void close() {
      for (Connection connection = idle.poll(); connection != null; connection = idle.poll()) {
        closeQuietly(connection);
      }
    }
  }

  /**
   * Describes a lookup.
   *
   * @param options Spark's options of the table
   * @param schema the columns of the table: those of the key, and then those that are added to a row
   * @param keys the positions of the columns in a row that are the key
   * @param inner whether rows without a match are dropped
   */
  public Lookup(
      SparkContext context,
      Map<String, String> options,
      StructType schema,
      List<Integer> keys,
      boolean inner,
      long cacheRows,
      long ttlMs,
      int timeoutSeconds,
      int retriesOfQuery) {
    scala.collection.immutable.Map<String, String> given =
        scala.collection.immutable.Map.from(CollectionConverters.asScala(options));
    this.options = new JDBCOptions(CaseInsensitiveMap$.MODULE$.apply(given));
    this.schema = schema;
    this.keys = keys.stream().mapToInt(Integer::intValue).toArray();
    this.added = schema.length() - this.keys.length;
    this.inner = inner;
    this.limits = new Limits(cacheRows, ttlMs, timeoutSeconds, retriesOfQuery);
    hits = context.longAccumulator();
    misses = context.longAccumulator();
    queries = context.longAccumulator();
    retries = context.longAccumulator();
    nanoseconds = context.longAccumulator();
  }

  /** Returns rows with the columns that are found for them. */
  public Dataset<Row> join(Dataset<Row> rows, StructType joined) {
    return rows.mapPartitions(this, Encoders.row(joined));
  }

  /** Returns the number of rows whose key was cached, and was not; of queries, retries and their nanoseconds. */
  public long[] figures() {
    return new long[] {hits.sum(), misses.sum(), queries.sum(), retries.sum(), nanoseconds.sum()};
  }

  @Override
  public Iterator<Row> call(Iterator<Row> rows) throws ExecutionException {
    Here here = HERE.get(id, this::open);
    return new Iterator<>() {
      private final Found before = new Found();
      private Iterator<Row> ready = Collections.emptyIterator();

      @Override
      public boolean hasNext() {
        while (!ready.hasNext() && rows.hasNext()) {
          ready = some(rows, here, before).iterator();
        }
        return ready.hasNext();
      }

      @Override
      public Row next() {
        return hasNext() ? ready.next() : rows.next();
      }
    };
  }

  private Here open() {
    CacheBuilder<Object, Object> cache = CacheBuilder.newBuilder().maximumSize(limits.rows);
    return new Here(cache.expireAfterWrite(Duration.ofMillis(limits.ttlMs)).build(), new ConcurrentLinkedDeque<>());
  }

  private List<Row> some(Iterator<Row> rows, Here here, Found before) {
    List<Row> taken = new ArrayList<>();
    List<List<Object>> wanted = new ArrayList<>();
    Map<List<Object>, List<Row>> found = new HashMap<>();
    Set<List<Object>> unknown = new LinkedHashSet<>();
    long known = 0;
    long asked = 0;
    while (taken.size() < ROWS && rows.hasNext()) {
      Row row = rows.next();
      List<Object> key = key(row);
      taken.add(row);
      wanted.add(key);
      if (key == null) {
        continue;
      }
      if (!found.containsKey(key) && !unknown.contains(key)) {
        List<Row> cached = limits.rows == 0 ? before.rows.get(key) : here.cache.getIfPresent(key);
        if (cached == null) {
          unknown.add(key);
        } else {
          found.put(key, cached);
        }
      }
      if (limits.rows == 0 || unknown.contains(key)) {
        asked++;
      } else {
        known++;
      }
    }
    hits.add(known);
    misses.add(asked);
    if (!unknown.isEmpty()) {
      Map<List<Object>, List<Row>> read = ask(new ArrayList<>(unknown), here);
      if (limits.rows > 0) {
        here.cache.putAll(read);
      } else {
        before.putAll(read);
      }
      found.putAll(read);
    }
    List<Row> joined = new ArrayList<>(taken.size());
    for (int index = 0; index < taken.size(); index++) {
      List<Object> key = wanted.get(index);
      List<Row> matches = key == null ? List.of() : found.get(key);
      for (Row match : matches) {
        joined.add(with(taken.get(index), match));
      }
      if (matches.isEmpty() && !inner) {
        joined.add(with(taken.get(index), null));
      }
    }
    return joined;
  }

  private List<Object> key(Row row) {
    Object[] values = new Object[keys.length];
    for (int index = 0; index < keys.length; index++) {
      values[index] = row.get(keys[index]);
      if (values[index] == null) {
        return null;
      }
    }
    return Arrays.asList(values);
  }

  private Row with(Row row, Row match) {
    Object[] values = new Object[row.length() + added];
    for (int index = 0; index < row.length(); index++) {
      values[index] = row.get(index);
    }
    for (int index = 0; match != null && index < added; index++) {
      values[row.length() + index] = match.get(keys.length + index);
    }
    return RowFactory.create(values);
  }

  private Map<List<Object>, List<Row>> ask(List<List<Object>> unknown, Here here) {
    Map<List<Object>, List<Row>> read = new HashMap<>();
    for (int from = 0; from < unknown.size(); from += KEYS) {
      read.putAll(askPatiently(unknown.subList(from, Math.min(from + KEYS, unknown.size())), here));
    }
    return read;
  }

  private Map<List<Object>, List<Row>> askPatiently(List<List<Object>> some, Here here) {
    long pause = FIRST_PAUSE_MS;
    for (int attempt = 0; ; attempt++) {
      try {
        return askOnce(some, here);
      } catch (SQLException error) {
        if (attempt == limits.retries) {
          throw sneaky(error);
        }
        retries.add(1);
        here.close();
        try {
          Thread.sleep(pause);
        } catch (InterruptedException stopped) {
          Thread.currentThread().interrupt();
          throw sneaky(error);
        }
        pause *= 2;
      }
    }
  }

  private Map<List<Object>, List<Row>> askOnce(List<List<Object>> some, Here here) throws SQLException {
    JdbcDialect dialect = JdbcDialects.get(options.url());
    long began = System.nanoTime();
    Connection idle = here.idle.poll();
    Connection connection = idle != null ? idle : dialect.createConnectionFactory(options).apply(-1);
    Map<List<Object>, List<Row>> read = new HashMap<>();
    for (List<Object> key : some) {
      read.put(key, new ArrayList<>());
    }
    // The same number of keys again and again lets the database plan a query once.
    int count = Math.min(KEYS, Math.max(1, Integer.highestOneBit(2 * some.size() - 1)));
    boolean whole = false;
    try (PreparedStatement statement = connection.prepareStatement(query(dialect, count))) {
      statement.setQueryTimeout(limits.timeoutSeconds);
      int position = 1;
      for (int index = 0; index < count; index++) {
        for (Object value : some.get(Math.min(index, some.size() - 1))) {
          statement.setObject(position++, value);
        }
      }
      try (ResultSet result = statement.executeQuery()) {
        scala.collection.Iterator<Row> rows = JdbcUtils.resultSetToRows(result, schema, dialect);
        while (rows.hasNext()) {
          Row row = rows.next();
          Object[] values = new Object[keys.length];
          for (int index = 0; index < keys.length; index++) {
            values[index] = row.get(index);
          }
          List<Row> matches = read.get(Arrays.asList(values));
          if (matches != null) {
            matches.add(row);
          }
        }
      }
      whole = true;
    } finally {
      if (whole) {
        here.idle.push(connection);
      } else {
        closeQuietly(connection);
      }
    }
    queries.add(1);
    nanoseconds.add(System.nanoTime() - began);
    return read;
  }

  private String query(JdbcDialect dialect, int count) {
    String[] names = new String[schema.length()];
    for (int index = 0; index < names.length; index++) {
      names[index] = dialect.quoteIdentifier(schema.fields()[index].name());
    }
    String where;
    if (keys.length == 1) {
      where = names[0] + " IN (" + String.join(", ", Collections.nCopies(count, "?")) + ")";
    } else {
      StringJoiner all = new StringJoiner(" AND ", "(", ")");
      for (int index = 0; index < keys.length; index++) {
        all.add(names[index] + " = ?");
      }
      where = String.join(" OR ", Collections.nCopies(count, all.toString()));
    }
    return "SELECT " + String.join(", ", names) + " FROM " + options.tableOrQuery() + " WHERE " + where;
  }

  private static void closeQuietly(Connection connection) {
    try {
      connection.close();
    } catch (SQLException error) {
      // It is of no use any more, whatever it says.
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneaky(Throwable error) throws E {
    throw (E) error;
  }
}
