package io.streamjob.changes;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds which marked columns a plan computes with. A mark is an entry in the metadata of a column, or of a field of a struct;
 * Spark hands it on with a column that is selected as it is, also under another name.
 */
public final class MarkedColumns {
  private static final List<Class<?>> PASSING =
      List.of(
          Aggregate.class, CTERelationDef.class, CollectMetrics.class, EventTimeWatermark.class, Filter.class, Generate.class,
          Join.class, Repartition.class, RepartitionByExpression.class, Sort.class, SubqueryAlias.class, ResolvedHint.class,
          View.class, WithCTE.class);

  private final String key;
  private final List<LogicalPlan> inputs;
  private final Set<String> used = new LinkedHashSet<>();

  private MarkedColumns(String key, List<LogicalPlan> inputs) {
    this.key = key;
    this.inputs = inputs;
  }

  /**
   * Returns the marks, as JSON, of the columns that a plan does anything with but select them.
   *
   * @param plan an analyzed plan.
   * @param inputs parts of it that are not looked at.
   * @param key the key of a mark in metadata.
   */
  public static List<String> used(LogicalPlan plan, List<LogicalPlan> inputs, String key) {
    MarkedColumns columns = new MarkedColumns(key, inputs);
    columns.visit(plan);
    return new ArrayList<>(columns.used);
  }

  private void visit(LogicalPlan plan) {
    if (inputs.stream().anyMatch(input -> input.fastEquals(plan))) {
      return;
    }
    if (plan instanceof Project project) {
      for (NamedExpression each : CollectionConverters.asJava(project.projectList())) {
        select((Expression) each, each.metadata());
      }
    } else if (plan instanceof Union union) {
      unite(union);
    } else if (PASSING.contains(plan.getClass())) {
      for (Expression each : CollectionConverters.asJava(plan.expressions())) {
        read(each);
      }
    } else {
      // What Spark hands to a function, say, or compares as a whole.
      for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
        CollectionConverters.asJava(child.output()).forEach(this::read);
      }
    }
    CollectionConverters.asJava(plan.children()).forEach(this::visit);
  }

  private void select(Expression expression, Metadata as) {
    Expression column = expression instanceof Alias alias ? alias.child() : expression;
    boolean marked = isField(column) && (metadata(column).contains(key) == as.contains(key));
    if (!marked) {
      read(column);
    }
  }

  /** A union has the marks of its first input. */
  private void unite(Union union) {
    for (int column = 0; column < union.output().size(); column++) {
      List<Attribute> same = new ArrayList<>();
      for (LogicalPlan child : CollectionConverters.asJava(union.children())) {
        same.add(child.output().apply(column));
      }
      boolean alike = same.stream().map(each -> meaning(each.metadata())).distinct().count() == 1;
      if (!alike || same.get(0).dataType() instanceof StructType) {
        same.forEach(this::read);
      }
    }
  }

  private String meaning(Metadata metadata) {
    if (!metadata.contains(key)) {
      return "";
    }
    Metadata mark = metadata.getMetadata(key);
    return mark.getBoolean("asNull") + mark.getString("placeholder");
  }

  private void read(Expression expression) {
    if (isField(expression)) {
      add(metadata(expression), expression.dataType());
    } else {
      CollectionConverters.asJava(expression.children()).forEach(this::read);
    }
  }

  private void add(Metadata metadata, DataType type) {
    if (metadata.contains(key)) {
      used.add(metadata.getMetadata(key).json());
    }
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        add(field.metadata(), field.dataType());
      }
    }
  }

  /** Returns whether an expression is a column, or a field of one. */
  private static boolean isField(Expression expression) {
    return expression instanceof Attribute || expression instanceof GetStructField field && isField(field.child());
  }

  private static Metadata metadata(Expression field) {
    return field instanceof Attribute column ? column.metadata() : ((GetStructField) field).metadata();
  }
}
