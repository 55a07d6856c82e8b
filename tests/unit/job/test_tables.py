"""Tables that operators join: what a job file may say of them, in every form of job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs import Part, job_file, sink, source
from tests.unit.job.contents import load, problems
from tests.unit.job.sql_text import in_sql

from streamjob import Job
from streamjob.errors import InvalidJob
from streamjob.job.loading.converting import content_of
from streamjob.job.loading.load import load_dsl, load_job
from streamjob.job.planning.drawing import as_text
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.on_executors import NotOnExecutors, check_on_executors
from streamjob.job.planning.plan import plan
from streamjob.job.query.sql import read_query, stateful_parts

PRODUCTS = source("products", "csv", "id INT, name STRING", "products")
JOIN = "SELECT o.id, p.name FROM orders o LEFT JOIN products p ON o.product = p.id"


def shop(table: Part | None = None, **operator: Any) -> Part:
    """Return a job whose operator joins orders with a table."""
    code = {"sql": JOIN, **operator} if "python" not in operator else operator
    orders = source("orders", "json", "id INT, product INT", "in")
    named = {"name": "named", "inputs": ["orders"], **code}
    written = sink("named", "json", "out", name="out")
    return job_file(
        named, name="shop", sources=[orders], sinks=[written], tables=[PRODUCTS if table is None else table]
    )


def test_a_query_names_its_tables_itself_and_they_are_no_inputs(tmp_path: Path) -> None:
    spec = load(tmp_path, shop({**PRODUCTS, "refresh": "10m"}))

    assert [each.name for each in spec.tables] == ["products"]
    assert spec.tables[0].refresh == 600
    assert spec.tables[0].oldest() == 1800
    assert [chain.uid for chain in plan(spec).chains] == ["named"]


@pytest.mark.parametrize("join", ["LEFT JOIN", "LEFT ANTI JOIN", "LEFT SEMI JOIN"])
def test_a_join_with_a_table_keeps_no_state_and_needs_no_watermark(tmp_path: Path, join: str) -> None:
    query = f"SELECT o.id FROM orders o {join} products p ON o.product = p.id"

    load(tmp_path, shop(sql=query))

    assert stateful_parts(query, frozenset({"products"})) == ()
    assert stateful_parts(query) == ("join",)


def test_a_query_may_aggregate_a_table_and_look_into_it(tmp_path: Path) -> None:
    query = """
    SELECT o.id, p.name FROM orders o
    JOIN (SELECT id, max(name) AS name FROM products GROUP BY id) p ON o.product = p.id
    WHERE o.id IN (SELECT id FROM products)
    """

    load(tmp_path, shop(sql=query))

    read = read_query(query, static=frozenset({"products"}))
    assert read.tables == frozenset({"orders", "products"})
    assert read.aggregation is None
    assert read.unsupported == ()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({**PRODUCTS, "format": "csw"}, "did you mean 'csv'?"),
        ({**PRODUCTS, "schema": None}, "table 'products': has no schema"),
        ({**PRODUCTS, "schema": "id INTT"}, "did you mean 'int'?"),
        ({**PRODUCTS, "options": {}}, "table 'products': lacks the option 'path'"),
        ({**PRODUCTS, "options": {"path": "p", "password": "hush"}}, "take it from the environment"),
        ({**PRODUCTS, "maxAge": "1h"}, "has maxAge without refresh"),
        ({**PRODUCTS, "refresh": "1h", "maxAge": "10m"}, "has a maxAge below its refresh"),
        ({**PRODUCTS, "refresh": "0s"}, "refresh must be more than 0s"),
        ({**PRODUCTS, "refrehs": "1h"}, "did you mean 'refresh'?"),
        ({**PRODUCTS, "name": "Orders"}, "has the name of the table 'Orders'"),
        ({"name": "products", "format": "jdbc", "options": {"url": "jdbc:x:y"}}, "lacks the option 'dbtable'"),
        ({"name": "products", "format": "jdbc", "options": {"dbtable": "p"}}, "lacks the option 'url'"),
    ],
)
def test_a_bad_table_is_refused_with_the_fix(tmp_path: Path, table: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, shop(table))


def test_a_table_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    assert "table 'products': nothing reads it" in problems(tmp_path, shop(sql="SELECT id FROM orders"))


def test_a_table_is_no_input(tmp_path: Path) -> None:
    content = shop()
    content["operators"][0]["inputs"] = ["orders", "products"]

    assert "reads the table 'products' as an input" in problems(tmp_path, content)


def test_a_misspelled_table_in_a_query_is_found(tmp_path: Path) -> None:
    said = problems(tmp_path, shop(sql=JOIN.replace("JOIN products", "JOIN product")))

    assert "its SQL reads 'product', which is not one of its inputs" in said
    assert "did you mean 'products'?" in said


def test_a_function_takes_its_tables_after_its_inputs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def named(orders, products):\n    return orders\n")
    content = shop(python="shop:named", tables=["products"])

    assert load(tmp_path, content).operators[0].tables == ("products",)

    content["operators"][0]["tables"] = ["product"]
    assert "did you mean 'products'?" in problems(tmp_path, content)
    del content["operators"][0]["tables"]
    assert "its function takes 2 arguments" in problems(tmp_path, content)


def test_tables_of_a_query_are_refused(tmp_path: Path) -> None:
    assert "has tables, and is no function" in problems(tmp_path, shop(tables=["products"]))


def test_the_dsl_and_sql_give_the_same_job_as_yaml(tmp_path: Path) -> None:
    written = load(tmp_path, shop({**PRODUCTS, "refresh": "10m", "maxAge": "1h"}))
    made = Job("shop")
    orders = made.source("orders", format="json", schema="id INT, product INT", options={"path": "in"})
    made.table(
        "products",
        format="csv",
        schema="id INT, name STRING",
        options={"path": "products"},
        refresh="10m",
        max_age="1h",
    )
    named = made.sql("named", inputs=[orders], sql=JOIN)
    made.sink("out", input=named, format="json", options={"path": "out"})
    (tmp_path / "shop.sql").write_text(in_sql(content_of(written)))

    assert load_job(tmp_path / "shop.sql").spec == written == load_dsl(made, directory=tmp_path).spec


def test_a_function_of_the_dsl_names_its_tables() -> None:
    made = Job("shop")
    orders = made.source("orders", format="rate")
    products = made.table("products", format="parquet", options={"path": "products"})

    @made.operator(inputs=[orders], tables=[products])
    def named(orders: Any, products: Any) -> Any:
        return orders.join(products, "value")

    made.sink("out", input=named, format="noop")

    assert load_dsl(made).spec.operators[0].tables == ("products",)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE t (a INT, WATERMARK FOR a AS a) WITH ('format' = 'csv')", "has a watermark, and is a table"),
        ("CREATE TABLE t (a INT, b AS a + 1) WITH ('format' = 'csv')", "has computed columns, and is a table"),
        ("CREATE TABLES t WITH ('format' = 'csv')", "SOURCE, TABLE, FUNCTION, VIEW or SINK"),
    ],
)
def test_a_wrong_statement_is_refused_with_its_place(tmp_path: Path, statement: str, said: str) -> None:
    (tmp_path / "job.sql").write_text(f"SET 'name' = 'shop';\n{statement};\n")

    with pytest.raises(InvalidJob) as raised:
        load_job(tmp_path / "job.sql")

    assert said in str(raised.value)
    assert "line 2" in str(raised.value)


def test_the_graph_shows_a_table_and_no_secret(tmp_path: Path) -> None:
    options = {"url": "jdbc:postgresql://db/shop", "dbtable": "products", "password": "${env:PW}"}
    spec = load(tmp_path, shop({"name": "products", "format": "jdbc", "options": options}))

    graph: Any = graph_of(spec)

    assert graph["tables"] == [{"name": "products", "format": "jdbc", "options": options}]
    assert "tables" not in graph_of(spec.model_copy(update={"tables": ()}))


def test_executors_of_other_machines_need_a_table_that_they_reach(tmp_path: Path) -> None:
    spec = load(tmp_path, shop())
    spec = spec.model_copy(update={"sources": (), "sinks": ()})

    check_on_executors(spec, local_files=True)
    with pytest.raises(NotOnExecutors, match="table 'products' reads files of a local path"):
        check_on_executors(spec, local_files=False)


ASKED: dict[str, Any] = {
    "name": "products",
    "format": "jdbc",
    "options": {"url": "jdbc:postgresql://db/shop", "dbtable": "products"},
    "lookup": {"cacheRows": 100, "ttl": "10s"},
}
LOOKUP: dict[str, Any] = {"table": "products", "on": ["product = id"], "select": ["name", "price AS cost"]}


def asking(of_table: dict[str, Any] | None = None, /, **lookup: Any) -> dict[str, Any]:
    content = shop({**ASKED, **(of_table or {})})
    content["operators"] = [{"name": "named", "inputs": ["orders"], "lookup": {**LOOKUP, **lookup}}]
    return content


def test_a_lookup_names_its_key_and_its_columns(tmp_path: Path) -> None:
    spec = load(tmp_path, asking())

    lookup, policy = spec.operators[0].lookup, spec.tables[0].lookup
    assert lookup is not None
    assert policy is not None
    assert (lookup.key_columns(), lookup.added_columns()) == (
        (("product", "id"),),
        (("name", "name"), ("price", "cost")),
    )
    assert (policy.cache_rows, policy.ttl, policy.timeout, policy.retries, lookup.join) == (100, 10, 30, 3, "left")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (asking(table="product"), "did you mean 'products'?"),
        (asking(on=["product == id"]), "'product == id' is neither a column nor `column = column of the other side`"),
        (asking(select=["price cost"]), "'price cost' is neither a column nor `column AS name`"),
        (asking(on=[]), "on"),
        (asking(join="right"), "join must be left or inner, not 'right'"),
        (asking({"lookup": None}), "looks rows up in 'products', a table that is read as a whole"),
        (asking({"format": "parquet", "options": {"path": "p"}}), "the format 'parquet' cannot be asked for keys"),
        (asking({"refresh": "1m"}), "has both lookup and refresh"),
        (asking({"schema": "id INT"}), "has both lookup and schema"),
        (asking({"lookup": {"ttl": "0s"}}), "ttl must be more than 0s"),
        (asking({"lookup": {"rows": 1}}), "has no field 'lookup.rows'"),
        (shop(ASKED), "reads the table 'products' as a whole, and it is asked for keys"),
    ],
)
def test_a_bad_lookup_is_refused_with_the_fix(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, content)


def test_the_dsl_and_sql_give_the_same_lookup_as_yaml(tmp_path: Path) -> None:
    written = load(tmp_path, asking(join="inner"))
    made = Job("shop")
    orders = made.source("orders", format="json", schema="id INT, product INT", options={"path": "in"})
    products = made.table("products", format="jdbc", options=ASKED["options"], lookup={"cache_rows": 100, "ttl": "10s"})
    named = made.lookup(
        "named", input=orders, table=products, on=["product = id"], select=["name", "price AS cost"], join="inner"
    )
    made.sink("out", input=named, format="json", options={"path": "out"})
    (tmp_path / "shop.sql").write_text(in_sql(content_of(written)))

    assert load_job(tmp_path / "shop.sql").spec == written == load_dsl(made, directory=tmp_path).spec


def test_a_plan_names_the_table_of_a_lookup(tmp_path: Path) -> None:
    spec = load(tmp_path, asking())

    assert "  operator  named   lookup in products over orders" in as_text(spec, plan(spec)).splitlines()
