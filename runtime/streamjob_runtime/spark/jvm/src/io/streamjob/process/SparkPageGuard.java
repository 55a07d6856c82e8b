package io.streamjob.process;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/** Lets only the control API of the same driver read Spark's page, which has no login of its own. */
public final class SparkPageGuard implements Filter {
  static final String HEADER = "X-Streamjob-Spark-Page";
  static final String VARIABLE = "_STREAMJOB_SPARK_PAGE";

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    String expected = System.getenv(VARIABLE);
    String given = ((HttpServletRequest) request).getHeader(HEADER);
    if (expected == null || expected.isEmpty() || given == null || !same(expected, given)) {
      ((HttpServletResponse) response)
          .sendError(HttpServletResponse.SC_FORBIDDEN, "Open Spark's page from the page of the job: streamjob ui");
      return;
    }
    chain.doFilter(request, response);
  }

  private static boolean same(String one, String other) {
    return MessageDigest.isEqual(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8));
  }
}
