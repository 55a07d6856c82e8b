package io.streamjob.changes;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.jdk.javaapi.CollectionConverters;

/** Finds how a plan treats rows that are changes of other rows, which Spark takes for rows like any other. */
public final class Changes {
  private Changes() {}

  /**
   * Returns what Spark would compute wrongly in a plan on streams of changes: {@code aggregation}, {@code deduplication},
   * {@code join} or {@code limit}; null if there is nothing.
   *
   * <p>An aggregation that reads the kind of the changes is its author's own way to count them.
   *
   * @param column the column with the kind of a change.
   */
  public static String miscounted(LogicalPlan plan, String column) {
    for (LogicalPlan child : java(plan.children())) {
      String below = miscounted(child, column);
      if (below != null) {
        return below;
      }
    }
    Attribute kind = null;
    int streams = 0;
    for (LogicalPlan child : java(plan.children())) {
      if (child.isStreaming()) {
        streams++;
        kind = kind == null ? find(child, column) : kind;
      }
    }
    if (kind == null) {
      return null;
    }
    if (plan instanceof Aggregate) {
      return plan.references().contains(kind) ? null : "aggregation";
    }
    if (plan instanceof Distinct || plan instanceof Deduplicate || plan instanceof DeduplicateWithinWatermark) {
      return "deduplication";
    }
    if (plan instanceof Join) {
      return streams > 1 ? "join" : null;
    }
    return plan instanceof GlobalLimit ? "limit" : null;
  }

  /**
   * Returns whether a plan forgets that the rows of an input are changes: it drops the column, and never reads it.
   *
   * @param input a plan that the plan contains.
   * @param column the column with the kind of a change; the input has it.
   */
  public static boolean forgets(LogicalPlan plan, LogicalPlan input, String column) {
    Attribute kind = find(input, column);
    return kind != null && !plan.outputSet().contains(kind) && drops(plan, kind) && !reads(plan, kind);
  }

  private static boolean drops(LogicalPlan plan, Attribute kind) {
    if (plan instanceof Project || plan instanceof Aggregate) {
      if (!plan.outputSet().contains(kind) && java(plan.children()).get(0).outputSet().contains(kind)) {
        return true;
      }
    }
    return java(plan.children()).stream().anyMatch(child -> drops(child, kind));
  }

  private static boolean reads(LogicalPlan plan, Attribute kind) {
    if (plan.children().isEmpty() || plan.producedAttributes().contains(kind)) {
      return false; // It names the columns that it makes, and reads none of them.
    }
    for (Expression expression : CollectionConverters.asJava(plan.expressions())) {
      boolean passes = plan instanceof Project && expression instanceof Attribute;
      AttributeSet used = expression.references();
      if (!passes && used.contains(kind)) {
        return true;
      }
    }
    return java(plan.children()).stream().anyMatch(child -> reads(child, kind));
  }

  private static Attribute find(LogicalPlan plan, String column) {
    for (Attribute each : CollectionConverters.asJava(plan.output())) {
      if (each.name().equalsIgnoreCase(column)) {
        return each;
      }
    }
    return null;
  }

  private static List<LogicalPlan> java(scala.collection.immutable.Seq<LogicalPlan> children) {
    return new ArrayList<>(CollectionConverters.asJava(children));
  }
}
