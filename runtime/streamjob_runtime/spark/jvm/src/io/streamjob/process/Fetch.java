package io.streamjob.process;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.apache.ivy.Main;

/**
 * Ivy's command line, trusting the authorities of {@code SSL_CERT_FILE} in addition to those of Java.
 *
 * <p>Every other program of an installation is told its authorities by that variable; Java alone has never heard of it.
 */
public final class Fetch {
  private Fetch() {}

  public static void main(String[] arguments) throws Exception {
    String bundle = System.getenv("SSL_CERT_FILE");
    if (bundle != null && !bundle.isEmpty() && Files.isReadable(Path.of(bundle))) {
      trust(Path.of(bundle));
    }
    Main.main(arguments);
  }

  private static void trust(Path bundle) throws Exception {
    List<Certificate> authorities = new ArrayList<>();
    for (TrustManager manager : managers(null)) {
      if (manager instanceof X509TrustManager known) {
        authorities.addAll(List.of(known.getAcceptedIssuers()));
      }
    }
    try (InputStream content = Files.newInputStream(bundle)) {
      authorities.addAll(CertificateFactory.getInstance("X.509").generateCertificates(content));
    }
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    for (Certificate authority : authorities) {
      store.setCertificateEntry(Integer.toString(store.size()), authority);
    }
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers(store), null);
    HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory());
  }

  private static TrustManager[] managers(KeyStore store) throws Exception {
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }
}
