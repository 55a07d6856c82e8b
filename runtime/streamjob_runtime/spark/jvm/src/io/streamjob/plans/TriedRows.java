package io.streamjob.plans;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of a query that selects and filters, with the error in place of each row that Spark cannot compute.
 *
 * <p>Each selection, with the filters below it, becomes one {@link Tried}. What a row lacks after one is not computed by
 * the next one.
 */
public final class TriedRows {
  private static final String ERROR = "__streamjob_error";
  private static final String ROW = "__streamjob_row";

  private final LogicalPlan input;
  private final List<Expression> conditions = new ArrayList<>();
  private List<? extends NamedExpression> columns;
  private LogicalPlan plan;
  private Attribute tried;
  private boolean filters;

  private TriedRows(LogicalPlan input) {
    this.input = input;
    this.plan = input;
    this.columns = java(input.output());
  }

  /**
   * Returns the columns of a query, followed by the error of a row and the row itself as it was read.
   *
   * @param input the rows that the query reads.
   * @param output its result.
   * @throws IllegalArgumentException its message is the part of the query that does more than to select and filter.
   */
  public static Dataset<Row> of(Dataset<Row> input, Dataset<Row> output) {
    var read = (org.apache.spark.sql.classic.Dataset<Row>) input;
    var computed = (org.apache.spark.sql.classic.Dataset<Row>) output;
    LogicalPlan from = read.queryExecution().analyzed();
    TriedRows rows = new TriedRows(from);
    for (LogicalPlan step : steps(computed.queryExecution().analyzed(), from)) {
      if (step instanceof Filter filter) {
        rows.conditions.add(filter.condition());
      } else {
        rows.compute(java(((Project) step).projectList()), step.output());
      }
    }
    return Dataset$.MODULE$.ofRows(read.sparkSession(), rows.result());
  }

  /** Returns the selections and filters between a query's input and its result, from the input on. */
  private static Deque<LogicalPlan> steps(LogicalPlan output, LogicalPlan input) {
    Deque<LogicalPlan> steps = new ArrayDeque<>();
    LogicalPlan step = output;
    while (!step.equals(input)) {
      if (step instanceof WithCTE) {
        step = new InlineCTE(true, false, false).apply(step);
      } else if (step instanceof SubqueryAlias || step instanceof View) {
        step = step.children().head();
      } else if (step instanceof Project || step instanceof Filter) {
        java(step.expressions()).forEach(TriedRows::check);
        steps.push(step);
        step = step.children().head();
      } else {
        throw new IllegalArgumentException(step.children().isEmpty() ? "another input" : step.nodeName());
      }
    }
    return steps;
  }

  private static void check(Expression expression) {
    if (expression instanceof PlanExpression) {
      throw new IllegalArgumentException("a subquery in an expression");
    }
    if (expression instanceof PythonFuncExpression function) {
      throw new IllegalArgumentException("the function " + function.name() + " in Python");
    }
    java(expression.children()).forEach(TriedRows::check);
  }

  /** Adds a selection, with the filters before it. */
  private void compute(List<NamedExpression> selected, Seq<Attribute> names) {
    Map<ExprId, Expression> known = new HashMap<>();
    if (tried != null) {
      for (int number = 0; number < columns.size(); number++) {
        known.put(columns.get(number).exprId(), column(number));
      }
    }
    List<Expression> fields = new ArrayList<>();
    for (NamedExpression each : selected) {
      fields.add(text("c" + fields.size() / 2));
      fields.add(Plans.replaced(each instanceof Alias alias ? alias.child() : (Expression) each, known));
    }
    Expression value = new CreateNamedStruct(Plans.seq(fields));
    if (!conditions.isEmpty()) {
      Expression condition = conditions.stream().reduce(And::new).get();
      value = new If(Plans.replaced(condition, known), value, Literal.create(null, value.dataType()));
      conditions.clear();
      filters = true;
    }
    Expression next = new Tried(value);
    if (tried != null) {
      List<Expression> lacking =
          List.of(text("value"), Literal.create(null, value.dataType()), text("error"), field(tried, 1));
      next = new If(new IsNotNull(field(tried, 0)), next, new CreateNamedStruct(Plans.seq(lacking)));
    }
    Alias named = named(next, "__streamjob_tried", Metadata.empty());
    List<NamedExpression> kept = new ArrayList<>(java(input.output()));
    kept.add(named);
    plan = new Project(Plans.seq(kept), plan);
    tried = named.toAttribute();
    columns = java(names);
  }

  private LogicalPlan result() {
    if (tried == null || !conditions.isEmpty()) {
      List<NamedExpression> all = new ArrayList<>(columns);
      compute(all, Plans.seq(all.stream().map(NamedExpression::toAttribute).toList()));
    }
    if (filters) {
      plan = new Filter(new Or(new IsNotNull(field(tried, 0)), new IsNotNull(field(tried, 1))), plan);
    }
    List<NamedExpression> result = new ArrayList<>();
    for (NamedExpression each : columns) {
      result.add(named(column(result.size()), each.name(), each.metadata()));
    }
    List<Expression> row = new ArrayList<>();
    for (Attribute each : java(input.output())) {
      row.add(text(each.name()));
      row.add(each);
    }
    result.add(named(field(tried, 1), ERROR, Metadata.empty()));
    result.add(named(new CreateNamedStruct(Plans.seq(row)), ROW, Metadata.empty()));
    return new Project(Plans.seq(result), plan);
  }

  private Expression column(int number) {
    return field(field(tried, 0), number);
  }

  private static Expression field(Expression struct, int number) {
    return new GetStructField(struct, number, Option.empty());
  }

  private static Alias named(Expression expression, String name, Metadata metadata) {
    ExprId id = NamedExpression$.MODULE$.newExprId();
    return Plans.alias(expression, name, id, Option.apply(metadata));
  }

  private static Expression text(String value) {
    return Literal.create(UTF8String.fromString(value), DataTypes.StringType);
  }

  private static <T> List<T> java(scala.collection.Seq<T> values) {
    return CollectionConverters.asJava(values);
  }
}
