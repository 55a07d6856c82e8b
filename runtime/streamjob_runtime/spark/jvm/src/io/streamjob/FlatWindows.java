package io.streamjob;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.HashAggregateExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets the first step of an aggregation group by the start and the end of a window instead of the struct of both.
 *
 * <p>Spark makes a struct of each row's window, and groups rows by it. Its hash table for keys of plain values, which is
 * generated code, takes no structs. The struct is needed from the shuffle on only, so it is made of each group instead
 * of each row: between the partial aggregation and the shuffle. What is shuffled and stored in the state is the same.
 *
 * <p>This is exact for any expressions: the struct is made of the very values that rows were grouped by, it is never null
 * itself, and two structs of timestamps are equal if and only if their fields are.
 */
final class FlatWindows extends Rule<SparkPlan> {
  /** Turns the rule off for a session if it is `false`. */
  static final String SWITCH = "spark.streamjob.flatWindows";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return Boolean.parseBoolean(conf().getConfString(SWITCH, "true")) ? rewritten(plan) : plan;
  }

  private static SparkPlan rewritten(SparkPlan plan) {
    List<SparkPlan> children = new ArrayList<>();
    boolean changed = false;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      SparkPlan other = rewritten(child);
      changed |= other != child;
      children.add(other);
    }
    SparkPlan result = changed ? plan.withNewChildren(seq(children)) : plan;
    return result instanceof HashAggregateExec ? flat((HashAggregateExec) result) : result;
  }

  private static SparkPlan flat(HashAggregateExec aggregate) {
    for (AggregateExpression each : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      if (!each.mode().equals(Partial$.MODULE$)) {
        return aggregate;
      }
    }
    // Without functions, the steps of an aggregation differ only in what they require of their rows.
    if (aggregate.requiredChildDistributionExpressions().isDefined()) {
      return aggregate;
    }
    for (NamedExpression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
      if (key instanceof AttributeReference && isOnlyAKey((AttributeReference) key, aggregate)) {
        Window window = window((AttributeReference) key, aggregate.child());
        if (window != null) {
          return byFields(aggregate, window);
        }
      }
    }
    return aggregate;
  }

  private static boolean isOnlyAKey(AttributeReference key, HashAggregateExec aggregate) {
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .noneMatch(each -> each.references().contains(key));
  }

  /** A struct that a child makes of each row, and the same rows with its fields in its place. */
  private record Window(AttributeReference struct, List<Attribute> fields, Alias rebuilt, SparkPlan child) {}

  private static Window window(AttributeReference key, SparkPlan child) {
    if (child instanceof ProjectExec) {
      return projected(key, (ProjectExec) child);
    }
    return child instanceof ExpandExec ? expanded(key, (ExpandExec) child) : null;
  }

  private static Window projected(AttributeReference key, ProjectExec project) {
    List<NamedExpression> list = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    for (int index = 0; index < list.size(); index++) {
      if (list.get(index).exprId().equals(key.exprId()) && list.get(index) instanceof Alias) {
        CreateNamedStruct struct = timestamps(((Alias) list.get(index)).child());
        if (struct == null) {
          return null;
        }
        List<Expression> values = new ArrayList<>(CollectionConverters.asJava(struct.valExprs()));
        List<Attribute> fields = fields(List.of(values));
        List<NamedExpression> flat = new ArrayList<>();
        for (int number = 0; number < values.size(); number++) {
          Attribute field = fields.get(number);
          flat.add(alias(values.get(number), field.name(), field.exprId(), Option.empty()));
        }
        list.remove(index);
        list.addAll(index, flat);
        return rebuilt(key, struct, fields, new ProjectExec(seq(list), project.child()));
      }
    }
    return null;
  }

  private static Window expanded(AttributeReference key, ExpandExec expand) {
    List<Attribute> output = new ArrayList<>(CollectionConverters.asJava(expand.output()));
    int index = 0;
    while (index < output.size() && !output.get(index).exprId().equals(key.exprId())) {
      index++;
    }
    if (index == output.size()) {
      return null;
    }
    CreateNamedStruct first = null;
    List<List<Expression>> values = new ArrayList<>();
    List<Seq<Expression>> projections = new ArrayList<>();
    for (Seq<Expression> projection : CollectionConverters.asJava(expand.projections())) {
      List<Expression> list = new ArrayList<>(CollectionConverters.asJava(projection));
      CreateNamedStruct struct = timestamps(list.remove(index));
      if (struct == null || (first != null && !first.names().equals(struct.names()))) {
        return null;
      }
      first = first == null ? struct : first;
      values.add(new ArrayList<>(CollectionConverters.asJava(struct.valExprs())));
      list.addAll(index, values.get(values.size() - 1));
      projections.add(seq(list));
    }
    if (first == null) {
      return null;
    }
    List<Attribute> fields = fields(values);
    output.remove(index);
    output.addAll(index, fields);
    ExpandExec flat = new ExpandExec(seq(projections), seq(output), expand.child(), expand.useSingleTask());
    return rebuilt(key, first, fields, flat);
  }

  /** Returns an expression that makes a struct of timestamps; null for any other. */
  private static CreateNamedStruct timestamps(Expression expression) {
    if (!(expression instanceof CreateNamedStruct)) {
      return null;
    }
    CreateNamedStruct struct = (CreateNamedStruct) expression;
    for (Expression value : CollectionConverters.asJava(struct.valExprs())) {
      DataType type = value.dataType();
      if (!type.equals(DataTypes.TimestampType) && !type.equals(DataTypes.TimestampNTZType)) {
        return null;
      }
    }
    return struct;
  }

  /** Returns an attribute for each field; it may be null if it may be null in one of several lists of values. */
  private static List<Attribute> fields(List<List<Expression>> values) {
    List<Attribute> fields = new ArrayList<>();
    for (int number = 0; number < values.get(0).size(); number++) {
      int field = number;
      boolean nullable = values.stream().anyMatch(each -> each.get(field).nullable());
      DataType type = values.get(0).get(number).dataType();
      fields.add(
          new AttributeReference(
              "window_" + number, type, nullable, Metadata.empty(), NamedExpression.newExprId(), none()));
    }
    return fields;
  }

  /** Returns null if the struct would not have the type that the plan relies on. */
  private static Window rebuilt(
      AttributeReference key, CreateNamedStruct struct, List<Attribute> fields, SparkPlan child) {
    List<Expression> parts = new ArrayList<>();
    List<Expression> names = new ArrayList<>(CollectionConverters.asJava(struct.nameExprs()));
    for (int number = 0; number < fields.size(); number++) {
      parts.add(names.get(number));
      parts.add((Expression) fields.get(number));
    }
    Expression made = new CreateNamedStruct(seq(parts));
    if (!made.dataType().equals(key.dataType())) {
      return null;
    }
    return new Window(key, fields, alias(made, key.name(), key.exprId(), Option.apply(key.metadata())), child);
  }

  private static SparkPlan byFields(HashAggregateExec aggregate, Window window) {
    List<NamedExpression> results = replaced(aggregate.resultExpressions(), window);
    HashAggregateExec flat =
        aggregate.copy(
            aggregate.requiredChildDistributionExpressions(),
            aggregate.isStreaming(),
            aggregate.numShufflePartitions(),
            seq(replaced(aggregate.groupingExpressions(), window)),
            aggregate.aggregateExpressions(),
            aggregate.aggregateAttributes(),
            aggregate.initialInputBufferOffset(),
            seq(results),
            window.child());
    List<NamedExpression> output = new ArrayList<>();
    for (Attribute each : CollectionConverters.asJava(aggregate.output())) {
      output.add(each.exprId().equals(window.struct().exprId()) ? window.rebuilt() : (NamedExpression) each);
    }
    return new ProjectExec(seq(output), flat);
  }

  private static List<NamedExpression> replaced(Seq<NamedExpression> expressions, Window window) {
    List<NamedExpression> result = new ArrayList<>();
    for (NamedExpression each : CollectionConverters.asJava(expressions)) {
      if (each.exprId().equals(window.struct().exprId())) {
        window.fields().forEach(field -> result.add((NamedExpression) field));
      } else {
        result.add(each);
      }
    }
    return result;
  }

  private static Alias alias(Expression child, String name, ExprId id, Option<Metadata> metadata) {
    return new Alias(child, name, id, none(), metadata, none());
  }

  @SuppressWarnings("unchecked")
  private static Seq<String> none() {
    return (Seq<String>) (Seq<?>) Nil$.MODULE$;
  }

  private static <T> Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toList();
  }
}
