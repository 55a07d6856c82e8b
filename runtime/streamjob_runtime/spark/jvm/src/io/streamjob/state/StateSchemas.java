package io.streamjob.state;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateOperatorProperties;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo;
import org.apache.spark.sql.execution.streaming.state.InMemoryStateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.OperatorStateMetadata;
import org.apache.spark.sql.execution.streaming.state.OperatorStateMetadataV2;
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor;
import org.apache.spark.sql.execution.streaming.state.StatePartitionWriterColumnFamilyInfo;
import org.apache.spark.sql.execution.streaming.state.StateSchemaMetadata;
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreMetadata;
import org.apache.spark.sql.execution.streaming.state.StateStoreMetadataV2;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** The schemas of the state stores of a stopped query, as Spark has described them in its checkpoint. */
final class StateSchemas {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String VARIABLES = "transformWithState";
  private static final String SCHEMAS = "/_stateSchema/";
  private static final int JOIN_FORMAT = 2;

  private final Configuration hadoop;
  private final String root;
  private final OperatorStateMetadata operator;

  private StateSchemas(Configuration hadoop, String checkpoint, OperatorStateMetadata operator) {
    this.hadoop = hadoop;
    this.root = new Path(checkpoint, "state").toString();
    this.operator = operator;
  }

  /** Returns the stateful operators of a checkpoint, as of a batch. */
  static List<StateSchemas> of(SparkSession session, String checkpoint, long batch) {
    Configuration hadoop = session.sessionState().newHadoopConf();
    List<StateSchemas> found = new ArrayList<>();
    for (OperatorStateMetadata each :
        new StateMetadataPartitionReader(checkpoint, new SerializableConfiguration(hadoop), batch)
            .allOperatorStateMetadata()) {
      found.add(new StateSchemas(hadoop, checkpoint, each));
    }
    return found;
  }

  /** Returns one stateful operator of a checkpoint, as of a batch. */
  static StateSchemas of(SparkSession session, String checkpoint, long batch, long number) {
    return of(session, checkpoint, batch).stream()
        .filter(each -> each.number() == number)
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("no operator " + number + " in " + checkpoint));
  }

  long number() {
    return operator.operatorInfo().operatorId();
  }

  /** Returns the stores and column families of the operator as JSON, with the schemas of keys and values. */
  ObjectNode describe() {
    ObjectNode described = JSON.createObjectNode();
    described.put("number", number());
    described.put("name", operator.operatorInfo().operatorName());
    ArrayNode families = described.putArray("families");
    for (StateStoreMetadata store : CollectionConverters.asJava(operator.stateStoresMetadata())) {
      for (Map.Entry<String, StatePartitionWriterColumnFamilyInfo> each : families(store.storeName()).entrySet()) {
        ObjectNode family = families.addObject().put("store", store.storeName()).put("name", each.getKey());
        columns(family.putArray("key"), each.getValue().schema().keySchema());
        columns(family.putArray("value"), each.getValue().schema().valueSchema());
        family.put("many", each.getValue().useMultipleValuesPerKey());
      }
    }
    return described;
  }

  private static void columns(ArrayNode described, StructType schema) {
    for (StructField each : schema.fields()) {
      described.addObject().put("name", each.name()).put("type", each.dataType().catalogString());
    }
  }

  /** Returns what decodes the rows of a store whose families have versions of their schemas. */
  Option<StateSchemaProvider> provider(String store) {
    if (!operator.operatorInfo().operatorName().startsWith(VARIABLES)) {
      return Option.empty();
    }
    scala.collection.immutable.List<String> files = CollectionConverters.asScala(files(store(store))).toList();
    return Option.apply(
        new InMemoryStateSchemaProvider(StateSchemaMetadata.createStateSchemaMetadata(root, hadoop, files)));
  }

  /** Makes what takes from the keys of a family the part that decides about their partition; tasks take it along. */
  interface Placing extends Serializable {
    StatePartitionKeyExtractor extractor();
  }

  /** Returns how a family is divided into partitions. */
  Placing placing(String store, String family) {
    String name = operator.operatorInfo().operatorName();
    StructType key = families(store).get(family).schema().keySchema();
    var variable = variables().get(StateStoreColumnFamilySchemaUtils.getBaseStateName(family));
    return () ->
        StatePartitionKeyExtractorFactory.create(
            name, key, store, family, Option.apply((Object) JOIN_FORMAT), Option.apply(variable));
  }

  private StateStoreMetadata store(String name) {
    return CollectionConverters.asJava(operator.stateStoresMetadata()).stream()
        .filter(each -> each.storeName().equals(name))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("no store " + name));
  }

  /** Returns the column families of a store, by name. */
  Map<String, StatePartitionWriterColumnFamilyInfo> families(String name) {
    StateStoreMetadata store = store(name);
    Map<String, TransformWithStateVariableInfo> variables = variables();
    Map<String, StatePartitionWriterColumnFamilyInfo> found = new TreeMap<>();
    List<Path> files = files(store).stream().map(Path::new).toList();
    for (StateStoreColFamilySchema each : StateCopy.schemas(root, number(), name, hadoop, files)) {
      TransformWithStateVariableInfo variable = variables.get(each.colFamilyName());
      boolean many = variable != null && variable.stateVariableType().toString().equals("ListState");
      found.put(each.colFamilyName(), new StatePartitionWriterColumnFamilyInfo(withKeys(each, store), many));
    }
    return found;
  }

  /** Returns the schema files of a store, where they are in this checkpoint; none if it has a file of a fixed name. */
  private List<String> files(StateStoreMetadata store) {
    List<String> files = new ArrayList<>();
    if (store instanceof StateStoreMetadataV2 versioned) {
      for (String each : CollectionConverters.asJava(versioned.stateSchemaFilePaths())) {
        files.add(root + "/" + number() + each.substring(each.lastIndexOf(SCHEMAS)));
      }
    }
    return files;
  }

  private static StateStoreColFamilySchema withKeys(StateStoreColFamilySchema schema, StateStoreMetadata store) {
    if (schema.keyStateEncoderSpec().isDefined()) {
      return schema;
    }
    return schema.copy(
        schema.colFamilyName(),
        schema.keySchemaId(),
        schema.keySchema(),
        schema.valueSchemaId(),
        schema.valueSchema(),
        Option.apply(StateCopy.keys(schema.keySchema(), store.numColsPrefixKey())),
        schema.userKeyEncoderSchema());
  }

  private Map<String, TransformWithStateVariableInfo> variables() {
    Map<String, TransformWithStateVariableInfo> found = new TreeMap<>();
    if (operator instanceof OperatorStateMetadataV2 versioned && !versioned.operatorPropertiesJson().isEmpty()) {
      for (TransformWithStateVariableInfo each :
          CollectionConverters.asJava(
              TransformWithStateOperatorProperties.fromJson(versioned.operatorPropertiesJson()).stateVariables())) {
        found.put(each.stateName(), each);
      }
    }
    return found;
  }
}
