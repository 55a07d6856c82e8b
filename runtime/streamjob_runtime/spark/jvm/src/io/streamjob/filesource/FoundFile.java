package io.streamjob.filesource;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * A file that a listing has found.
 *
 * @param line the JSON of it, as an entry of the source's log has it.
 * @param status what Spark asks about it, so that Spark lists nothing.
 * @param root the directory above those of partitions; null for that of all files.
 * @param directory the one that names its partitions; of a file of a table, it does not exist.
 * @param group a batch has files of one group.
 * @param error why nothing can read it; null if it is whole, or was not checked.
 */
record FoundFile(String line, FileStatus status, Path root, Path directory, String group, String error)
    implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long BLOCK = 32L << 20;

  static FoundFile of(String line) {
    try {
      JsonNode file = JSON.readTree(line);
      Path path = path(file.get("path").textValue());
      JsonNode root = file.get("root");
      JsonNode directory = file.get("directory");
      return new FoundFile(
          line,
          new FileStatus(file.get("size").longValue(), false, 1, BLOCK, file.get("modified").longValue(), path),
          root == null ? null : path(root.textValue()),
          directory == null ? path.getParent() : path(directory.textValue()),
          file.path("group").asText(),
          file.path("error").textValue());
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("No file: " + line, error);
    }
  }

  /** Returns the file as one that nothing can read. */
  FoundFile damaged(String error) throws JsonProcessingException {
    return of(((ObjectNode) JSON.readTree(line)).put("error", error).toString());
  }

  /** Returns the path of a URI, or of a local file, whose name may have a colon. */
  static Path path(String uri) {
    return uri.startsWith("/") ? new Path("file", null, uri) : new Path(uri);
  }

  /** Returns whether Hadoop cannot read the file and its checksum: it would take what is before the colon for a scheme. */
  boolean hasColon() {
    return status.getPath().getName().indexOf(':') >= 0;
  }

  long size() {
    return status.getLen();
  }

  /** Returns its time in ms since 1970. */
  long modified() {
    return status.getModificationTime();
  }
}
