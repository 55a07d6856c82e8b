"""Reviews as the API server sends them, and a certificate to answer them with."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Object = dict[str, Any]

VALID: Object = {
    "job": {
        "sources": [{"name": "numbers", "format": "rate"}],
        "operators": [{"name": "odd", "inputs": ["numbers"], "sql": "SELECT * FROM numbers WHERE value % 2 = 1"}],
        "sinks": [{"name": "out", "input": "odd", "format": "console"}],
    },
    "checkpointing": {"location": "s3://bucket/snapshots"},
    "suspend": True,
}
INVALID: Object = {**VALID, "savepoints": {"schedule": "0 0 31 2 *"}}


def review(
    spec: Object | None,
    before: Object | None = None,
    *,
    operation: str | None = None,
    metadata: Object | None = None,
    **request: Any,
) -> Object:
    """Return the review of a StreamJob that is created, or changed if it was there before."""
    meta = {"name": "a", "namespace": "jobs", **(metadata or {})}
    asked = {
        "uid": "u-1",
        "kind": {"group": "streamjob.io", "version": "v1alpha1", "kind": "StreamJob"},
        "operation": operation or ("CREATE" if before is None else "UPDATE"),
        "name": "a",
        "namespace": "jobs",
        "object": None if spec is None else {"metadata": meta, "spec": spec},
        "oldObject": None if before is None else {"metadata": meta, "spec": before},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def body(*arguments: Any, **named: Any) -> bytes:
    """Return the same as the body of a request."""
    return json.dumps(review(*arguments, **named)).encode()


def write_certificate(directory: Path, address: str = "127.0.0.1") -> str:
    """Write `tls.crt` and `tls.key` for an address, and return the certificate in PEM, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(Encoding.PEM).decode()
    directory.mkdir(exist_ok=True)
    # Renamed, so that a reader sees all of a file, as in a Secret's volume.
    for file, content in (
        ("tls.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()),
        ("tls.crt", text),
    ):
        (directory / f"{file}.new").write_text(content)
        (directory / f"{file}.new").replace(directory / file)
    return text


def trusting(certificate: str) -> ssl.SSLContext:
    """Return the context of a client that trusts one certificate."""
    return ssl.create_default_context(cadata=certificate)
