package io.streamjob.state;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.streamjob.eventtime.ObservedTime;
import io.streamjob.joins.TemporalJoin;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnscaledValue;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInPandasWithState;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * In which form a query's stateful operators keep their state, as far as Spark's own schemas do not tell: what opaque
 * buffers collect, and what keys such as windows are made of.
 */
public final class StateForms {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Set<String> PLACES = Set.of("mutableAggBufferOffset", "inputAggBufferOffset");
  private static final String DELAY = "spark.watermarkDelayMs";
  private static final String EQUAL = "streamjob.equal";
  private static final String CHANNEL = "io.streamjob";
  private static final String WINDOW = "spark.timeWindow";
  private static final String SESSION = "spark.sessionWindow";
  private static final long SECOND = 1_000_000L;

  /** Instants at which keys are compared, in microseconds since 1970: apart by less and by more than usual windows. */
  private static final long[] INSTANTS = {
    1767225607_123457L,
    1767225607_123457L + 3 * SECOND,
    1767225607_123457L + 47 * SECOND,
    1767225607_123457L + 31 * 60 * SECOND,
    1767225607_123457L + 5 * 3600 * SECOND,
    1767225607_123457L + 40L * 86400 * SECOND,
  };

  private static final String[] TEXTS = {
    "Ab c", " x1", "7", "2026-01-01 00:00:07.123457", "2026-01-01T05:31:07Z", "2026-02-10"
  };

  private static final List<Class<? extends LogicalPlan>> KEEPERS =
      List.of(
          Aggregate.class,
          Deduplicate.class,
          DeduplicateWithinWatermark.class,
          Distinct.class,
          FlatMapGroupsInPandasWithState.class,
          GlobalLimit.class,
          Join.class,
          TransformWithState.class,
          TransformWithStateInPySpark.class);

  private StateForms() {}

  /** Returns the forms as a JSON array, in the order in which Spark numbers the operators. */
  public static String describe(LogicalPlan optimized) throws IOException {
    ArrayNode forms = JSON.createArrayNode();
    keepers(optimized).forEach(each -> forms.add(each.form()));
    return JSON.writeValueAsString(forms);
  }

  /** Returns whether a plan may keep state: then it is worth optimizing it. */
  public static boolean mayKeep(LogicalPlan plan) {
    if (!plan.isStreaming()) {
      return false;
    }
    // A join with a table keeps nothing.
    boolean ofTable = plan instanceof Join join && !(join.left().isStreaming() && join.right().isStreaming());
    if (!ofTable && KEEPERS.stream().anyMatch(each -> each.isInstance(plan))) {
      return true;
    }
    return java(plan.children()).stream().anyMatch(StateForms::mayKeep);
  }

  /** An operator that keeps state, with the form of it. */
  private record Keeper(LogicalPlan plan, ObjectNode form) {}

  private static List<Keeper> keepers(LogicalPlan optimized) throws IOException {
    List<Keeper> found = new ArrayList<>();
    keepers(optimized, new Definitions(optimized), found);
    return found;
  }

  private static void keepers(LogicalPlan plan, Definitions definitions, List<Keeper> found) throws IOException {
    ObjectNode form = form(plan, definitions);
    if (form != null) {
      found.add(new Keeper(plan, form));
    }
    for (LogicalPlan child : java(plan.children())) {
      keepers(child, definitions, found);
    }
  }

  private static ObjectNode form(LogicalPlan plan, Definitions definitions) throws IOException {
    if (plan instanceof GlobalLimit limit && limit.child().isStreaming()) {
      return node("limit");
    }
    if (plan instanceof Join join && join.left().isStreaming() && join.right().isStreaming()) {
      return join(join);
    }
    if (plan.children().isEmpty() || !plan.children().head().isStreaming()) {
      return null;
    }
    if (plan instanceof Aggregate aggregate) {
      return aggregation(aggregate, definitions);
    }
    if (plan instanceof Deduplicate deduplicate) {
      ObjectNode form = node("deduplication");
      keys(form, deduplicate.keys(), definitions);
      return form;
    }
    if (plan instanceof DeduplicateWithinWatermark deduplicate) {
      ObjectNode form = node("deduplicationWithinWatermark");
      keys(form, deduplicate.keys(), definitions);
      for (Attribute each : java(deduplicate.child().output())) {
        if (each.metadata().contains(DELAY)) {
          parameters(form).put("delayMs", each.metadata().getLong(DELAY));
        }
      }
      return form;
    }
    if (plan instanceof FlatMapGroupsInPandasWithState groups) {
      ObjectNode form = node("groupState");
      keys(form, groups.groupingAttributes(), definitions);
      parameters(form).put("state", type(groups.stateType()));
      parameters(form).put("timeout", String.valueOf(groups.timeout()));
      return form;
    }
    if (plan instanceof TransformWithState groups) {
      ObjectNode form = node("transformWithState");
      keys(form, groups.groupingAttributes(), definitions);
      parameters(form).put("timeMode", String.valueOf(groups.timeMode()));
      if ((Object) groups.statefulProcessor() instanceof TemporalJoin join) {
        temporal(parameters(form), join, groups.groupingAttributes());
      }
      return form;
    }
    if (plan instanceof TransformWithStateInPySpark groups) {
      ObjectNode form = node("transformWithState");
      keys(form, groups.leftAttributes(), definitions);
      parameters(form).put("timeMode", String.valueOf(groups.timeMode()));
      return form;
    }
    return null;
  }

  private static void temporal(ObjectNode parameters, TemporalJoin join, Seq<Attribute> keys) {
    if (join.validForUs() >= 0) {
      parameters.put("validForUs", join.validForUs());
    }
    Stream<String> equal =
        java(keys).stream()
            .map(key -> key.metadata().contains(EQUAL) ? key.metadata().getString(EQUAL) : key.name());
    parameters.put("on", equal.collect(Collectors.joining(", ")));
  }

  private static ObjectNode aggregation(Aggregate aggregate, Definitions definitions) throws IOException {
    boolean sessions = false;
    for (Expression each : java(aggregate.groupingExpressions())) {
      sessions |= each instanceof NamedExpression named && named.metadata().contains(SESSION);
    }
    ObjectNode form = node(sessions ? "sessions" : "aggregation");
    keys(form, aggregate.groupingExpressions(), definitions);
    ArrayNode described = form.putArray("aggregates");
    for (AggregateExpression each : aggregates(aggregate)) {
      described.add(function(each));
    }
    return form;
  }

  /** Returns the functions of the n-th operator that keeps state, in the order of their buffers. */
  static List<AggregateFunction> aggregates(LogicalPlan optimized, int number) throws IOException {
    List<AggregateFunction> found = new ArrayList<>();
    if (keepers(optimized).get(number).plan() instanceof Aggregate aggregate) {
      aggregates(aggregate).forEach(each -> found.add(each.aggregateFunction()));
    }
    return found;
  }

  private static Iterable<AggregateExpression> aggregates(Aggregate aggregate) {
    Map<Expression, AggregateExpression> found = new LinkedHashMap<>();
    for (NamedExpression each : java(aggregate.aggregateExpressions())) {
      collect((Expression) each, found);
    }
    return found.values();
  }

  /** Collects the functions in Spark's order, each as often as Spark keeps a buffer for it: once if it is the same. */
  private static void collect(Expression expression, Map<Expression, AggregateExpression> found) {
    if (expression instanceof AggregateExpression aggregate) {
      found.putIfAbsent(aggregate.canonicalized(), aggregate);
      return;
    }
    for (Expression child : java(expression.children())) {
      collect(child, found);
    }
  }

  private static ObjectNode function(AggregateExpression aggregate) throws IOException {
    AggregateFunction function = aggregate.aggregateFunction();
    ObjectNode described = JSON.createObjectNode();
    ArrayNode of = described.putArray("of");
    for (Expression each : java(function.children())) {
      if (!each.foldable()) {
        of.add(unqualified(each).sql() + scale(each));
      }
    }
    for (int index = 0; index < function.productArity(); index++) {
      if (function.productElementName(index).equals("ignoreNulls") && Boolean.TRUE.equals(function.productElement(index))) {
        of.add("ignore nulls");
      }
    }
    if (aggregate.filter().isDefined()) {
      of.add("where " + unqualified(aggregate.filter().get()).sql());
    }
    described.put("function", function.getClass().getSimpleName());
    described.put("sql", function.sql());
    described.put("opaque", !(function instanceof DeclarativeAggregate));
    ArrayNode buffer = described.putArray("buffer");
    List<String> types = java(function.aggBufferAttributes()).stream().map(each -> type(each.dataType())).toList();
    for (int from = 0, to; from < types.size(); from = to) {
      String kind = types.get(from);
      for (to = from + 1; to < types.size() && types.get(to).equals(kind); to++) {}
      buffer.add(to == from + 1 ? kind : kind + " x " + (to - from));
    }
    ArrayNode inputs = described.putArray("inputs");
    ObjectNode parameters = described.putObject("parameters");
    if (function instanceof DeclarativeAggregate) {
      return described;
    }
    for (int index = 0; index < function.productArity(); index++) {
      String name = function.productElementName(index);
      if (!PLACES.contains(name)) {
        element(name, function.productElement(index), inputs, parameters);
      }
    }
    return described;
  }

  /** Returns the scale of decimals that Spark sums up as whole numbers, since they have few digits. */
  private static String scale(Expression expression) {
    return expression instanceof UnscaledValue && expression.children().head().dataType() instanceof DecimalType decimal
        ? " of scale " + decimal.scale()
        : "";
  }

  /** Returns an expression whose columns have no names of tables: those are the names of operators. */
  private static Expression unqualified(Expression expression) {
    if (expression instanceof Attribute attribute) {
      return attribute.withQualifier(CollectionConverters.asScala(List.<String>of()).toSeq());
    }
    return with(expression, java(expression.children()).stream().map(StateForms::unqualified).toList());
  }

  private static Expression with(Expression expression, List<Expression> children) {
    return children.isEmpty()
        ? expression
        : expression.withNewChildren(CollectionConverters.asScala(children).toIndexedSeq());
  }

  private static void element(String name, Object value, ArrayNode inputs, ObjectNode parameters) throws IOException {
    if (value instanceof Expression expression) {
      if (expression.foldable()) {
        parameters.put(name, expression.sql());
      } else {
        inputs.add(type(expression.dataType()));
      }
    } else if (value instanceof Option<?> option) {
      if (option.isDefined()) {
        element(name, option.get(), inputs, parameters);
      }
    } else if (value instanceof scala.collection.Iterable<?> values) {
      int number = 0;
      for (Object each : CollectionConverters.asJava(values)) {
        element(name + "." + number++, each, inputs, parameters);
      }
    } else if (value instanceof DataType kind) {
      parameters.put(name, type(kind));
    } else if (value instanceof ExpressionEncoder<?> encoder) {
      parameters.put(name, type(encoder.schema()));
    } else if (value instanceof Boolean flag) {
      parameters.put(name, flag);
    } else if (value instanceof Number || value instanceof String) {
      parameters.put(name, String.valueOf(value));
    } else if (value != null) {
      parameters.put(name, value.getClass().getName());
    }
  }

  private static ObjectNode join(Join join) throws IOException {
    ObjectNode form = node("join");
    ObjectNode parameters = parameters(form);
    parameters.put("type", join.joinType().sql());
    parameters.set("leftKeepsMs", keeps(join, join.left(), join.right()));
    parameters.set("rightKeepsMs", keeps(join, join.right(), join.left()));
    var equal = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (equal.isDefined()) {
      // Spark calls the columns of the keys by their numbers only.
      ArrayNode on = parameters.putArray("on");
      List<Expression> left = java(equal.get()._2());
      List<Expression> right = java(equal.get()._3());
      for (int key = 0; key < left.size(); key++) {
        on.add(unqualified(left.get(key)).sql() + " = " + unqualified(right.get(key)).sql());
      }
    }
    return form;
  }

  /** How long a side of a join is kept behind the watermark, by the bounds on its time; null without any. */
  private static JsonNode keeps(Join join, LogicalPlan side, LogicalPlan other) {
    List<Attribute> timed = java(other.output()).stream().filter(each -> each.metadata().contains(DELAY)).toList();
    try {
      Option<Object> bound =
          StreamingJoinHelper.getStateValueWatermark(
              set(java(side.output())), set(timed), join.condition(), Option.apply((Object) 0L));
      return bound.isDefined() ? JSON.getNodeFactory().numberNode(-((Number) bound.get()).longValue()) : JSON.nullNode();
    } catch (RuntimeException notTold) {
      return JSON.nullNode();
    }
  }

  private static AttributeSet set(List<Attribute> attributes) {
    return AttributeSet$.MODULE$.apply(CollectionConverters.asScala(new ArrayList<Expression>(attributes)));
  }

  private static void keys(ObjectNode form, Seq<? extends Expression> keys, Definitions definitions)
      throws IOException {
    ArrayNode described = form.putArray("keys");
    for (Expression key : java(keys)) {
      ObjectNode column = described.addObject();
      column.put("name", key instanceof NamedExpression named ? named.name() : key.sql());
      column.put("type", type(key.dataType()));
      definitions.evaluate(key, column);
    }
  }

  private static ObjectNode node(String kind) {
    ObjectNode form = JSON.createObjectNode().put("kind", kind);
    form.putArray("keys");
    form.putArray("aggregates");
    form.putObject("parameters");
    return form;
  }

  private static ObjectNode parameters(ObjectNode form) {
    return (ObjectNode) form.get("parameters");
  }

  /** Returns a type without what does not change how it is stored: whether it may be null, and metadata. */
  private static String type(DataType type) {
    return type.catalogString();
  }

  private static <T> List<T> java(scala.collection.Seq<T> values) {
    return CollectionConverters.asJava(values);
  }

  /** The origins of a plan's columns. */
  private static final class Definitions {
    private static final int DEEPEST = 200;
    private static final int MOST_ALTERNATIVES = 64;
    private static final int LONGEST = 100;
    private final Set<ExprId> unknown = new HashSet<>();
    private final Map<ExprId, List<Expression>> made = new HashMap<>();

    Definitions(LogicalPlan plan) {
      add(plan);
    }

    private void add(LogicalPlan plan) {
      if (plan.children().isEmpty() && String.valueOf(plan).contains(CHANNEL)) {
        // The origins of its columns are in another query.
        java(plan.output()).forEach(each -> unknown.add(each.exprId()));
      }
      if (plan instanceof Project project) {
        name(project.projectList());
      } else if (plan instanceof Aggregate aggregate) {
        // The optimizer moves what another operator computes of a result to where the result is made.
        name(aggregate.aggregateExpressions());
      } else if (plan instanceof Expand expand) {
        List<Attribute> output = java(expand.output());
        for (int column = 0; column < output.size(); column++) {
          List<Expression> alternatives = new ArrayList<>();
          for (Seq<Expression> projection : java(expand.projections())) {
            alternatives.add(projection.apply(column));
          }
          if (!alternatives.get(0).semanticEquals(output.get(column))) {
            made.putIfAbsent(output.get(column).exprId(), alternatives);
          }
        }
      }
      for (LogicalPlan child : java(plan.children())) {
        add(child);
      }
    }

    private void name(Seq<NamedExpression> columns) {
      for (NamedExpression each : java(columns)) {
        if (each instanceof Alias alias && !(alias.child() instanceof AggregateExpression)) {
          made.putIfAbsent(alias.exprId(), List.of(alias.child()));
        }
      }
    }

    /** Describes a key that one column alone decides: what it is for some values of that column. */
    void evaluate(Expression key, ObjectNode described) throws IOException {
      ArrayNode values = described.putArray("samples");
      Attribute[] of = new Attribute[1];
      int alternatives = Math.min(MOST_ALTERNATIVES, alternatives(key, 0));
      List<Expression> whole = new ArrayList<>();
      for (int number = 0; number < alternatives; number++) {
        Expression each = substitute(key, number, of, 0);
        if (each == null || !each.deterministic()) {
          return;
        }
        whole.add(each);
      }
      if (of[0] == null || unknown.contains(of[0].exprId())) {
        return;
      }
      List<?> samples = samples(of[0].dataType());
      try {
        if (isWindow(key) && !samples.isEmpty()) {
          described.set("window", window(key, whole, Literal.create(samples.get(0), of[0].dataType())));
          return;
        }
        for (Object sample : samples) {
          List<String> each = new ArrayList<>();
          for (Expression expression : whole) {
            Expression filled = fill(expression, Literal.create(sample, of[0].dataType()));
            each.add(text(filled.eval(null), filled.dataType()));
          }
          String joined = String.join(" ", each.stream().sorted().toList());
          values.add(joined.length() > LONGEST ? "hash " + joined.hashCode() : joined);
        }
        described.put("of", type(of[0].dataType()));
        described.put("plain", whole.size() == 1 && isPlain(whole.get(0)));
      } catch (RuntimeException notTold) {
        values.removeAll();
      }
    }

    /** Returns whether an expression is a column, perhaps cast to wider types, one after the other. */
    private static boolean isPlain(Expression expression) {
      return expression instanceof Attribute
          || expression instanceof Cast cast
              && Cast.canUpCast(cast.child().dataType(), cast.dataType())
              && isPlain(cast.child());
    }

    private static boolean isWindow(Expression key) {
      return key instanceof NamedExpression named
          && key.dataType() instanceof StructType
          && (named.metadata().contains(SESSION) || named.metadata().contains(WINDOW));
    }

    /** Returns size, slide and start of windows in microseconds, from those that one instant is in. */
    private static ObjectNode window(Expression key, List<Expression> alternatives, Literal instant) {
      boolean session = ((NamedExpression) key).metadata().contains(SESSION);
      List<Long> starts = new ArrayList<>();
      long size = 0;
      for (Expression each : alternatives) {
        InternalRow found = (InternalRow) fill(each, instant).eval(null);
        starts.add(found.getLong(0));
        size = found.getLong(1) - found.getLong(0);
      }
      starts.sort(null);
      long slide = session ? 0 : starts.size() > 1 ? starts.get(1) - starts.get(0) : size;
      long start = slide == 0 ? 0 : Math.floorMod(starts.get(0), slide);
      return JSON.createObjectNode().put("sizeUs", size).put("slideUs", slide).put("startUs", start);
    }

    private int alternatives(Expression expression, int depth) {
      int most = 1;
      if (depth < DEEPEST) {
        if (expression instanceof Attribute attribute) {
          List<Expression> of = made.getOrDefault(attribute.exprId(), List.of());
          most = Math.max(1, of.size());
          for (Expression each : of) {
            most = Math.max(most, alternatives(each, depth + 1));
          }
        }
        for (Expression child : java(expression.children())) {
          most = Math.max(most, alternatives(child, depth + 1));
        }
      }
      return most;
    }

    /** Returns an expression over the one column that it is made of; null if there are several. */
    private Expression substitute(Expression expression, int number, Attribute[] of, int depth) {
      if (depth > DEEPEST) {
        return null;
      }
      if (expression instanceof Attribute attribute) {
        List<Expression> alternatives = made.get(attribute.exprId());
        if (alternatives != null) {
          return substitute(alternatives.get(Math.min(number, alternatives.size() - 1)), number, of, depth + 1);
        }
        if (of[0] != null && !of[0].exprId().equals(attribute.exprId())) {
          return null;
        }
        of[0] = attribute;
        return attribute;
      }
      if (expression instanceof ObservedTime time) {
        // To take note of a time does not change it; it is for Spark alone that it may give another one.
        return substitute(time.children().head(), number, of, depth + 1);
      }
      if (expression instanceof AggregateExpression aggregate) {
        return substitute(aggregate.resultAttribute(), number, of, depth + 1);
      }
      List<Expression> children = new ArrayList<>();
      for (Expression child : java(expression.children())) {
        Expression each = substitute(child, number, of, depth + 1);
        if (each == null) {
          return null;
        }
        children.add(each);
      }
      return with(expression, children);
    }

    private static Expression fill(Expression expression, Literal value) {
      if (expression instanceof Attribute) {
        return value;
      }
      return with(expression, java(expression.children()).stream().map(child -> fill(child, value)).toList());
    }

    private static List<?> samples(DataType type) {
      if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
        return Arrays.stream(INSTANTS).boxed().toList();
      } else if (type.equals(DataTypes.DateType)) {
        return Arrays.stream(INSTANTS).mapToObj(each -> (int) (each / SECOND / 86400)).toList();
      } else if (type.equals(DataTypes.LongType)) {
        LongStream seconds = Arrays.stream(INSTANTS).map(each -> each / SECOND);
        return LongStream.concat(seconds, LongStream.of(7, -1)).boxed().toList();
      } else if (type.equals(DataTypes.IntegerType)) {
        return List.of(0, 1, 7, 12, 99, 1767225607, -1);
      } else if (type.equals(DataTypes.DoubleType)) {
        return List.of(0.0, 0.4, 1.5, 17.0, -3.0);
      }
      return type.equals(DataTypes.StringType) ? Arrays.stream(TEXTS).map(UTF8String::fromString).toList() : List.of();
    }

    private static String text(Object value, DataType type) {
      if (value instanceof InternalRow row && type instanceof StructType fields) {
        return String.valueOf(row.toSeq(fields));
      }
      return String.valueOf(value);
    }
  }
}
