package io.streamjob.records;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLContext;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * A client of a schema registry with Confluent's interface. Its options are named like those of Confluent's clients.
 *
 * <p>Schemas by id never change, so each process asks for one once.
 */
public final class SchemaRegistry implements Serializable {
  private static final long serialVersionUID = 1;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String MEDIA_TYPE = "application/vnd.schemaregistry.v1+json";
  public static final String AVRO = "AVRO";
  public static final String PROTOBUF = "PROTOBUF";
  private static final long LONGEST_PAUSE_MILLISECONDS = 5_000;
  /** For that long an id that the registry did not know is not asked for again. */
  private static final long ASK_AGAIN_NANOSECONDS = Duration.ofSeconds(30).toNanos();

  private static final Map<Map<String, String>, Connection> CONNECTIONS = new ConcurrentHashMap<>();

  private final HashMap<String, String> options;

  /** A schema that a registry has: its id, its version in the subject that was asked for, and its text. */
  public record Registered(int id, int version, String type, String schema, List<Reference> references) {}

  /** A schema that another one refers to by a name. */
  public record Reference(String name, String subject, int version) {}

  /** A registry could not be asked. */
  public static final class Unavailable extends RuntimeException {
    private static final long serialVersionUID = 1;

    Unavailable(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** A registry answered with an error, which has a status of HTTP. */
  public static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;

    Refused(int status, String message) {
      super(message);
      this.status = status;
    }

    public int status() {
      return status;
    }
  }

  private record Connection(HttpClient client, Map<Integer, Registered> byId, Map<Integer, Long> unknown) {}

  /** Takes the options, with `url`: one, or several separated by commas, which are asked in turn. */
  public SchemaRegistry(Map<String, String> options) {
    this.options = new HashMap<>(options);
  }

  /** Returns a version of a subject, or the one that is the latest now. */
  public Registered version(String subject, String version) {
    JsonNode found = ask("GET", "/subjects/" + encoded(subject) + "/versions/" + encoded(version), null);
    return registered(found, found.path("id").asInt());
  }

  /** Returns the schema with an id; empty if the registry has none. */
  public Optional<Registered> byId(int id) {
    Connection connection = connection();
    Registered known = connection.byId.get(id);
    if (known != null) {
      return Optional.of(known);
    }
    Long missed = connection.unknown.get(id);
    if (missed != null && System.nanoTime() - missed < ASK_AGAIN_NANOSECONDS) {
      return Optional.empty();
    }
    try {
      Registered found = registered(ask("GET", "/schemas/ids/" + id, null), id);
      connection.byId.put(id, found);
      return Optional.of(found);
    } catch (Refused refused) {
      if (refused.status != 404) {
        throw refused;
      }
      connection.unknown.put(id, System.nanoTime());
      return Optional.empty();
    }
  }

  /**
   * Returns the id of a schema in a subject; its type is `AVRO` or `PROTOBUF`. Throws Refused, with the status 404 if the
   * subject lacks it.
   */
  public int idOf(String subject, String type, String schema) {
    return ask("POST", "/subjects/" + encoded(subject), body(type, schema)).path("id").asInt();
  }

  /** Adds a schema to a subject, if it lacks it; returns its id. */
  public int register(String subject, String type, String schema) {
    return ask("POST", "/subjects/" + encoded(subject) + "/versions", body(type, schema)).path("id").asInt();
  }

  /** Returns why a subject would not take a schema; an empty text if it would. */
  public String incompatibility(String subject, String type, String schema) {
    try {
      String path = "/compatibility/subjects/" + encoded(subject) + "/versions/latest?verbose=true";
      JsonNode found = ask("POST", path, body(type, schema));
      if (found.path("is_compatible").asBoolean(true)) {
        return "";
      }
      List<String> messages = new ArrayList<>();
      found.path("messages").forEach(each -> messages.add(each.isTextual() ? each.asText() : each.toString()));
      return messages.isEmpty() ? "it is not compatible with the latest version" : String.join("; ", messages);
    } catch (Refused refused) {
      if (refused.status == 404) {
        return "";
      }
      throw refused;
    }
  }

  /** Clients with the same options ask the same registry. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SchemaRegistry registry && registry.options.equals(options);
  }

  @Override
  public int hashCode() {
    return options.hashCode();
  }

  /** Never shows a secret: Spark prints it with the plan. */
  @Override
  public String toString() {
    return "registry " + String.join(",", urls());
  }

  private List<String> urls() {
    List<String> found = new ArrayList<>();
    for (String each : options.getOrDefault("url", "").split(",")) {
      if (!each.isBlank()) {
        found.add(each.strip().replaceAll("/+$", ""));
      }
    }
    return found;
  }

  private JsonNode ask(String method, String path, String body) {
    int retries = number("max.retries", 3);
    for (int attempt = 0; ; attempt++) {
      RuntimeException failure = null;
      for (String url : urls()) {
        try {
          return answer(url, method, path, body);
        } catch (Unavailable unavailable) {
          failure = unavailable;
        } catch (Refused refused) {
          if (refused.status < 500 && refused.status != 429 && refused.status != 408) {
            throw refused;
          }
          failure = refused;
        }
      }
      if (failure == null) {
        throw new Unavailable("it has no URL", null);
      }
      if (attempt >= retries) {
        throw failure;
      }
      pause(Math.min(LONGEST_PAUSE_MILLISECONDS, 100L << Math.min(attempt, 10)));
    }
  }

  private JsonNode answer(String url, String method, String path, String body) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(url + path))
            .timeout(Duration.ofMillis(number("http.read.timeout.ms", 10_000)))
            .header("Accept", MEDIA_TYPE + ", application/json")
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
    if (body != null) {
      request.header("Content-Type", MEDIA_TYPE);
    }
    String login = options.get("basic.auth.user.info");
    String token = options.get("bearer.auth.token");
    if (login != null) {
      String coded = Base64.getEncoder().encodeToString(login.getBytes(StandardCharsets.UTF_8));
      request.header("Authorization", "Basic " + coded);
    } else if (token != null) {
      request.header("Authorization", "Bearer " + token);
    }
    HttpResponse<String> response;
    try {
      response = connection().client.send(request.build(), BodyHandlers.ofString());
    } catch (IOException error) {
      throw new Unavailable(url + ": " + reason(error), error);
    } catch (InterruptedException interrupted) {
      throw interrupted(interrupted);
    }
    int status = response.statusCode();
    JsonNode answer = read(response.body());
    if (status < 200 || status >= 300) {
      String message = answer.path("message").asText(answer.path("title").asText("HTTP " + status));
      throw new Refused(status, url + ": " + message);
    }
    if (!answer.isContainerNode()) {
      throw new Unavailable(url + ": its answer is not JSON, so it is not a schema registry", null);
    }
    return answer;
  }

  private Connection connection() {
    return CONNECTIONS.computeIfAbsent(
        options, all -> new Connection(client(), new ConcurrentHashMap<>(), new ConcurrentHashMap<>()));
  }

  private HttpClient client() {
    HttpClient.Builder builder =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NORMAL)
            .connectTimeout(Duration.ofMillis(number("http.connect.timeout.ms", 5_000)));
    Map<String, String> ssl = new HashMap<>(options);
    ssl.keySet().removeIf(name -> !name.startsWith("ssl."));
    if (!ssl.isEmpty()) {
      try {
        builder.sslContext(context(ssl));
      } catch (RuntimeException error) {
        throw new Unavailable("its ssl options cannot be used: " + reason(error), error);
      }
    }
    return builder.build();
  }

  private static SSLContext context(Map<String, String> ssl) {
    ConfigDef definition = new ConfigDef();
    SslConfigs.addClientSslSupport(definition);
    try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
      factory.configure(definition.parse(ssl));
      return factory.sslContext();
    }
  }

  private int number(String option, int otherwise) {
    String given = options.get(option);
    return given == null ? otherwise : Integer.parseInt(given.strip());
  }

  private static Registered registered(JsonNode found, int id) {
    List<Reference> references = new ArrayList<>();
    for (JsonNode each : found.path("references")) {
      references.add(
          new Reference(each.path("name").asText(), each.path("subject").asText(), each.path("version").asInt()));
    }
    String type = found.path("schemaType").asText(AVRO);
    return new Registered(id, found.path("version").asInt(), type, found.path("schema").asText(), references);
  }

  private static String body(String type, String schema) {
    ObjectNode body = JSON.createObjectNode();
    if (!type.equals(AVRO)) {
      // Registries from before the others know no such field.
      body.put("schemaType", type);
    }
    body.put("schema", schema);
    return body.toString();
  }

  private static JsonNode read(String text) {
    try {
      return JSON.readTree(text);
    } catch (IOException error) {
      return JSON.missingNode();
    }
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private static void pause(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      throw interrupted(interrupted);
    }
  }

  /** Returns an error that Spark takes for the end of a query that is stopped. */
  private static RuntimeException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    IOException error = new java.io.InterruptedIOException("stopped");
    error.initCause(cause);
    return new UncheckedIOException(error);
  }

  private static String reason(Throwable error) {
    Throwable telling = error;
    for (Throwable each = error; each != null; each = each.getCause()) {
      telling = each.getMessage() == null ? telling : each;
    }
    String name = telling.getClass().getSimpleName();
    return telling.getMessage() == null ? name : name + ": " + telling.getMessage().replaceAll("\\s+", " ");
  }
}
