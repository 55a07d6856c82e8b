package io.streamjob.filesource;

import io.streamjob.avro.AvroFiles;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.commons.lang3.exception.ExceptionUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.crypto.ParquetCryptoRuntimeException;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.io.HadoopCodecStreams;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.Map;

/**
 * Finds the files that nothing can read. Of Parquet, ORC and Avro it reads the ends. Compressed text it reads as a whole:
 * Spark hands on the rows before the damage.
 */
final class DamagedFiles {
  private static final Set<String> WITH_ENDS = Set.of("parquet", "orc", "avro");
  private static final String STORES = "org.apache.hadoop.fs.";

  private DamagedFiles() {}

  /** Returns files, the damaged ones with their errors. Throws if the store refuses, or does not answer. */
  static List<FoundFile> marked(SparkSession session, String form, Map<String, String> options, List<FoundFile> files) {
    Configuration given = session.sessionState().newHadoopConfWithOptions(options);
    if (files.stream().noneMatch(each -> isChecked(form, each, given))) {
      return files;
    }
    SerializableConfiguration conf = new SerializableConfiguration(given);
    JavaSparkContext spark = JavaSparkContext.fromSparkContext(session.sparkContext());
    return spark
        .parallelize(files, Math.min(files.size(), 4 * spark.defaultParallelism()))
        .map(each -> isChecked(form, each, conf.value()) ? marked(form, each, conf.value()) : each)
        .collect();
  }

  /** Spark passes over empty files, and reads any bytes as lines of text. */
  private static boolean isChecked(String form, FoundFile file, Configuration conf) {
    return file.size() > 0
        && (WITH_ENDS.contains(form)
            || HadoopCodecStreams.getDecompressionCodec(conf, file.status().getPath()).isDefined());
  }

  private static FoundFile marked(String form, FoundFile file, Configuration conf) throws IOException {
    Path path = file.status().getPath();
    try {
      switch (form) {
        case "parquet" ->
            ParquetFileReader.open(
                    HadoopInputFile.fromStatus(file.status(), conf), HadoopReadOptions.builder(conf, path).build())
                .close();
        case "orc" -> OrcFile.createReader(path, OrcFile.readerOptions(conf)).close();
        case "avro" -> AvroFiles.checkEnd(path, conf);
        default -> {
          try (InputStream text = HadoopCodecStreams.createInputStream(conf, path)) {
            text.transferTo(OutputStream.nullOutputStream());
          }
        }
      }
      return file;
    } catch (IOException | RuntimeException error) {
      if (isOfStore(error) || error instanceof ParquetCryptoRuntimeException) {
        throw error;
      }
      return file.damaged(error.getMessage() == null ? error.toString() : error.getMessage().lines().findFirst().get());
    }
  }

  /** Returns whether an error comes from within a call of Hadoop's file systems, and not from a decoder of bytes. */
  private static boolean isOfStore(Throwable error) {
    return ExceptionUtils.getThrowableList(error).stream()
        .flatMap(each -> Arrays.stream(each.getStackTrace()))
        .anyMatch(at -> at.getClassName().startsWith(STORES));
  }
}
