package io.streamjob.kafka;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces staged records in transactions; one call at a time, but for {@link #close}. */
public final class KafkaPublisher implements AutoCloseable {
  private final KafkaProducer<byte[], byte[]> producer;
  private final AtomicReference<SendFailed> failure = new AtomicReference<>();

  /** A record could not be sent to its topic. */
  public static final class SendFailed extends Exception {
    private static final long serialVersionUID = 1;

    private SendFailed(String topic, Throwable cause) {
      super("topic " + topic, cause);
    }
  }

  /** Makes the producer. */
  public KafkaPublisher(Map<String, String> settings) {
    producer =
        KafkaClients.make(
            () ->
                new KafkaProducer<>(new HashMap<>(settings), new ByteArraySerializer(), new ByteArraySerializer()));
  }

  /** Fences producers with the same transactional id, and ends their transactions. */
  public void open() {
    producer.initTransactions();
  }

  /** Begins a transaction. */
  public void begin() {
    failure.set(null);
    producer.beginTransaction();
  }

  /** Sends the records of a staged file, and returns how many there are; they may be on their way yet. */
  public long send(String file) throws IOException, SendFailed {
    try {
      return StagedRecords.read(Path.of(file), this::send);
    } catch (Stopped e) {
      throw e.failure;
    }
  }

  /** Sends one record with text; null deletes that of its key. */
  public void send(String topic, int partition, String key, String value) throws SendFailed {
    byte[] name = key.getBytes(StandardCharsets.UTF_8);
    byte[] content = value == null ? null : value.getBytes(StandardCharsets.UTF_8);
    send(new ProducerRecord<>(topic, partition, name, content));
    check();
  }

  /** Waits for all records, and ends the transaction; may be repeated if it did so in doubt. */
  public void commit() throws SendFailed {
    producer.flush();
    check();
    producer.commitTransaction();
  }

  /** Gives the transaction up. */
  public void abort() {
    producer.abortTransaction();
  }

  @Override
  public void close() {
    // The open transaction is given up; there is nothing to wait for.
    producer.close(Duration.ZERO);
  }

  private void send(byte[] topic, int partition, long timestamp, byte[] key, byte[] value, byte[][] headers)
      throws Stopped {
    List<Header> list = new ArrayList<>(headers.length / 2);
    for (int part = 0; part < headers.length; part += 2) {
      list.add(new RecordHeader(new String(headers[part], StandardCharsets.UTF_8), headers[part + 1]));
    }
    try {
      send(
          new ProducerRecord<>(
              new String(topic, StandardCharsets.UTF_8),
              partition == StagedRecords.NONE ? null : partition,
              timestamp == StagedRecords.NO_TIMESTAMP ? null : timestamp,
              key,
              value,
              list));
      check();
    } catch (SendFailed e) {
      throw new Stopped(e);
    }
  }

  private void send(ProducerRecord<byte[], byte[]> record) throws SendFailed {
    String topic = record.topic();
    try {
      producer.send(
          record,
          (metadata, error) -> {
            if (error != null) {
              failure.compareAndSet(null, new SendFailed(topic, error));
            }
          });
    } catch (RuntimeException e) {
      check();
      throw new SendFailed(topic, e);
    }
  }

  private void check() throws SendFailed {
    SendFailed failed = failure.get();
    if (failed != null) {
      throw failed;
    }
  }

  /** Carries a failure out of the reading of a file. */
  private static final class Stopped extends IOException {
    private static final long serialVersionUID = 1;

    private final transient SendFailed failure;

    private Stopped(SendFailed failure) {
      super(failure);
      this.failure = failure;
    }
  }
}
