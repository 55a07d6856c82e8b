package io.streamjob.process;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The Python process that started this executor, asked through a Unix socket: a line each way, `<number> <verb> <path>`
 * and `<number> ok` or `<number> error <why>`. It may ask for a profile: `* profile <milliseconds> <file>`.
 *
 * <p>The two are one unit: this process ends when the other does.
 */
public final class Agent {
  private static final int GONE = 70;

  private final BufferedWriter out;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<String, CompletableFuture<Void>> asked = new ConcurrentHashMap<>();

  public Agent(Path socket) throws IOException {
    SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
    channel.connect(UnixDomainSocketAddress.of(socket));
    // Streams of java.nio.channels.Channels share a lock, so that a waiting reader would block the writer.
    out = new BufferedWriter(new OutputStreamWriter(new ChannelOutput(channel), StandardCharsets.UTF_8));
    BufferedReader in = new BufferedReader(new InputStreamReader(new ChannelInput(channel), StandardCharsets.UTF_8));
    Thread reader = new Thread(() -> read(in), "streamjob-agent");
    reader.setDaemon(true);
    reader.start();
  }

  private void read(BufferedReader in) {
    try {
      for (String line; (line = in.readLine()) != null; ) {
        if (line.startsWith("* profile ")) {
          String[] asked = line.split(" ", 4);
          profile(Long.parseLong(asked[2]), Path.of(asked[3]));
          continue;
        }
        String[] parts = line.split(" ", 3);
        CompletableFuture<Void> answer = asked.remove(parts[0]);
        if (answer != null && parts[1].equals("ok")) {
          answer.complete(null);
        } else if (answer != null) {
          answer.completeExceptionally(new FileNotFoundException(parts.length > 2 ? parts[2] : "no reason given"));
        }
      }
    } catch (IOException e) {
      // It has ended, as below.
    }
    Runtime.getRuntime().halt(GONE);
  }

  /** Records a profile in a thread of its own, writes it to a file, and says so. */
  private void profile(long millis, Path file) {
    Thread recorder =
        new Thread(
            () -> {
              try {
                Files.writeString(file, Profiler.record(millis));
                ask("profiled", file.toString());
              } catch (Exception | LinkageError e) {
                ask("unprofiled", e.toString().replaceAll("\\s+", " "));
              }
            },
            "streamjob-profile");
    recorder.setDaemon(true);
    recorder.start();
  }

  /** Asks for something, and waits until it is done. */
  public void ask(String verb, String path) {
    String number = Long.toString(numbers.incrementAndGet());
    CompletableFuture<Void> answer = new CompletableFuture<>();
    asked.put(number, answer);
    try {
      synchronized (out) {
        out.write(number + " " + verb + " " + path + "\n");
        out.flush();
      }
      answer.get();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (ExecutionException e) {
      throw new UncheckedIOException((FileNotFoundException) e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("Interrupted while " + path + " was brought here", e);
    } finally {
      asked.remove(number);
    }
  }

  private static final class ChannelInput extends java.io.InputStream {
    private final SocketChannel channel;

    ChannelInput(SocketChannel channel) {
      this.channel = channel;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
      return channel.read(java.nio.ByteBuffer.wrap(bytes, offset, length));
    }
  }

  private static final class ChannelOutput extends java.io.OutputStream {
    private final SocketChannel channel;

    ChannelOutput(SocketChannel channel) {
      this.channel = channel;
    }

    @Override
    public void write(int b) throws IOException {
      write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      java.nio.ByteBuffer buffer = java.nio.ByteBuffer.wrap(bytes, offset, length);
      while (buffer.hasRemaining()) {
        channel.write(buffer);
      }
    }
  }
}
