package io.streamjob.rules;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.HashAggregateExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
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
final class FlatWindows extends FirstSteps {
  FlatWindows() {
    super("spark.streamjob.flatWindows");
  }

  @Override
  protected SparkPlan better(HashAggregateExec aggregate) {
    for (NamedExpression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
      if (key instanceof AttributeReference && isOnlyAKey((AttributeReference) key, aggregate)) {
        Flat flat = flat((AttributeReference) key, aggregate.child());
        Alias struct = flat == null ? null : struct((AttributeReference) key, flat);
        if (struct != null) {
          return byFields(aggregate, flat, struct);
        }
      }
    }
    return aggregate;
  }

  private static boolean isOnlyAKey(AttributeReference key, HashAggregateExec aggregate) {
    return CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .noneMatch(each -> each.references().contains(key));
  }

  /** Rows with the fields of a struct in its place, and an expression that makes such a struct. */
  private record Flat(CreateNamedStruct struct, List<Attribute> fields, SparkPlan rows) {}

  /** Returns rows without a struct that a plan makes of each row; null if the plan needs it or does not make it. */
  private static Flat flat(AttributeReference struct, SparkPlan plan) {
    if (plan instanceof ProjectExec) {
      return projected(struct, (ProjectExec) plan);
    }
    if (plan instanceof FilterExec) {
      return filtered(struct, (FilterExec) plan);
    }
    return plan instanceof ExpandExec ? expanded(struct, (ExpandExec) plan) : null;
  }

  private static Flat projected(AttributeReference key, ProjectExec project) {
    List<NamedExpression> list = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    int index = 0;
    while (index < list.size() && !list.get(index).exprId().equals(key.exprId())) {
      index++;
    }
    if (index == list.size()) {
      return null;
    }
    NamedExpression named = list.remove(index);
    Expression value = named instanceof Alias ? ((Alias) named).child() : (Expression) named;
    return value instanceof AttributeReference
        ? passedOn((AttributeReference) value, index, list, project)
        : made(value, index, list, project);
  }

  /** The projection takes the struct from below. */
  private static Flat passedOn(AttributeReference struct, int index, List<NamedExpression> others, ProjectExec project) {
    Flat below = flat(struct, project.child());
    if (below == null) {
      return null;
    }
    List<NamedExpression> list = new ArrayList<>();
    for (NamedExpression each : others) {
      Expression reading = reading((Expression) each, struct, below.fields());
      if (reading.references().contains(struct)) {
        return null;
      }
      list.add((NamedExpression) reading);
    }
    for (int number = 0; number < below.fields().size(); number++) {
      list.add(index + number, (NamedExpression) below.fields().get(number));
    }
    return new Flat(below.struct(), below.fields(), new ProjectExec(Plans.seq(list), below.rows()));
  }

  /** The projection makes the struct. */
  private static Flat made(Expression value, int index, List<NamedExpression> others, ProjectExec project) {
    CreateNamedStruct struct = timestamps(value);
    if (struct == null) {
      return null;
    }
    List<Expression> values = new ArrayList<>(CollectionConverters.asJava(struct.valExprs()));
    List<Attribute> fields = fields(List.of(values));
    List<NamedExpression> list = new ArrayList<>(others);
    for (int number = 0; number < values.size(); number++) {
      Attribute field = fields.get(number);
      list.add(index + number, Plans.alias(values.get(number), field.name(), field.exprId(), Option.empty()));
    }
    return new Flat(struct, fields, new ProjectExec(Plans.seq(list), project.child()));
  }

  private static Flat filtered(AttributeReference struct, FilterExec filter) {
    Flat below = flat(struct, filter.child());
    if (below == null) {
      return null;
    }
    Expression condition = reading(filter.condition(), struct, below.fields());
    return condition.references().contains(struct)
        ? null
        : new Flat(below.struct(), below.fields(), new FilterExec(condition, below.rows()));
  }

  /** Returns an expression that reads the fields of a struct where it stands for them. */
  private static Expression reading(Expression expression, AttributeReference struct, List<Attribute> fields) {
    return Plans.replaced(
        expression,
        part ->
            part instanceof GetStructField && isOf((GetStructField) part, struct)
                ? (Expression) fields.get(((GetStructField) part).ordinal())
                : null);
  }

  private static boolean isOf(GetStructField field, AttributeReference struct) {
    return field.child() instanceof AttributeReference
        && ((AttributeReference) field.child()).exprId().equals(struct.exprId());
  }

  private static Flat expanded(AttributeReference key, ExpandExec expand) {
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
      projections.add(Plans.seq(list));
    }
    if (first == null) {
      return null;
    }
    List<Attribute> fields = fields(values);
    output.remove(index);
    output.addAll(index, fields);
    ExpandExec flat = new ExpandExec(Plans.seq(projections), Plans.seq(output), expand.child(), expand.useSingleTask());
    return new Flat(first, fields, flat);
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
              "window_" + number, type, nullable, Metadata.empty(), NamedExpression.newExprId(), Plans.seq(List.of())));
    }
    return fields;
  }

  /** Returns the struct, made of its fields; null if it would not have the type that the plan relies on. */
  private static Alias struct(AttributeReference key, Flat flat) {
    List<Expression> parts = new ArrayList<>();
    List<Expression> names = new ArrayList<>(CollectionConverters.asJava(flat.struct().nameExprs()));
    for (int number = 0; number < flat.fields().size(); number++) {
      parts.add(names.get(number));
      parts.add((Expression) flat.fields().get(number));
    }
    Expression made = new CreateNamedStruct(Plans.seq(parts));
    return made.dataType().equals(key.dataType())
        ? Plans.alias(made, key.name(), key.exprId(), Option.apply(key.metadata()))
        : null;
  }

  private static SparkPlan byFields(HashAggregateExec aggregate, Flat flat, Alias struct) {
    ExprId replaced = struct.exprId();
    List<NamedExpression> results = replaced(aggregate.resultExpressions(), replaced, flat.fields());
    HashAggregateExec grouped =
        aggregate.copy(
            aggregate.requiredChildDistributionExpressions(),
            aggregate.isStreaming(),
            aggregate.numShufflePartitions(),
            Plans.seq(replaced(aggregate.groupingExpressions(), replaced, flat.fields())),
            aggregate.aggregateExpressions(),
            aggregate.aggregateAttributes(),
            aggregate.initialInputBufferOffset(),
            Plans.seq(results),
            flat.rows());
    List<NamedExpression> output = new ArrayList<>();
    for (Attribute each : CollectionConverters.asJava(aggregate.output())) {
      output.add(each.exprId().equals(replaced) ? struct : (NamedExpression) each);
    }
    return new ProjectExec(Plans.seq(output), grouped);
  }

  private static List<NamedExpression> replaced(
      Seq<NamedExpression> expressions, ExprId struct, List<Attribute> fields) {
    List<NamedExpression> result = new ArrayList<>();
    for (NamedExpression each : CollectionConverters.asJava(expressions)) {
      if (each.exprId().equals(struct)) {
        fields.forEach(field -> result.add((NamedExpression) field));
      } else {
        result.add(each);
      }
    }
    return result;
  }
}
