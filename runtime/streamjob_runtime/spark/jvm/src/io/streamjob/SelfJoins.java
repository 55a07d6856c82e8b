package io.streamjob;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Explode;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.Cross$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Turns the join of a stream with the highest, or lowest, values of its own windows into one aggregation.
 *
 * <p>{@code SELECT … FROM bids b JOIN (SELECT window, max(price) AS highest FROM bids GROUP BY window(at, '1 hour')) m ON
 * b.price = m.highest AND b.at >= m.window.start AND b.at < m.window.end} returns the rows with the highest price of each
 * window. As a join it reads the stream twice and keeps each row until its window ends. As an aggregation it keeps only
 * the rows that are the highest so far.
 *
 * <p>The rows are the same, by construction: the aggregation collects all rows of a group that have the group's highest
 * value, and the whole condition of the join filters them. That is done only if {@link OwnGroup} is certain that a row
 * finds no other group than its own. The only difference are rows behind the watermark whose window is still open: the
 * join ignores them, though they count for the highest value.
 */
public final class SelfJoins {
  /** Keeps such joins in a session if it is `false`. */
  static final String SWITCH = "spark.streamjob.selfJoins";

  private final Join join;
  private final LogicalPlan sideOfRows;
  private final LogicalPlan sideOfGroups;
  private final Aggregate aggregate;
  private final List<Project> overAggregate = new ArrayList<>();
  private LogicalPlan rows;
  private Origins ofRows;
  private Origins ofGroups;
  private TimeWindow window;

  private SelfJoins(
      Join join,
      LogicalPlan sideOfRows,
      LogicalPlan sideOfGroups,
      Aggregate aggregate,
      List<LogicalPlan> overAggregate) {
    this.join = join;
    this.sideOfRows = sideOfRows;
    this.sideOfGroups = sideOfGroups;
    this.aggregate = aggregate;
    for (LogicalPlan each : overAggregate) {
      if (each instanceof Project project) {
        this.overAggregate.add(0, project);
      }
    }
  }

  /** Returns a result computed without such a join; null if it has none, or more than projections and filters behind it. */
  public static Dataset<Row> aggregated(Dataset<Row> result) {
    org.apache.spark.sql.classic.Dataset<Row> frame = (org.apache.spark.sql.classic.Dataset<Row>) result;
    if (!Boolean.parseBoolean(frame.sparkSession().conf().get(SWITCH, "true"))) {
      return null;
    }
    LogicalPlan plan = frame.queryExecution().analyzed();
    if (plan instanceof WithCTE) {
      plan = new InlineCTE(true, false, false).apply(plan);
    }
    List<LogicalPlan> above = chain(plan, true);
    if (!(above.remove(above.size() - 1) instanceof Join last)) {
      return null;
    }
    Join join = last;
    while (!above.isEmpty() && above.get(above.size() - 1) instanceof Filter filter) {
      join = with(filter.condition(), join);
      above.remove(above.size() - 1);
    }
    if (!isInner(join)) {
      return null;
    }
    LogicalPlan made = aggregated(join, join.left(), join.right(), above);
    made = made == null ? aggregated(join, join.right(), join.left(), above) : made;
    return made == null ? null : analyzed(frame.sparkSession(), made);
  }

  private static Dataset<Row> analyzed(SparkSession session, LogicalPlan plan) {
    try {
      return Dataset$.MODULE$.ofRows(session, plan);
    } catch (Exception error) {
      if (error instanceof AnalysisException) {
        return null; // The join works, too.
      }
      throw error;
    }
  }

  private static LogicalPlan aggregated(Join join, LogicalPlan rows, LogicalPlan groups, List<LogicalPlan> above) {
    List<LogicalPlan> side = chain(groups, false);
    if (!(side.remove(side.size() - 1) instanceof Aggregate aggregate)) {
      return null;
    }
    SelfJoins found = new SelfJoins(join, rows, groups, aggregate, side);
    return found.findsRows() ? found.made(above) : null;
  }

  /** Returns a join with a further condition: in `FROM a, b WHERE …`, all of it is a filter. */
  private static Join with(Expression condition, Join join) {
    Expression all = join.condition().isEmpty() ? condition : new And(join.condition().get(), condition);
    return new Join(join.left(), join.right(), join.joinType(), Option.apply(all), join.hint());
  }

  private static boolean isInner(Join join) {
    boolean inner = join.joinType().equals(Inner$.MODULE$) || join.joinType().equals(Cross$.MODULE$);
    return inner && join.condition().isDefined() && join.left().isStreaming();
  }

  /** Returns a plan and those below it, up to the first that does more than to compute columns of each row, or filter. */
  private static List<LogicalPlan> chain(LogicalPlan plan, boolean filters) {
    List<LogicalPlan> found = new ArrayList<>(List.of(plan));
    LogicalPlan last = plan;
    while (last instanceof Project
        || last instanceof SubqueryAlias
        || last instanceof View
        || (filters && last instanceof Filter)) {
      last = last.children().head();
      found.add(last);
    }
    return found;
  }

  /** Finds the rows that both the join and the aggregation read: the lowest ones, before any windows are made of them. */
  private boolean findsRows() {
    List<LogicalPlan> mine = chain(sideOfRows, false);
    List<LogicalPlan> others = chain(aggregate.child(), true);
    for (int index = mine.size() - 1; index >= 0; index--) {
      for (int number = others.size() - 1; number >= 0; number--) {
        rows = mine.get(index);
        LogicalPlan same = others.get(number);
        if (rows.sameResult(same)) {
          ofRows = origins(mine.subList(0, index));
          ofGroups = origins(others.subList(0, number));
          for (int column = 0; column < java(rows.output()).size(); column++) {
            if (!rows.output().apply(column).exprId().equals(same.output().apply(column).exprId())) {
              ofGroups.add(same.output().apply(column), rows.output().apply(column));
            }
          }
          return ofRows.deterministic() && ofGroups.deterministic() && findsWindow(others.subList(0, number));
        }
      }
    }
    return false;
  }

  private static Origins origins(List<LogicalPlan> plans) {
    Origins found = new Origins();
    for (LogicalPlan each : plans) {
      if (each instanceof Project project) {
        found.add(project.projectList());
      }
    }
    return found;
  }

  /**
   * Finds the window among the keys, null if rows have none or have it as a column; between the rows and the aggregation,
   * only rows without a time may be left out.
   */
  private boolean findsWindow(List<LogicalPlan> underAggregate) {
    for (Expression key : java(aggregate.groupingExpressions())) {
      TimeWindow made = key instanceof AttributeReference column ? TimeWindow.of(column, ofGroups) : null;
      if (made != null && window != null) {
        return false;
      }
      window = made == null ? window : made;
    }
    for (LogicalPlan each : underAggregate) {
      if (each instanceof Filter filter && !isKnownTime(filter.condition())) {
        return false;
      }
    }
    return true;
  }

  private boolean isKnownTime(Expression condition) {
    return window != null
        && condition instanceof IsNotNull known
        && ofGroups.of(known.child()).semanticEquals(window.time());
  }

  /** Returns the plan without the join; null if a row may find another group than its own. */
  private LogicalPlan made(List<LogicalPlan> above) {
    Origins ofResults = new Origins();
    ofResults.add(aggregate.aggregateExpressions());
    overAggregate.forEach(each -> ofResults.add(each.projectList()));
    List<Expression> keys = java(aggregate.groupingExpressions());
    keys.removeIf(this::isWindow);
    OwnGroup own =
        new OwnGroup(
            window, keys, ofRows, ofGroups, ofResults, sideOfRows.outputSet(), sideOfGroups.outputSet());
    if (!own.isCertain(join.condition().get())) {
      return null;
    }
    List<Attribute> columns = java(sideOfRows.output());
    Set<ExprId> read = read(above);
    columns.removeIf(each -> read != null && !read.contains(each.exprId()));
    Alias found = collected(own, columns);
    LogicalPlan plan = aggregated(found);
    for (Project each : overAggregate) {
      List<NamedExpression> list = java(each.projectList());
      list.add((NamedExpression) found.toAttribute());
      plan = new Project(Plans.seq(list), plan);
    }
    return spread(plan, found.toAttribute(), columns, above);
  }

  /** Returns the columns that the condition and the plans above read; null if all of them are in the result. */
  private Set<ExprId> read(List<LogicalPlan> above) {
    if (above.stream().noneMatch(Project.class::isInstance)) {
      return null;
    }
    List<Expression> expressions = new ArrayList<>(List.of(join.condition().get()));
    above.forEach(each -> expressions.addAll(java(each.expressions())));
    Set<ExprId> found = new HashSet<>();
    for (Expression each : expressions) {
      java(each.references().toSeq()).forEach(column -> found.add(column.exprId()));
    }
    return found;
  }

  private Alias collected(OwnGroup own, List<Attribute> columns) {
    List<Expression> fields = new ArrayList<>();
    for (Attribute each : columns) {
      fields.add(Literal.create(each.name(), DataTypes.StringType));
      fields.add(ofRows.of(each));
    }
    ExtremeRows rowsOfGroup = new ExtremeRows(own.value(), new CreateNamedStruct(Plans.seq(fields)), own.lowest(), 0, 0);
    Expression call = new AggregateExpression(rowsOfGroup, Complete$.MODULE$, false, Option.empty(), newId());
    return alias(call, "found", newId(), Metadata.empty());
  }

  private LogicalPlan aggregated(Alias found) {
    LogicalPlan input = rows;
    if (window != null) {
      List<NamedExpression> columns = java(rows.output());
      AttributeReference key = window.key();
      columns.add(0, alias(window.struct(), key.name(), key.exprId(), key.metadata()));
      input = new Project(Plans.seq(columns), new Filter(new IsNotNull(window.time()), rows));
    }
    List<Expression> keys = new ArrayList<>();
    java(aggregate.groupingExpressions()).forEach(each -> keys.add(ofRows(each)));
    List<NamedExpression> results = new ArrayList<>();
    for (NamedExpression each : java(aggregate.aggregateExpressions())) {
      Expression result = ofRows((Expression) each);
      boolean named = result instanceof NamedExpression same && same.exprId().equals(each.exprId());
      results.add(named ? (NamedExpression) result : alias(result, each.name(), each.exprId(), each.metadata()));
    }
    results.add(found);
    return new Aggregate(Plans.seq(keys), Plans.seq(results), input, Option.empty());
  }

  private boolean isWindow(Expression expression) {
    return window != null && expression.semanticEquals(window.key());
  }

  /** Returns an expression over the input of the aggregation in terms of the rows and their window. */
  private Expression ofRows(Expression expression) {
    if (isWindow(expression)) {
      return expression;
    }
    return expression.children().isEmpty() ? ofGroups.of(expression) : expression.mapChildren(this::ofRows);
  }

  /** Returns a plan with a row for each row that was found, and the plans above over it. */
  private LogicalPlan spread(LogicalPlan groups, Attribute found, List<Attribute> columns, List<LogicalPlan> above) {
    AttributeReference row =
        new AttributeReference(
            "row", ((ArrayType) found.dataType()).elementType(), false, Metadata.empty(), newId(), Plans.seq(List.of()));
    LogicalPlan plan =
        new Generate(new Explode(found), Plans.seq(List.of()), false, Option.empty(), Plans.seq(List.of(row)), groups);
    List<ExprId> ids = columns.stream().map(Attribute::exprId).toList();
    Origins renamed = new Origins();
    List<NamedExpression> list = new ArrayList<>();
    for (Attribute each : CollectionConverters.asJava(join.output())) {
      int number = ids.indexOf(each.exprId());
      if (number >= 0) {
        Expression field = new GetStructField(row, number, Option.apply(each.name()));
        Alias column = alias(field, each.name(), newId(), each.metadata());
        renamed.add(each, column.toAttribute());
        list.add(column);
      } else if (sideOfGroups.outputSet().contains(each)) {
        list.add((NamedExpression) each);
      }
    }
    plan = new Filter(renamed.of(join.condition().get()), new Project(Plans.seq(list), plan));
    for (int index = above.size() - 1; index >= 0; index--) {
      LogicalPlan each = above.get(index);
      if (each instanceof Filter filter) {
        plan = new Filter(renamed.of(filter.condition()), plan);
      } else if (each instanceof Project project) {
        List<NamedExpression> projected = new ArrayList<>();
        for (NamedExpression column : java(project.projectList())) {
          projected.add((NamedExpression) renamed.of((Expression) column));
        }
        plan = new Project(Plans.seq(projected), plan);
      }
    }
    return plan;
  }

  private static Alias alias(Expression value, String name, ExprId id, Metadata metadata) {
    return Plans.alias(value, name, id, Option.apply(metadata));
  }

  private static ExprId newId() {
    return NamedExpression$.MODULE$.newExprId();
  }

  private static <T> List<T> java(scala.collection.Seq<? extends T> values) {
    return new ArrayList<>(CollectionConverters.asJava(values));
  }
}
