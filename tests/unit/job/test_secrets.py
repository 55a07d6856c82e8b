"""Secrets never appear in messages."""

from __future__ import annotations

import pytest

from streamjob.job.connectors.options import is_secret, redacted, secrets_in


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.key",
        "kafka.sasl.jaas.config",
        "catalog.credential",
        "catalog.token",
        "catalog.s3.secret-access-key",
        "storage.AWS_SECRET_ACCESS_KEY",
        "connectionString",
        "spark.cosmos.connection-string",
        "dsn",
        "db.dsn",
        "pwd",
        "userPwd",
        "sas",
        "fs.azure.sas.fixed.token.account.blob.core.windows.net",
        "fs.azure.account.key.account.dfs.core.windows.net",
        "auth",
        "authorization",
        "rest.auth.header",
        "authToken",
        "header.Authorization",
        "header",
        "headers.X-Api",
        "headers",
        "bearer",
        "pem",
        "ssl.privateKeyPem",
        "aws_access_key_id",
        "accessKeyId",
        "cookie",
        "jwt",
        "apiKey",
    ],
)
def test_the_values_of_options_named_for_a_secret_are_secrets(name: str) -> None:
    assert secrets_in({name: "hunter2", "path": "s3://bucket/t", "user": "me"}) == {"hunter2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("header", "true"),
        ("includeHeaders", "FALSE"),
        ("spark.authenticate", "true"),
        ("author", "me"),
        ("authority", "me"),
        ("rest.auth.type", "oauth2"),
        ("kafka.sasl.mechanism", "PLAIN"),
        ("kafka.ssl.keystore.type", "PEM"),
        ("fs.s3a.aws.credentials.provider", "a.b.Provider"),
        ("path", "in"),
        ("keyspace", "a"),
        ("failOnDataLoss", "false"),
        ("dbtable", "tokens"),
    ],
)
def test_options_of_other_names_and_booleans_are_no_secrets(name: str, value: str) -> None:
    assert not is_secret(name, value)
    assert secrets_in({name: value}) == frozenset()


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("postgresql://u:hunt%402@h/d", {"hunt%402", "hunt@2"}),
        ("postgresql://u:hunt@2@h1,h2:5433/d", {"hunt@2"}),
        ("jdbc:postgresql://u:hunter2@h/d", {"hunter2"}),
        ("postgresql://h/d?user=u&password=hunt%402", {"hunt%402", "hunt@2"}),
        ("postgresql://h/d?password=hunt+2&sslmode=require", {"hunt+2", "hunt 2"}),
        ("postgresql://u:one@h/d?sslpassword=two", {"one", "two"}),
        ("jdbc:sqlserver://h;user=u;password=hunter2;encrypt=true", {"hunter2"}),
        ("host=h password='hunter 2' dbname=d", {"hunter 2"}),
        ("postgresql://u@h/d", set()),
        ("postgresql://h/d?user=u", set()),
        ("s3://bucket/path@2", set()),
    ],
)
def test_passwords_within_addresses_are_secrets_as_written_and_as_meant(address: str, secrets: set[str]) -> None:
    assert secrets_in({"anything": address}) == secrets


def test_passwords_within_a_login_configuration_are_secrets_by_themselves() -> None:
    jaas = 'a.LoginModule required username="u" password="hunter2" clientSecret="s3cret";'

    assert secrets_in({"kafka.sasl.jaas.config": jaas}) == {jaas, "hunter2", "s3cret"}


def test_an_empty_password_is_no_secret() -> None:
    assert secrets_in({"password": "", "token": " ", "url": "postgresql://u:@h/d?password="}) == frozenset()


def test_each_secret_is_replaced_wherever_it_is() -> None:
    assert (
        redacted("login of u:hunter2 and again xhunter2y", {"hunter2", "elsewhere"}) == "login of u:*** and again x***y"
    )


def test_a_secret_that_holds_another_one_is_replaced_whole() -> None:
    assert redacted("as hunter2hunter2, hunter2", {"hunter2", "hunter2hunter2"}) == "as ***, ***"


def test_a_secret_of_several_lines_is_found_in_one_line() -> None:
    assert redacted("bad key: BEGIN abc def END.", {"BEGIN abc\n  def\nEND\n"}) == "bad key: ***."


def test_a_short_secret_is_replaced_where_it_stands_by_itself() -> None:
    assert redacted("a table of u:a@host, said 'a'", {"a"}) == "*** table of u:***@host, said '***'"
    assert redacted("a star", {"*", "a"}) == "*** star"


def test_a_text_without_secrets_stays_as_it_is() -> None:
    assert redacted("nothing\n here", frozenset()) == "nothing\n here"
    assert redacted("nothing\n here", {"", " "}) == "nothing\n here"


def test_a_key_in_the_file_is_as_much_a_secret_as_a_password() -> None:
    assert is_secret("kafka.ssl.keystore.key", "-----BEGIN")
    assert not is_secret("kafka.ssl.keystore.location", "/etc/keystore")
