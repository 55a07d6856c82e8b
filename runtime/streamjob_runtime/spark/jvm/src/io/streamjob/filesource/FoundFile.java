package io.streamjob.filesource;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * A file that a listing has found.
 *
 * @param line the JSON of it, as an entry of the source's log has it.
 * @param status what Spark asks about it, so that Spark lists nothing.
 * @param root the directory above those of partitions; null for that of all files.
 * @param values the columns that the file does not have, as texts.
 */
record FoundFile(String line, FileStatus status, Path root, Map<String, String> values) {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long BLOCK = 32L << 20;

  static FoundFile of(String line) {
    try {
      JsonNode file = JSON.readTree(line);
      Path path = new Path(file.get("path").textValue());
      JsonNode root = file.get("root");
      Map<String, String> values = new HashMap<>();
      file.path("values").properties().forEach(each -> values.put(each.getKey(), each.getValue().textValue()));
      return new FoundFile(
          line,
          new FileStatus(file.get("size").longValue(), false, 1, BLOCK, file.get("modified").longValue(), path),
          root == null ? null : new Path(root.textValue()),
          values);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("No file: " + line, error);
    }
  }

  long size() {
    return status.getLen();
  }
}
