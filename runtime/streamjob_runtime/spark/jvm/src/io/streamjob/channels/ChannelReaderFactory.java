package io.streamjob.channels;

import io.streamjob.files.JobFiles;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads segments in an executor, if possible in the one that has the files: it needs nothing of the driver's memory. */
final class ChannelReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  /** Segments that one task reads, in their order; all of them are in one place. */
  record Files(String directory, String[] names, String place) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return place.isEmpty() ? new String[0] : new String[] {place};
    }
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader((Files) partition);
  }

  /**
   * Each batch is read into one buffer, and Spark reads a row's values where they lie in it.
   *
   * <p>Spark gets rows, though there are columns: it would hand columns on to Python functions by reference, and keep
   * them there beyond the end of its reader. Of a row it makes one of its own before it asks for the next.
   */
  private static final class Reader implements PartitionReader<InternalRow> {
    private final Files files;
    private final BufferAllocator allocator;
    private int opened;
    private ArrowStreamReader segment;
    private ColumnarBatch batch;
    private int row;

    Reader(Files files) {
      this.files = files;
      allocator = ArrowUtils.rootAllocator().newChildAllocator("channel reader", 0, Long.MAX_VALUE);
    }

    @Override
    public boolean next() throws IOException {
      row++;
      while (batch == null || row >= batch.numRows()) {
        if (!load()) {
          return false;
        }
      }
      return true;
    }

    @Override
    public InternalRow get() {
      return batch.getRow(row);
    }

    @Override
    public void close() throws IOException {
      try {
        closeSegment();
      } finally {
        allocator.close();
      }
    }

    private boolean load() throws IOException {
      while (segment == null || !segment.loadNextBatch()) {
        closeSegment();
        if (opened == files.names().length) {
          return false;
        }
        Path file = JobFiles.segment(files.directory(), files.names()[opened++]);
        segment = new ArrowStreamReader(FileChannel.open(file, StandardOpenOption.READ), allocator);
        batch = columns(segment.getVectorSchemaRoot());
      }
      batch.setNumRows(segment.getVectorSchemaRoot().getRowCount());
      row = 0;
      return true;
    }

    private void closeSegment() throws IOException {
      batch = null;
      if (segment != null) {
        segment.close();
        segment = null;
      }
    }

    private static ColumnarBatch columns(VectorSchemaRoot root) {
      return new ColumnarBatch(
          root.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new));
    }
  }
}
