"""The client of a schema registry: credentials, retries, several URLs, certificates; secrets stay out of messages."""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.servers.process import LOOPBACK, free_port

from streamjob_runtime.kafka.schemas import RegistryRefuses, RegistryUnreachable, SchemaMissing, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WHO = "Source 'orders'"
ANSWER = (200, {"id": 7, "version": 1, "schema": '"long"'})
SCHEMA = (7, '"long"')


class Recorded(ThreadingHTTPServer):
    """Gives answers in their order, the last one again and again, and keeps the credentials of each request."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__((LOOPBACK, 0), Answering)
        self.answers = list(answers)
        self.credentials: list[str | None] = []


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Recorded)
        server.credentials.append(self.headers.get("Authorization"))
        status, body = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def answering(*answers: tuple[int, dict[str, Any]], tls: ssl.SSLContext | None = None) -> Iterator[Recorded]:
    with Recorded(*(answers or (ANSWER,))) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(spark: SparkSession, url: str, **options: str) -> tuple[int, str]:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return SchemaRegistry(spark, WHO, {"url": url, **named}).schema("orders-value", "latest")


def url_of(server: Recorded, scheme: str = "http") -> str:
    return f"{scheme}://{LOOPBACK}:{server.server_address[1]}"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, None),
        ({"basic_auth_user_info": "me:word"}, "Basic bWU6d29yZA=="),
        ({"bearer_auth_token": "badge"}, "Bearer badge"),
    ],
    ids=["none", "basic", "bearer"],
)
def test_credentials_are_sent(spark: SparkSession, options: dict[str, str], sent: str | None) -> None:
    with answering() as server:
        assert ask(spark, url_of(server), **options) == SCHEMA

    assert server.credentials == [sent]


def test_credentials_that_are_refused_are_not_shown_and_not_tried_again(spark: SparkSession) -> None:
    answer = (401, {"error_code": 401, "message": "no user me with me:word"})
    with answering(answer) as server, pytest.raises(RegistryRefuses, match="HTTP 401") as refused:
        ask(spark, url_of(server), basic_auth_user_info="me:word")

    assert "word" not in str(refused.value)
    assert len(server.credentials) == 1


def test_a_registry_that_fails_for_a_while_is_asked_again_and_another_one_meanwhile(spark: SparkSession) -> None:
    busy = (503, {"message": "busy"})
    with answering(busy, busy, ANSWER) as server:
        assert ask(spark, url_of(server)) == SCHEMA
        assert ask(spark, f"http://{LOOPBACK}:{free_port()},{url_of(server)}", max_retries="0") == SCHEMA
    with answering(busy) as server:
        with pytest.raises(RegistryUnreachable, match="busy"):
            ask(spark, url_of(server), max_retries="2")
        assert len(server.credentials) == 3


def test_a_subject_that_a_registry_lacks_is_named(spark: SparkSession) -> None:
    with (
        answering((404, {"title": "nothing here"})) as server,
        pytest.raises(SchemaMissing, match="does not have the subject 'orders-value'"),
    ):
        ask(spark, url_of(server))


def test_a_registry_may_want_a_certificate(spark: SparkSession, tmp_path: Path) -> None:
    authority, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority, key)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority)
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + authority.read_text())
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(authority)}
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(both)}
    with answering(tls=tls) as server:
        assert ask(spark, url_of(server, "https"), **trust, **own) == SCHEMA
        with pytest.raises(RegistryUnreachable):
            ask(spark, url_of(server, "https"), **trust, max_retries="0")
        with pytest.raises(RegistryUnreachable, match=r"certificat|PKIX"):
            ask(spark, url_of(server, "https"), **own, max_retries="0")


def certificate(directory: Path) -> tuple[Path, Path]:
    """Return the files of a certificate that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "ca.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private
