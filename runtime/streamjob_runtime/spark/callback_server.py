"""Ensures that only this process's own Spark can call into its Python.

PySpark's callback server accepts calls from anybody who reaches its port on loopback, including other users of the
machine. The server can require a token, and Spark's side can send one, but py4j forgets the token when PySpark sets the
server's port.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def authenticate_callbacks(session: SparkSession) -> None:
    """Start the callback server with a required token, and give the token to Spark; once per gateway.

    Args:
        session: a session whose gateway has not yet called into Python.
    """
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = session.sparkContext._gateway
    # A gateway answers to any attribute name, by asking Java.
    if gateway.__dict__.get("_callback_server") is not None:
        return
    token = secrets.token_urlsafe(32)
    gateway.callback_server_parameters.auth_token = token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, token)
