"""docs/operating.md keeps its word: table, settings, configurations and questions are of what there is."""

import re
from pathlib import Path

import yaml

from pixi.app import tracing
from pixi.app.metrics import FIGURES
from pixi.settings import load
from tests.pages import ROOT, blocks, read_page

PAGE = read_page(ROOT / "docs" / "operating.md")
NAMES = {f"{each.name}_total" if each.kind == "counter" else each.name: each for each in FIGURES.values()}


def test_every_metric_stands_in_the_table_and_no_other() -> None:
    rows = re.findall(r"^\| `(pixi_\w+)` \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (name, figure.kind, ", ".join(f"`{label}`" for label in figure.labels), figure.told)
        for name, figure in NAMES.items()
    ]


def test_the_settings_are_taken(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text("\n".join(block.text for block in blocks(PAGE, "toml")))
    monitoring = load(environ={}, folder=tmp_path).monitoring
    assert (monitoring.host, monitoring.port) == ("127.0.0.1", 9464)
    assert (monitoring.traces, monitoring.words) == ("http://localhost:4318", False)


def test_the_questions_are_about_metrics_with_these_labels() -> None:
    (questions,) = blocks(PAGE, "promql")
    for name, label in re.findall(r"(pixi_\w+)(?:\{(\w+)=)?", questions.text):
        figure = NAMES[name.removesuffix("_bucket")]
        assert label in ("", *figure.labels), name


def test_configurations_are_yaml_and_name_the_paths_and_ports_that_there_are() -> None:
    probes, here, elsewhere = (yaml.safe_load(block.text) for block in blocks(PAGE, "yaml"))
    assert {probe["httpGet"]["path"] for probe in probes.values()} == {"/healthz", "/readyz"}
    assert here["scrape_configs"][0]["static_configs"][0]["targets"] == ["localhost:9464"]
    assert elsewhere["scrape_configs"][0]["scheme"] == "https"


def test_the_attributes_of_spans_are_those_that_are_set() -> None:
    source = Path(tracing.__file__).read_text(encoding="utf-8")
    told = set(re.findall(r"`((?:gen_ai|pixi)\.[\w.]+)`", PAGE)) - {"pixi.toml"}
    assert len(told) > 12
    assert not {name for name in told if f'"{name}"' not in source}
