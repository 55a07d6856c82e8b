package io.streamjob.channels;

import io.streamjob.files.JobFiles;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/** Writes a batch into segments, Arrow IPC streams of one record batch each, from the tasks that compute it. */
public final class SegmentWriter {
  private SegmentWriter() {}

  /**
   * Runs the batch, one Spark job, and writes its rows.
   *
   * @param directory where the segments go: each process has a directory of this name, see {@link JobFiles}.
   * @param prefix what their names begin with; with the task's number behind it, no name is used twice.
   * @param records how many rows a segment has at most.
   * @param bytes a segment ends behind the row that reaches this size, as Spark holds rows in memory.
   * @return the segments in the order of the rows, a line each: `name records length executor`, where the driver's
   *     own process is the executor `driver`.
   */
  public static String write(Dataset<Row> frame, String directory, String prefix, int records, long bytes) {
    List<String> segments =
        rows(frame)
            .toJavaRDD()
            .mapPartitionsWithIndex(new Task(frame.schema(), directory, prefix, records, bytes), true)
            .collect();
    return String.join("\n", segments);
  }

  private static RDD<InternalRow> rows(Dataset<Row> frame) {
    QueryExecution execution = frame.queryExecution();
    LogicalPlan plan = execution.withCachedData();
    // foreachBatch gets rows that are computed already: Spark's scan of them would only copy each.
    return plan instanceof LogicalRDD ? ((LogicalRDD) plan).rdd() : execution.toRdd();
  }

  private record Task(StructType schema, String location, String prefix, int records, long bytes)
      implements Function2<Integer, Iterator<InternalRow>, Iterator<String>> {
    @Override
    public Iterator<String> call(Integer partition, Iterator<InternalRow> rows) throws IOException {
      if (!rows.hasNext()) {
        return Collections.emptyIterator();
      }
      Path directory = JobFiles.stream(location);
      String executor = SparkEnv.get().executorId();
      List<String> written = new ArrayList<>();
      boolean complete = false;
      try (BufferAllocator allocator =
              ArrowUtils.rootAllocator().newChildAllocator("segment writer", 0, Long.MAX_VALUE);
          VectorSchemaRoot root =
              VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", false, false, false), allocator)) {
        String name = prefix + "-" + TaskContext.get().taskAttemptId() + "-";
        ArrowWriter writer = ArrowWriter.create(root);
        List<String> result = new ArrayList<>();
        while (rows.hasNext()) {
          int count = fill(writer, rows);
          String segment = name + written.size() + ".arrow";
          written.add(segment);
          result.add(segment + " " + count + " " + save(root, directory, segment) + " " + executor);
          writer.reset();
        }
        complete = true;
        return result.iterator();
      } finally {
        if (!complete) {
          for (String segment : written) {
            Files.deleteIfExists(directory.resolve(segment));
          }
        }
      }
    }

    private int fill(ArrowWriter writer, Iterator<InternalRow> rows) {
      int count = 0;
      long size = 0;
      do {
        InternalRow row = rows.next();
        writer.write(row);
        size += row instanceof UnsafeRow ? ((UnsafeRow) row).getSizeInBytes() : 0;
      } while (++count < records && size < bytes && rows.hasNext());
      writer.finish();
      return count;
    }

    private static long save(VectorSchemaRoot root, Path directory, String segment) throws IOException {
      Path file = directory.resolve(segment);
      Path temporary = directory.resolve("." + segment + ".tmp");
      long length;
      try (FileChannel channel =
              FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
          ArrowStreamWriter out = new ArrowStreamWriter(root, null, channel)) {
        out.start();
        out.writeBatch();
        out.end();
        length = out.bytesWritten();
      } catch (IOException | RuntimeException e) {
        Files.deleteIfExists(temporary);
        throw e;
      }
      Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
      return length;
    }
  }
}
