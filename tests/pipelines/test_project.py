"""The directory of a pipeline, and its settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ottla.pipelines.project import Project, ProjectError
from ottla.pipelines.settings import PREFIX, PipelineSettings

SETTINGS = PipelineSettings(bootstrap="host:1", topic_prefix="shop.", lateness_s=30, skew_s=5)


def test_a_new_project_is_what_spark_pipelines_takes_and_keeps_its_settings(tmp_path: Path) -> None:
    project = Project.at(tmp_path / "new", SETTINGS)
    described = yaml.safe_load(project.spec.read_text())

    assert set(described) == {"name", "storage", "libraries", "configuration"}
    assert all(isinstance(value, str) for value in described["configuration"].values())
    assert (project.directory / described["libraries"][0]["glob"]["include"]).is_file()
    assert Project.at(tmp_path / "new", PipelineSettings()).settings == SETTINGS
    assert project.conf()["spark.sql.catalogImplementation"] == "hive"
    assert project.conf()["spark.sql.warehouse.dir"] == f"file://{project.directory}/tables"
    assert not {name for name in described["configuration"] if "warehouse" in name or "catalogImpl" in name}


def test_what_a_user_has_changed_is_kept(tmp_path: Path) -> None:
    project = Project.at(tmp_path, SETTINGS)
    (tmp_path / "definitions.py").write_text("mine")
    project.spec.write_text(project.spec.read_text().replace("host:1", "host:2"))

    again = Project.at(tmp_path, SETTINGS)

    assert again.settings.bootstrap == "host:2"
    assert (tmp_path / "definitions.py").read_text() == "mine"


@pytest.mark.parametrize("text", ["[", "just text", "name: x"])
def test_a_description_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "spark-pipeline.yaml").write_text(text)

    with pytest.raises(ProjectError):
        _ = Project.at(tmp_path, SETTINGS).settings


def test_settings_come_back_from_sparks() -> None:
    conf = SETTINGS.to_conf()

    assert PipelineSettings.from_conf(conf.get) == SETTINGS
    assert PipelineSettings.from_conf({PREFIX + "skew_s": "7"}.get).skew_s == 7


@pytest.mark.parametrize("wrong", [{"lateness_s": 0}, {"window_s": 10, "slide_s": 3}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        PipelineSettings(**wrong)  # type: ignore[arg-type]  # all of them are numbers


def test_every_topic_has_the_prefix() -> None:
    assert SETTINGS.topics == [
        "shop.raw", "shop.raw.dlq", "shop.clean", "shop.tumbling", "shop.sliding", "shop.sessions", "shop.orders",
    ]  # fmt: skip


def test_the_python_for_workers_leaves_out_what_spark_has_zipped(tmp_path: Path) -> None:
    python = Project.at(tmp_path / "a b", SETTINGS).python
    path = f"/spark/python/lib/pyspark.zip:/mine one:/spark/python/lib/py4j-0.10.9.9-src.zip:{tmp_path}/x.zip"

    done = subprocess.run(
        [python, "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:], sys.executable)", "one two"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"/mine one:{tmp_path}/x.zip ['one two'] {sys.executable}\n"
