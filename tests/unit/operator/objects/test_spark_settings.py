"""The settings of a spec as Spark gets them."""

from __future__ import annotations

from typing import Any

from streamjob_operator.objects.spark_settings import of_dependencies, spark_settings
from streamjob_operator.resources.parts import Dependencies
from streamjob_operator.resources.streamjob import StreamJobSpec


def settings_of(**spec: Any) -> dict[str, str]:
    return spark_settings(StreamJobSpec.model_validate(spec))


def test_dependencies_become_settings_of_spark() -> None:
    deps = Dependencies.model_validate({"jars": ["a.jar", "b.jar"], "packages": ["g:a:1"], "configMaps": ["code"]})

    assert of_dependencies(deps) == {"spark.jars": "a.jar,b.jar", "spark.jars.packages": "g:a:1"}


def test_spark_conf_overrides_the_sections_of_the_spec() -> None:
    settings = settings_of(
        deps={"jars": ["a.jar"]},
        hadoopConf={"fs.s3a.endpoint": "http://s3"},
        sparkConf={"spark.jars": "b.jar", "spark.hadoop.fs.s3a.endpoint": "http://other"},
    )

    assert settings["spark.jars"] == "b.jar"
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://other"


def test_nothing_overrides_the_heap_that_fits_into_the_container() -> None:
    assert settings_of(driver={"memory": "2g"}, sparkConf={"spark.driver.memory": "64g"}) == {
        "spark.driver.memory": "1536m"
    }
