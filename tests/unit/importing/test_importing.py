"""`streamjob import` makes valid jobs of the programs that people have, and says what is left to decide."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark.sql
import pytest
from pyspark import SparkContext
from tests.unit.importing.programs import HEAD, PROGRAMS, READ, WRITE

from streamjob.job.loading.load import load_job
from streamjob_import.cli import import_command
from streamjob_import.expressions import Undecided
from streamjob_import.running import NothingStarted, ProgramFailed, record
from streamjob_import.writing import write_job


def imported(directory: Path, text: str, *arguments: str) -> str:
    """Return the job of a program."""
    program = directory / "program.py"
    program.write_text(HEAD + text, encoding="utf-8")
    return write_job(record(program, arguments))


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_job_of_a_program_is_valid_and_leaves_nothing_to_decide(text: str, tmp_path: Path) -> None:
    job = imported(tmp_path, text)
    assert "DECIDE" not in job
    (tmp_path / "job.py").write_text(job, encoding="utf-8")
    assert load_job(tmp_path / "job.py").spec.name == "a-program"


def test_nothing_of_spark_starts_and_spark_is_itself_afterwards(tmp_path: Path) -> None:
    before = pyspark.sql.SparkSession, pyspark.sql.functions.col
    imported(tmp_path, PROGRAMS["windows"])
    assert (pyspark.sql.SparkSession, pyspark.sql.functions.col) == before
    assert SparkContext._active_spark_context is None


def test_functions_are_copied_with_what_they_need(tmp_path: Path) -> None:
    job = imported(tmp_path, PROGRAMS["functions of rows and of DataFrames"])
    assert '@udf("int")\ndef times(n):\n    return n * FACTOR\n' in job
    assert '    """It stays as it is."""\n' in job
    assert 'return enrich(rows, "three").select(' in job
    assert job.index("FACTOR = 3") < job.index("def times")


def test_parts_have_the_names_of_variables_and_the_time_of_events_is_declared(tmp_path: Path) -> None:
    job = imported(tmp_path, PROGRAMS["windows"])
    assert 'rows = job.source("rows", format="json", schema="k STRING, at TIMESTAMP, n INT"' in job
    assert "@job.operator(inputs=[rows], watermark=" in job
    assert "def query(rows_by_time: DataFrame)" in job or "def counts(" in job
    assert 'watermark=("at", "10m")' in job
    assert "withWatermark" not in job
    assert "max_parallelism=4" in job


def test_queries_that_share_rows_share_an_operator(tmp_path: Path) -> None:
    job = imported(tmp_path, PROGRAMS["several queries of shared rows"])
    assert job.count("@job.operator") == 4
    assert job.count("job.source(") == 1
    assert 'job.sink("small", input=counts, format="console")' in job
    assert '@job.operator(inputs=[parsed_by_time], output_mode="update")\ndef counts' in job
    assert "@job.operator(inputs=[parsed])\ndef parsed_filtered" in job
    assert 'job.sink("big", input=parsed_filtered' in job


def test_what_has_no_variable_has_a_name_of_its_input_and_what_is_done_with_it(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        """
df = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "a:1").option("subscribe", "orders.v1").load()
df = df.where("key IS NOT NULL")
df.writeStream.format("console").start()
rate = spark.readStream.format("rate").load()
rate.groupBy("value").count().writeStream.format("console").start()
def start():
    spark.readStream.format("rate").load().writeStream.foreachBatch(lambda batch, batch_id: batch.show()).start()
started = [start()]
""",
    )
    assert re.findall(r'job.(?:source|sink)\(\s*"(\w+)"|def (\w+)\(\w+: DataFrame', job) == [
        ("orders_v1", ""), ("rate", ""), ("rate_2", ""), ("", "orders_v1_filtered"), ("", "rate_counted"),
        ("orders_v1_filtered_console", ""), ("rate_counted_console", ""), ("started", ""),
    ]  # fmt: skip


def test_a_watermark_holds_for_the_rows_behind_it_only(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
rows.groupBy("k").count().writeStream.outputMode("update").format("console").start()
timed = rows.withWatermark("at", "1 minute")
timed.groupBy(F.window(rows.at, "1 minute")).count(){WRITE}
""",
    )
    assert '@job.operator(inputs=[rows], output_mode="update")' in job
    assert '@job.operator(inputs=[rows], watermark=("at", "1m"))\ndef rows_by_time(rows: DataFrame)' in job
    assert "@job.operator(inputs=[rows_by_time])" in job


def test_arguments_of_the_program_count(tmp_path: Path) -> None:
    assert '"path": "elsewhere"' in imported(tmp_path, PROGRAMS["main with arguments"], "--input", "elsewhere")


def test_what_is_taken_from_the_environment_stays_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPIC_OF_TEST", "in")
    job = imported(
        tmp_path,
        f"""
brokers, other = os.getenv("BROKERS_OF_TEST", "host:9092"), os.environ.get("OTHER", "latest")
raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
raw.option("subscribe", os.environ["TOPIC_OF_TEST"]).option("startingOffsets", "latest").load(){WRITE}
""",
    )
    assert '"${{env:BROKERS_OF_TEST:-host:9092}}"'.replace("{{", "{").replace("}}", "}") in job
    assert '"subscribe": "${env:TOPIC_OF_TEST}"' in job
    assert '"startingOffsets": "latest"' in job
    assert "fixed in this text: OTHER" in job


def test_each_query_has_the_output_mode_that_it_had(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
counts = rows.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()
counts{WRITE}
counts.select("count").writeStream.outputMode("update").format("console").queryName("updated").start()
counts.writeStream.outputMode("complete").format("memory").queryName("whole").start()
""",
    )
    modes = re.findall(r"@job.operator\(inputs=\[(\w+)\](?:, output_mode=\"(\w+)\")?\)\ndef (\w+)", job)
    sinks = dict(re.findall(r'job.sink\("(\w+)", input=(\w+)', job))
    by_name = {name: (source, mode) for source, mode, name in modes}

    def mode_of(part: str) -> set[str]:
        source, mode = by_name.get(part, ("", ""))
        return {mode} - {""} | (mode_of(source) if source in by_name else set())

    assert mode_of(sinks["out"]) == set()
    assert mode_of(sinks["updated"]) == {"update"}
    assert mode_of(sinks["whole"]) == {"complete"}


def test_views_are_read_in_each_way_that_spark_has(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
rows.createOrReplaceTempView("v")
spark.sql("CREATE OR REPLACE TEMP VIEW w AS SELECT k FROM v WHERE n > 1")
spark.table("w").writeStream.format("json").start("one")
spark.sql("SELECT n FROM {{given}} WHERE n < {{most}} AND k <> {{not_this}}", given=rows, most=3, not_this="a") \\
    .writeStream.format("json").start("two")
""",
    )
    assert "SELECT k FROM v WHERE n > 1" in job
    assert "SELECT n FROM v WHERE n < 3 AND k <> 'a'" in job
    assert job.count("job.sink(") == 2


def test_a_function_of_the_program_gets_the_schema_that_it_got(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
SCHEMAS = {{"a": StructType([StructField("a b", LongType(), False)])}}
def parse(df, schema):
    return df.select([col(name) for name in schema.fieldNames()])
def use(df, schema):
    return df.select(F.from_json("k", schema).alias("parsed"))
{READ}
parse(rows, SCHEMAS["a"]).writeStream.format("json").start("one")
rows.select(F.from_json("k", StructType([StructField("s", SCHEMAS["a"])]))).writeStream.format("json").start("two")
""",
    )
    assert "parse(rows, StructType([StructField('a b', LongType(), False)]))" in job
    assert "s struct<`a b`: bigint>" in job


def test_a_loop_that_starts_queries_is_not_copied(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
for name in ["a", "b"]:
    def write(batch, batch_id):
        batch.write.parquet(name)
    rows.writeStream.foreachBatch(write).queryName(name).start()
""",
    )
    assert "writeStream" not in job
    compile(job, "job.py", "exec")


def test_a_secret_in_a_function_is_named(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
def write(batch, batch_id):
    batch.write.format("jdbc").option("password", "in-the-text").save()
rows.writeStream.foreachBatch(write).start()
""",
    )
    assert "# DECIDE: the text of the program holds the secret password" in job


def test_queries_behind_a_pause_are_found(tmp_path: Path) -> None:
    job = imported(
        tmp_path, f"{READ}\nrows{WRITE}\ntime.sleep(9)\nrows.where('n > 1').writeStream.format('json').start('more')"
    )
    assert job.count("job.sink(") == 2


def test_a_run_that_ends_with_what_is_there_is_said(tmp_path: Path) -> None:
    assert "run the job with --available-now" in imported(tmp_path, PROGRAMS["main with arguments"])


@pytest.mark.parametrize("key", ["password", "kafka.sasl.jaas.config"])
def test_no_secret_gets_into_the_job(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "s3cret-of-the-environment")
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password='{}';"
    text = jaas if "jaas" in key else "{}"
    job = imported(
        tmp_path,
        f"""
{READ}
from_environment = {text!r}.format(os.environ["SECRET_OF_TEST"])
written_down = {text!r}.format("s3cret-of-the-program")
def write(secret):
    settings = {{"password": secret}}
    return lambda batch, batch_id: batch.write.jdbc("url", "table", properties=settings)
for number, given in enumerate([from_environment, written_down]):
    rows.writeStream.format("jdbc").option({key!r}, given).queryName(f"plain{{number}}").start()
    rows.writeStream.foreachBatch(write(given)).queryName(f"function{{number}}").start()
""",
    )
    assert "s3cret" not in job
    assert '"${env:' in job
    assert 'os.environ["SECRET_OF_TEST"]' in job or ("jaas" in key and 'os.environ["PASSWORD"]' in job)


def test_functions_of_batches_keep_their_text_and_get_the_session_of_their_batch(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
newest = Window.partitionBy("k").orderBy(F.desc("at"))

def write_to(target, batch, batch_id):
    spark.read.parquet(target)
    batch.withColumn("at", F.row_number().over(newest)).write.parquet(target)

rows.writeStream.foreachBatch(partial(write_to, "there")).queryName("one").start()
rows.writeStream.foreachBatch(lambda batch, batch_id: write_to("here", batch, batch_id)).queryName("two").start()
""",
    )
    assert '    return write_to("there", batch, batch_id)\n' in job
    assert '    return write_to("here", batch, batch_id)\n' in job
    assert '    newest = Window.partitionBy("k").orderBy(F.desc("at"))\n' in job
    assert "getOrCreate" not in job
    compile(job, "job.py", "exec")


@pytest.mark.parametrize(
    "function",
    {
        "on one line": "    def write(batch, batch_id): spark.sql(text); helper(batch)",
        "with a text of several lines": '    def write(batch, batch_id):\n        spark.sql("""\nSELECT\n""" + text)',
        "decorated": "    @traced\n    def write(batch, batch_id):\n        helper(batch)  # as it is",
        "that calls itself": "    def write(batch, batch_id):\n        batch_id and write(batch, batch_id - 1)",
        "a lambda": "    write = lambda batch, batch_id: helper(\n        batch, text)",
        "a method": "    write = Writer(text).write",
    }.values(),
)
def test_a_function_inside_of_another_becomes_one_of_the_job(function: str, tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
def traced(function): return function
def helper(batch, text="x"): return spark.createDataFrame([(text,)])
class Writer:
    def __init__(self, text):
        self.text, self.spark = text, spark
    def write(self, batch, batch_id):
        helper(batch, self.text)
def main(text):
{function}
    spark.readStream.format("rate").load().writeStream.foreachBatch(write).start()
main("a {{text}}")
""",
    )
    compile(job, "job.py", "exec")
    assert "batch.sparkSession" in job or "batch_id - 1" in job
    assert ", function=write" in job


@pytest.mark.parametrize(
    ("text", "error", "said"),
    {
        "a decision by rows": (f"{READ}\nif rows.count() > 3:\n    pass", Undecided, "program.py, line 12"),
        "a loop over columns": ("for each in spark.read.csv('x').columns:\n    pass", Undecided, "program.py, line 10"),
        "an error": ("raise ValueError('no such thing')", ProgramFailed, "line 10: ValueError: no such thing"),
        "an exit": ("sys.exit(2)", ProgramFailed, "exits with 2"),
        "a decision by a type": (
            f"{READ}\nif isinstance(rows.select('k').schema['k'].dataType, StringType): pass",
            Undecided,
            "program.py, line 12",
        ),
        "a decision that is caught": (
            f"{READ}\ntry:\n    if rows.count(): rows{WRITE}\nexcept Exception: pass\nrows{WRITE}",
            Undecided,
            "program.py, line 13",
        ),
        "no query": ("spark.read.csv('x').show()", NothingStarted, "starts no query"),
    }.values(),
)
def test_a_program_that_cannot_be_recorded_is_refused_by_its_line(
    text: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        imported(tmp_path, text)


def test_what_a_job_does_not_do_is_said(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
spark.sql("CREATE DATABASE IF NOT EXISTS things")
spark.range(3).write.parquet("numbers")
catalog = spark.readStream.table("catalog.table").writeStream.toTable("catalog.other")
rows{WRITE}
raise RuntimeError("afterwards")
""",
    )
    for said in ("CREATE DATABASE", "a batch is written", "catalog.table", "catalog.other", "line 17: RuntimeError;"):
        assert said in job
    assert job.count("# DECIDE") == 2


@pytest.mark.parametrize(
    ("computed", "by"),
    {
        "f'on-{socket.gethostname()}'": "socket.gethostname() at program.py, line 12",
        "os.getpid()": "os.getpid() at program.py, line 12",
        "getpass.getuser()": "getpass.getuser() at program.py, line 12",
        "str(uuid.uuid4())": "uuid.uuid4() at program.py, line 12",
        "uuid.uuid4().hex[:8]": "uuid.uuid4() at program.py, line 12",
        "f'{datetime.now():%Y%m%d}'": "the time",
        "str(datetime.now() - timedelta(days=40))": "the time",
        "int(time.time())": "the time",
        "int(os.environ['RATE_OF_TEST'])": "the variable RATE_OF_TEST",
        "os.environ['STAGE_OF_TEST'] + '-rows'": "the variable STAGE_OF_TEST",
        "json.loads(os.environ['OBJECT_OF_TEST'])['key']": "the variable OBJECT_OF_TEST",
    }.items(),
)
def test_a_value_of_the_surroundings_is_to_decide_where_it_is(
    computed: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE_OF_TEST", "731")
    monkeypatch.setenv("STAGE_OF_TEST", "beta")
    monkeypatch.setenv("OBJECT_OF_TEST", '{"key": "in-an-object"}')
    monkeypatch.setenv("LOGNAME", "somebody")
    job = imported(
        tmp_path,
        f"""
import getpass, json, socket, uuid; from datetime import datetime, timedelta
value = {computed}
{READ}
rows.withColumn("v", F.lit(value)).writeStream.format("json").option("given", value).start("out")
""",
    )
    said = f"# DECIDE: a value of {by} is fixed here: it was computed when the program was imported\n"
    assert f"{said}@job.operator" in job
    assert f"{said}job.sink(" in job
    assert job.count("DECIDE:") == 2


def test_what_the_program_itself_says_is_not_to_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE_OF_TEST", "beta")
    job = imported(
        tmp_path,
        f"""
from datetime import datetime
os.environ["STAGE_OF_TEST"], os.getpid(), datetime.now()
{READ}
dated = rows.withColumn("since", F.lit(datetime(2024, 1, 31))).where("at > '2024-01-31'")
dated = dated.withColumn("size", F.lit(1024 ** 3)).withColumn("stage", F.lit("betatest" * 2))
dated.writeStream.format("json").option("given", "beta").option("path", sys.argv[1]).start()
""",
        "out/20240131",
    )
    assert "DECIDE" not in job
    compile(job, "job.py", "exec")
    assert "F.lit(dt.datetime(2024, 1, 31, 0, 0))" in job


def test_settings_objects_are_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_TOPIC", "in")
    (tmp_path / "settings_of_test.py").write_text("""
import os
from types import SimpleNamespace
class BaseSettings:
    model_config = {"env_prefix": "app_"}
    def __init__(self):
        for name in self.model_fields:
            # As pydantic does, it keeps no subclass of str.
            setattr(self, name, "".join(os.environ.get(f"APP_{name.upper()}", getattr(type(self), name))))
class Settings(BaseSettings):
    brokers, topic, password = "host:9092", "other", "in-the-text"
    model_fields = {
        name: SimpleNamespace(validation_alias=None, default=each)
        for name, each in {"brokers": brokers, "topic": topic, "password": password}.items()
    }
""")
    job = imported(
        tmp_path,
        f"""
import copy
from settings_of_test import Settings
settings = copy.deepcopy(Settings())
raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", f"{{settings.brokers}}")
raw.option("subscribe", settings.topic).option("kafka.ssl.key.password", settings.password).load(){WRITE}
""",
    )
    assert '"kafka.bootstrap.servers": "${env:APP_BROKERS:-host:9092}"' in job
    assert '"subscribe": "${env:APP_TOPIC}"' in job
    assert '"kafka.ssl.key.password": "${env:APP_PASSWORD}"' in job


def test_a_catalog_is_left_out_with_all_that_names_it(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
for key, value in {{
    "spark.sql.defaultCatalog": "lake", "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.kryo.registrator": "org.apache.sedona.core.serde.SedonaKryoRegistrator",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer", "spark.sql.ansi.enabled": "false",
}}.items():
    spark.conf.set(key, value)
{READ}
rows{WRITE}
""",
    )
    assert '"spark.sql.ansi.enabled": "false"' in job
    assert '"spark.serializer": "org.apache.spark.serializer.KryoSerializer"' in job
    assert '"lake"' not in job
    assert '"org.apache.sedona' not in job
    assert "DECIDE: what is left out of the settings may be needed" in job


def test_the_job_of_a_program_with_a_name_that_is_no_module_is_one(tmp_path: Path) -> None:
    program = tmp_path / "05-fill.py"
    program.write_text(f"{HEAD}{READ}rows.writeStream.foreachBatch(lambda batch, n: batch.show()).start()")
    import_command(program)
    assert load_job(tmp_path / "_05_fill_job.py").spec.name == "a-program"


def test_an_object_that_keeps_the_session_is_made_in_the_function_that_uses_it(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
class Table:
    def __init__(self, session, name):
        self.session, self.name = session, name
table = Table(spark, "people")
def merge(batch, batch_id):
    batch.write.saveAsTable(table.name)
{READ}
rows.writeStream.foreachBatch(lambda batch, batch_id: merge(batch, batch_id)).start()
""",
    )
    assert '    spark = batch.sparkSession\n    table = Table(spark, "people")\n' in job
    assert "DECIDE" not in job
    assert 'job.sink("merge", input=rows' in job


def test_an_object_of_a_method_gets_its_fields(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
import configparser
class Sink:
    def __init__(self, config, lock):
        self.config, self.lock = config, lock
    def write(self, batch, batch_id):
        batch.write.parquet(self.config["path"])
config = configparser.ConfigParser()
config.read_dict({{"out": {{"path": "there"}}}})
{READ}
rows.writeStream.foreachBatch(Sink(config["out"], None).write).queryName("whole").start()
rows.writeStream.foreachBatch(Sink("out", object()).write).queryName("without").start()
""",
    )
    assert '    made.config = {"path": "there"}\n' in job
    assert re.findall("# DECIDE: (.*)", job) == ["Sink.write has an object without lock: make it here"]


SETTINGS = """
from pydantic import AliasChoices, BaseModel, Field, SecretStr
from pydantic_settings import BaseSettings
class Database(BaseModel):
    key: str = "none"
class Settings(BaseSettings):
    cred: str = "none"
    login: SecretStr = SecretStr("none")
    database: Database = Database()
    other: str = Field("none", validation_alias=AliasChoices("OTHER_OF_TEST", "SECOND_OF_TEST"))
    rows_of_test: int = 5
    model_config = {"env_file": FILE, "env_nested_delimiter": "__"}
"""


def test_settings_that_are_no_defaults_of_the_program_stay_out_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dotenv").write_text("LOGIN=from-a-file\nDATABASE__KEY=from-a-file, too")
    monkeypatch.setenv("SECOND_OF_TEST", "abc")
    monkeypatch.setenv("ROWS_OF_TEST", "731")
    (tmp_path / "vault").write_text("from-a-vault")
    job = imported(
        tmp_path,
        f"""
FILE = {str(tmp_path / "dotenv")!r}
{SETTINGS}
given = Settings(cred=open({str(tmp_path / "vault")!r}).read())
def write(cred, login, other, rows):
    return lambda batch, batch_id: batch.limit(rows).write.save(cred, x=f"{{login}}.", y=other)
{READ}
made = [write(given.cred, given.login.get_secret_value(), given.other, given.rows_of_test)]
writer = rows.writeStream.format("json").option("x", f"x/{{given.cred}}").option("y", given.database.key)
writer.option("path", "out").start()
rows.writeStream.foreachBatch(made[0]).start()
""",
    )
    assert "from-a" not in job
    assert '"x": "x/${env:CRED}"' in job
    assert '"y": "${env:DATABASE__KEY}"' in job
    for name, variable in {"cred": "CRED", "login": "LOGIN", "other": "SECOND_OF_TEST"}.items():
        assert f'    {name} = os.environ["{variable}"]\n' in job
    assert "DECIDE: a value of the setting rows_of_test at program.py, line" in job


def test_settings_without_fields_of_pydantic_are_a_plain_object(tmp_path: Path) -> None:
    text = 'class BaseSettings:\n    def __init__(self): self.topic = "in"\nsettings = BaseSettings()'
    assert '"path": "in"' in imported(tmp_path, f'{text}\nspark.readStream.format("text").load(settings.topic){WRITE}')


def test_a_default_that_is_a_secret_stays_out_of_a_function(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
def write(key):
    return lambda batch, batch_id: batch.write.save("x", key=key)
rows.writeStream.foreachBatch(write(os.getenv("DB_PASSWORD_OF_TEST_TOKEN", "changeme99"))).start()
""",
    )
    assert "changeme99" not in job
    assert 'key = os.environ["DB_PASSWORD_OF_TEST_TOKEN"]' in job


def test_a_value_of_a_variable_is_known_however_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBPW_OF_TEST", "hunter2hunter2")
    monkeypatch.setenv("ELSEWHERE_OF_TEST", "written/in/the/text")
    job = imported(
        tmp_path,
        f"""
password = dict(os.environ)["DBPW_OF_TEST"]
def write(password, at):
    return lambda batch, batch_id: batch.write.jdbc("u", at, properties={{"password": password}})
{READ}
rows = rows.where(f"k = '{{password}}'").where(f"k = '{{password}}'\\n")
rows.writeStream.foreachBatch(write(password, "written/in/the/text")).start()
""",
    )
    assert "hunter2" not in job
    assert 'password = os.environ["DBPW_OF_TEST"]' in job
    assert "ELSEWHERE" not in job


@pytest.mark.parametrize(
    "statement",
    [
        "spark.sql('SET fs.s3a.secret.key=s3cret-of-test')",
        "spark.sql('ADD JAR https://me:s3cret-of-test@host/x.jar')",
        "SparkSession.builder.config('spark.sql.catalog.lake.key', 's3cret-of-test').getOrCreate()",
        "raise OSError('jdbc:postgresql://me:s3cret-of-test@host')",
        "sys.exit('jdbc:postgresql://me:s3cret-of-test@host')",
    ],
)
def test_a_note_quotes_no_secret(statement: str, tmp_path: Path) -> None:
    job = imported(tmp_path, f"{READ}rows{WRITE}\n{statement}")
    assert "s3cret" not in job
    assert re.search("spark.sql.'(SET|ADD)|settings: spark.sql.catalog.lake.key|ended at .*(OSError|its exit);", job)


@pytest.mark.parametrize(
    "function",
    {
        "a lambda": "    write = lambda batch, batch_id, t=t: batch.write.parquet(t)",
        "a function": "    def write(batch, batch_id, t=t):\n        batch.write.parquet(t)",
        "a keyword": "    def write(batch, batch_id, *, t=t):\n        batch.write.parquet(t)",
    }.values(),
)
def test_a_default_of_a_function_is_the_value_that_it_was(function: str, tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
for t in ("one", "two"):
{function}
    double = udf(lambda n, t=t: t, "string")
    rows = spark.readStream.format("rate").load().select(double("value"))
    rows.writeStream.foreachBatch(write).queryName(t).start()
""",
    )
    for value in ("one", "two"):
        assert re.search(
            rf"def write(_2)?\(batch, batch_id, (\*, )?t=\"{value}\"\):\n    (return )?batch.write.parquet\(t\)", job
        )
        assert re.search(rf"def compute(_2)?\(n, t=\"{value}\"\):\n    return t", job)
    assert "\nt = " not in job


def test_a_default_that_has_no_text_is_to_decide(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
for t in (object(),):
    rows.writeStream.foreachBatch(lambda batch, batch_id, t=t: print(t)).start()
""",
    )
    assert "# DECIDE: the program makes t: make it here" in job


def test_each_lambda_of_a_line_is_itself(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
one, two = lambda batch, batch_id: batch.show(1), lambda batch, batch_id: batch.show(2)
for each in [one, two, *[lambda batch, batch_id: batch.show(3), lambda batch, batch_id: batch.show(4)]]:
    rows.writeStream.foreachBatch(each).start()
""",
    )
    assert {int(each) for each in re.findall(r"batch.show\((\d)\)", job)} == {1, 2, 3, 4}
    assert "    return batch.show(3)\n" in job
    assert "    return batch.show(4)\n" in job


def test_no_part_takes_a_name_from_the_functions_and_constants_of_the_program(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        """
orders = "orders"
def clicks(df): return df.where("key IS NOT NULL")
def made():
    def likes(batch, batch_id): batch.show()
    return likes
def read(topic):
    return spark.readStream.format("kafka").option("kafka.bootstrap.servers", "a:1").option("subscribe", topic).load()
def start(df, name):
    df.select(udf(lambda n: orders + n, "string")("topic").alias("value")).writeStream.queryName(name) \\
        .foreachBatch(made()).start()
start(clicks(read("clicks")), "clicks")
start(read("orders"), "orders")
start(read("likes"), "likes")
""",
    )
    names = set(re.findall(r"^(\w+) = job.source", job, re.MULTILINE))
    defined = set(re.findall(r"^(?:def )?(\w+)(?: = \"|\()", job, re.MULTILINE)) - {"job"}
    assert len(names) == 3
    assert not names & defined
    assert {"orders", "clicks"} <= defined
    assert 'job.sink("clicks"' in job


@pytest.mark.parametrize("partitions", ["'auto'", "spark.sparkContext.defaultParallelism * 2"])
def test_partitions_that_are_no_number_are_to_decide(partitions: str, tmp_path: Path) -> None:
    job = imported(
        tmp_path, f"spark.conf.set(key='spark.sql.shuffle.partitions', value={partitions})\n{READ}rows{WRITE}"
    )
    assert "# DECIDE: spark.sql.shuffle.partitions is no number" in job
    assert "max_parallelism=" not in job


def test_a_program_may_change_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    job = imported(Path(), f"os.chdir('below')\nassert sys.argv[0] == 'program.py'\n{READ}rows{WRITE}")
    assert "job.sink(" in job
    assert Path.cwd() == tmp_path


def test_arguments_may_have_names(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        """
SparkSession.builder.appName(name="Named").config(key="spark.sql.ansi.enabled", value="false").getOrCreate()
raw = spark.readStream.format(source="json").schema(schema="at TIMESTAMP").option(value="in", key="path").load()
timed = raw.withWatermark(delayThreshold="1 minute", eventTime="at").groupBy("at").count()
timed.writeStream.format(source="json").outputMode(outputMode="update").queryName(queryName="named") \\
    .option(value=os.environ.get(default="out", key="OUT_OF_TEST"), key="path").start()
rows = spark.readStream.table(tableName="a.b").writeStream.foreachBatch(func=lambda batch, n: batch.show()).start()
""",
    )
    assert 'Job("named", ' in job
    assert '"spark.sql.ansi.enabled": "false"' in job
    assert 'watermark=("at", "1m")' in job
    assert re.search(r'schema="at TIMESTAMP",\s+options={"path": "in"}', job)
    assert 'job.sink("named", input=timed, format="json", options={"path": "${env:OUT_OF_TEST:-out}"})' in job


def test_an_argument_with_the_name_of_a_dataframe_is_itself(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
{READ}
def write(batch, rows):
    batch.sparkSession.sql("SELECT 1")
rows.writeStream.foreachBatch(write).start()
""",
    )
    assert "def write(batch, rows):\n    batch.sparkSession" in job


@pytest.mark.parametrize(
    "assigned",
    ["clicks: DataFrame = {}", "clicks, other = {}, 1", "print(clicks := {})", "(clicks, other) = ({}, 1)"],
)
def test_a_part_has_the_name_of_its_variable_however_it_is_assigned(assigned: str, tmp_path: Path) -> None:
    read = 'spark.readStream.format("rate").load()'
    job = imported(tmp_path, f"{assigned.format(read)}\nclicks{WRITE}")
    assert 'clicks = job.source("clicks", format="rate")' in job


def test_settings_of_pydantic_1_are_variables_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_STAGE", "beta")
    job = imported(
        tmp_path,
        f"""
import warnings; warnings.simplefilter("ignore")
from pydantic.v1 import BaseSettings
class Settings(BaseSettings):
    topic, cred, stage = "in", "none", "none"
    class Config:
        env_prefix = "a_"
s = Settings(cred="from-a-" + "vault")
rows = spark.readStream.format("text").option("x", s.cred).option("y", s.stage).load(s.topic){WRITE}
""",
    )
    assert '{"x": "${env:A_CRED}", "y": "${env:A_STAGE}", "path": "${env:A_TOPIC:-in}"}' in job


def test_a_function_that_takes_arguments_by_name_only_becomes_the_steps_that_it_did(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        f"""
def most(df, *, rows):
    return df.limit(rows)
{READ}
most(rows, rows=3){WRITE}
""",
    )
    assert "    return rows.limit(3)\n" in job
