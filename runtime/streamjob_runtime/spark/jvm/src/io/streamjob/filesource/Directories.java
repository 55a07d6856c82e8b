package io.streamjob.filesource;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** What Hadoop's file systems say about files, as JSON: name, whether it is a directory, bytes, ms since 1970. */
public final class Directories {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Directories() {}

  /** Returns what is in a directory; null if it does not exist. */
  public static String list(SparkSession session, String uri) throws IOException {
    try {
      FileStatus[] all = fileSystem(session, uri).listStatus(new Path(uri));
      return JSON.writeValueAsString(Arrays.stream(all).map(Directories::described).toList());
    } catch (FileNotFoundException | ParentNotDirectoryException error) {
      return null;
    }
  }

  /** Returns what is known of a file; null if it does not exist. */
  public static String status(SparkSession session, String uri) throws IOException {
    try {
      return JSON.writeValueAsString(described(fileSystem(session, uri).getFileStatus(new Path(uri))));
    } catch (FileNotFoundException | ParentNotDirectoryException error) {
      return null;
    }
  }

  /** Returns a URI with its scheme and authority. */
  public static String qualified(SparkSession session, String uri) throws IOException {
    return fileSystem(session, uri).makeQualified(new Path(uri)).toString();
  }

  private static FileSystem fileSystem(SparkSession session, String uri) throws IOException {
    return new Path(uri).getFileSystem(session.sessionState().newHadoopConf());
  }

  private static List<Object> described(FileStatus file) {
    return List.of(file.getPath().getName(), file.isDirectory(), file.getLen(), file.getModificationTime());
  }
}
