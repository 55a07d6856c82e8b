package io.streamjob;

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

/** Reads segments in an executor: it needs the files, and nothing of the driver's. */
final class ChannelReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  /** Segments that one task reads, in their order. */
  record Files(String directory, String[] names) implements InputPartition {}

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("A channel is read in columns");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader((Files) partition);
  }

  /** Each batch is read into one buffer, and Spark reads the columns where they lie in it. */
  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final Files files;
    private final BufferAllocator allocator;
    private int opened;
    private ArrowStreamReader segment;
    private ColumnarBatch batch;

    Reader(Files files) {
      this.files = files;
      allocator = ArrowUtils.rootAllocator().newChildAllocator("channel reader", 0, Long.MAX_VALUE);
    }

    @Override
    public boolean next() throws IOException {
      while (segment == null || !segment.loadNextBatch()) {
        closeSegment();
        if (opened == files.names().length) {
          return false;
        }
        Path file = Path.of(files.directory(), files.names()[opened++]);
        segment = new ArrowStreamReader(FileChannel.open(file, StandardOpenOption.READ), allocator);
        batch = columns(segment.getVectorSchemaRoot());
      }
      batch.setNumRows(segment.getVectorSchemaRoot().getRowCount());
      return true;
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public void close() throws IOException {
      try {
        closeSegment();
      } finally {
        allocator.close();
      }
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
