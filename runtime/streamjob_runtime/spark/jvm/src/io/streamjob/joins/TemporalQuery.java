package io.streamjob.joins;

import io.streamjob.plans.Plans;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.Star;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A query that joins versions, whose joins are replaced one after the other, the innermost first, before Spark resolves
 * the rest.
 */
public final class TemporalQuery {
  private final SparkSession session;
  private final String mark;
  private final List<String> names;
  private LogicalPlan plan;
  private Join join;
  private int number;
  private Side rows;
  private Side versions;

  /** A side of a join: its columns, and the names by which they are told apart. */
  private record Side(LogicalPlan plan, List<Attribute> columns, List<String> names) {}

  /**
   * Parses a query.
   *
   * @param mark the beginning of the names that stand for versions; a number follows
   * @param names the inputs with the versions, by that number
   */
  public TemporalQuery(SparkSession session, String text, String mark, List<String> names) throws ParseException {
    this.session = session;
    this.mark = mark;
    this.names = names;
    this.plan = session.sessionState().sqlParser().parsePlan(text);
  }

  /** Finds the next join, and returns the number of its versions; -1 if there is none where one can be replaced. */
  public int next() {
    join = find(plan);
    if (join == null) {
      return -1;
    }
    rows = side(join.left());
    versions = side(named(join.right()));
    return number;
  }

  /** Returns the kind of the join, as in {@code LEFT OUTER}. */
  public String kind() {
    return join.joinType().sql();
  }

  /** Returns the rows, with a name of its own for each column. */
  public Dataset<Row> rows() {
    return frame(rows);
  }

  /** Returns the versions, with a name of its own for each column. */
  public Dataset<Row> versions() {
    return frame(versions);
  }

  /** Returns the column of the rows that a name stands for; null if there is none. */
  public String column(List<String> parts) {
    return resolve(rows, Plans.seq(parts));
  }

  /** Returns pairs of equal columns, of rows and of versions; null if the condition is another one. */
  public List<List<String>> keys() {
    List<List<String>> found = new ArrayList<>();
    return join.condition().isDefined() && collect(join.condition().get(), found) ? found : null;
  }

  /** Returns the columns of the versions that the query may read. */
  public List<String> read() {
    Set<String> read = new HashSet<>();
    boolean all = !collect(plan, read);
    List<String> found = new ArrayList<>();
    for (int index = 0; index < versions.columns.size(); index++) {
      if (all || read.contains(versions.columns.get(index).name().toLowerCase(Locale.ROOT))) {
        found.add(versions.names.get(index));
      }
    }
    return found;
  }

  /**
   * Puts rows in place of the join.
   *
   * @param joined the columns of the rows, and then those of versions
   * @param kept the latter, by their names
   */
  public void replace(Dataset<Row> joined, List<String> kept) {
    LogicalPlan made = ((org.apache.spark.sql.classic.Dataset<Row>) joined).queryExecution().analyzed();
    List<Attribute> from = new ArrayList<>(rows.columns);
    kept.forEach(name -> from.add(versions.columns.get(versions.names.indexOf(name))));
    List<Attribute> columns = java(made.output());
    List<NamedExpression> named = new ArrayList<>();
    for (int index = 0; index < columns.size(); index++) {
      named.add(alias(columns.get(index), from.get(index).name(), from.get(index).qualifier()));
    }
    plan = replaced(plan, join, new Project(Plans.seq(named), made));
  }

  /** Returns the result of the query. */
  public Dataset<Row> result() {
    return Dataset$.MODULE$.ofRows(session, plan);
  }

  private Join find(LogicalPlan node) {
    for (LogicalPlan child : java(node.children())) {
      Join below = find(child);
      if (below != null) {
        return below;
      }
    }
    return node instanceof Join each && marked(each.right()) >= 0 ? each : null;
  }

  private int marked(LogicalPlan side) {
    LogicalPlan leaf = side;
    while (leaf.children().size() == 1) {
      leaf = leaf.children().head();
    }
    boolean found = leaf instanceof UnresolvedRelation relation && relation.tableName().startsWith(mark);
    number = found ? Integer.parseInt(((UnresolvedRelation) leaf).tableName().substring(mark.length())) : -1;
    return number;
  }

  private LogicalPlan named(LogicalPlan side) {
    if (side instanceof UnresolvedRelation) {
      return new UnresolvedRelation(Plans.seq(List.of(names.get(number))), CaseInsensitiveStringMap.empty(), false);
    }
    return side.withNewChildren(Plans.seq(List.of(named(side.children().head()))));
  }

  private Side side(LogicalPlan parsed) {
    LogicalPlan resolved = Dataset$.MODULE$.ofRows(session, parsed).queryExecution().analyzed();
    List<Attribute> columns = java(resolved.output());
    Map<String, Integer> count = new HashMap<>();
    columns.forEach(each -> count.merge(each.name().toLowerCase(Locale.ROOT), 1, Integer::sum));
    List<String> unique = new ArrayList<>();
    for (Attribute each : columns) {
      boolean alone = count.get(each.name().toLowerCase(Locale.ROOT)) == 1;
      unique.add(alone ? each.name() : each.name() + "__" + unique.size());
    }
    return new Side(resolved, columns, unique);
  }

  private Dataset<Row> frame(Side side) {
    List<NamedExpression> named = new ArrayList<>();
    for (int index = 0; index < side.columns.size(); index++) {
      named.add(alias(side.columns.get(index), side.names.get(index), Plans.seq(List.of())));
    }
    return Dataset$.MODULE$.ofRows(session, new Project(Plans.seq(named), side.plan));
  }

  private static NamedExpression alias(Attribute column, String name, Seq<String> qualifier) {
    return new Alias(column, name, NamedExpression$.MODULE$.newExprId(), qualifier, Option.empty(), Plans.seq(List.of()));
  }

  private String resolve(Side side, Seq<String> parts) {
    Option<NamedExpression> found;
    try {
      found = side.plan.resolve(parts, session.sessionState().conf().resolver());
    } catch (Exception notOne) {
      return null; // Several columns have the name, or it is read as a field of a column that has none.
    }
    for (int index = 0; found.isDefined() && index < side.columns.size(); index++) {
      if (found.get() instanceof Attribute column && column.exprId().equals(side.columns.get(index).exprId())) {
        return side.names.get(index);
      }
    }
    return null;
  }

  private boolean collect(Expression condition, List<List<String>> found) {
    if (condition instanceof And and) {
      return collect(and.left(), found) && collect(and.right(), found);
    }
    if (condition instanceof EqualTo equal
        && equal.left() instanceof UnresolvedAttribute one
        && equal.right() instanceof UnresolvedAttribute other) {
      return pair(one, other, found) || pair(other, one, found);
    }
    return false;
  }

  private boolean pair(UnresolvedAttribute one, UnresolvedAttribute other, List<List<String>> found) {
    String row = resolve(rows, one.nameParts());
    String version = resolve(versions, other.nameParts());
    // A name that both sides have is not clear.
    boolean clear = resolve(versions, one.nameParts()) == null && resolve(rows, other.nameParts()) == null;
    return row != null && version != null && clear && found.add(List.of(row, version));
  }

  /** Collects the names that a plan reads; returns whether they are known. */
  private static boolean collect(LogicalPlan node, Set<String> names) {
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      if (!collect(expression, names)) {
        return false;
      }
    }
    return java(node.children()).stream().allMatch(child -> collect(child, names));
  }

  private static boolean collect(Expression expression, Set<String> names) {
    if (expression instanceof Star || expression instanceof SubqueryExpression) {
      return false;
    }
    if (expression instanceof UnresolvedAttribute attribute) {
      CollectionConverters.asJava(attribute.nameParts()).forEach(each -> names.add(each.toLowerCase(Locale.ROOT)));
    }
    return CollectionConverters.asJava(expression.children()).stream().allMatch(child -> collect(child, names));
  }

  private static LogicalPlan replaced(LogicalPlan node, LogicalPlan old, LogicalPlan made) {
    if (node == old) {
      return made;
    }
    List<LogicalPlan> children = new ArrayList<>();
    java(node.children()).forEach(child -> children.add(replaced(child, old, made)));
    return children.isEmpty() ? node : node.withNewChildren(Plans.seq(children));
  }

  private static <T> List<T> java(scala.collection.Seq<T> values) {
    return new ArrayList<>(CollectionConverters.asJava(values));
  }
}
