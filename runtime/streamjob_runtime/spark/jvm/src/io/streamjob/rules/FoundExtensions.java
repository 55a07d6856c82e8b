package io.streamjob.rules;

import java.util.ServiceLoader;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.SimpleFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.util.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Adds the extensions that are on the class path to a session, as Spark does, but MLlib's only when it is used.
 *
 * <p>MLlib's adds three functions, and takes a second of each start for Scala's reflection.
 */
final class FoundExtensions {
  private static final Logger LOG = LoggerFactory.getLogger(FoundExtensions.class);
  private static final String BY_SPARK = "spark.sql.extensions.test.loadFromCp";
  private static final String OF_MLLIB = "org.apache.spark.sql.ml.InternalFunctionRegistration";
  private static final String[] FUNCTIONS = {"vector_to_array", "array_to_vector", "aggregate_metrics"};

  private FoundExtensions() {}

  /** Adds them, unless Spark does it. */
  static void add(SparkSessionExtensions extensions) {
    if (SparkEnv.get().conf().getBoolean(BY_SPARK, true)) {
      return;
    }
    ServiceLoader.load(SparkSessionExtensionsProvider.class, Utils.getContextOrSparkClassLoader()).stream()
        .forEach(found -> add(found, extensions));
  }

  private static void add(
      ServiceLoader.Provider<SparkSessionExtensionsProvider> found, SparkSessionExtensions extensions) {
    if (found.type().getName().equals(OF_MLLIB)) {
      addLater();
      return;
    }
    try {
      found.get().apply(extensions);
    } catch (Throwable error) {
      // As in Spark, the session starts without it.
      LOG.warn("Failed to load session extension {}", found.type().getName(), error);
    }
  }

  private static void addLater() {
    SimpleFunctionRegistry functions = FunctionRegistry$.MODULE$.internal();
    for (String name : FUNCTIONS) {
      if (!functions.functionExists(new FunctionIdentifier(name))) {
        functions.createOrReplaceTempFunction(name, new FirstCall(name), "internal");
      }
    }
  }

  /** Makes MLlib register its functions, and calls the one that was asked for. */
  private static final class FirstCall extends AbstractFunction1<Seq<Expression>, Expression> {
    private final String name;

    FirstCall(String name) {
      this.name = name;
    }

    @Override
    public Expression apply(Seq<Expression> arguments) {
      // The class registers them when it is initialised, which happens once.
      Utils.classForName(OF_MLLIB + "$", true, false);
      return (Expression) FunctionRegistry$.MODULE$.internal().lookupFunction(new FunctionIdentifier(name), arguments);
    }
  }
}
