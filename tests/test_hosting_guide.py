"""docs/hosting.md and deploy/ hold together: the sums are right, and the files name what there is."""

import argparse
import configparser
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pixi.cli import frame
from pixi.cli.exits import USAGE
from pixi.cli.frame import SUBCOMMANDS
from pixi.core.llm import Usage
from pixi.settings import load
from tests.pages import ROOT, blocks, code, read_page

DEPLOY = ROOT / "deploy"
PAGE = read_page(ROOT / "docs" / "hosting.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
MONTH = 30_000

KINDS: Mapping[str, type] = {
    **dict.fromkeys(("build", "depends_on", "deploy", "environment", "healthcheck"), dict),
    **dict.fromkeys(("cap_drop", "command", "ports", "profiles", "security_opt", "volumes"), list),
    **dict.fromkeys(("env_file", "image", "restart", "stop_grace_period", "tmpfs", "user"), str),
    "read_only": bool,
}
"""Of each service what the files of `deploy/` use, and its kind by the compose specification."""
INNER_KEYS = {"build": {"context", "dockerfile", "args"}, "deploy": {"replicas"}}
PATTERNS = {
    **dict.fromkeys(("cap_drop", "command", "profiles", "security_opt"), r".+"),
    "ports": r"127\.0\.0\.1:\d+:\d+",
    "restart": r"no|always|unless-stopped|on-failure(:\d+)?",
    "stop_grace_period": r"\d+(ms|s|m|h)",
    "volumes": r"[\w./-]+:/[\w./-]+(:ro)?",
}


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def test_what_a_month_costs_is_calculated(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "toml")
    (tmp_path / "pixi.toml").write_text(block.text, encoding="utf-8")
    prices = load(environ={}, folder=tmp_path).prices
    usual, uncached, thinking = Usage(3_000, 2_400, 80), Usage(3_000, 0, 80), Usage(3_000, 2_400, 580)
    sums = {
        model: [f"${MONTH * each.cost(usage):,.2f}" for usage in (usual, uncached, thinking)]
        for model, each in prices.items()
    }
    told = re.findall(r"^\| `([\w.-]+)` \| (\$\S+) \| (\$\S+) \| (\$\S+) \|$", PAGE, re.MULTILINE)
    assert {model: list(costs) for model, *costs in told} == sums
    assert len(sums) == 3
    assert "30,000 × (600 × 0.25 + 2,400 × 0.025 + 80 × 2.00) / 1,000,000" in PAGE


def test_all_is_every_part_and_the_page_names_them() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    parts = set(everything.partition("[")[2].rstrip("]").split(","))
    assert parts == EXTRAS - {"all", "discord", "anthropic", "gemini"}
    (told,) = re.findall(r"^The parts one by one: (.*?)\. `discord`", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", told)) == parts


def test_the_dockerfile_takes_what_the_package_has() -> None:
    text = read("Dockerfile")
    named = [set(each.split(",")) for each in re.findall(r"EXTRAS=([\w,]+)", text + PAGE)]
    assert len(named) == 3
    assert all(extras <= EXTRAS for extras in named)
    assert "\nUSER pixi\n" in text
    (command,) = re.findall(r'^CMD \["(\w+)"\]$', text, re.MULTILINE)
    assert command in SUBCOMMANDS
    assert 'ENTRYPOINT ["pixi-persona"]' in text
    kept = {line[1:] for line in read("Dockerfile.dockerignore").splitlines() if line.startswith("!")}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    needed = {*wheel["targets"]["wheel"]["packages"], *wheel["targets"]["wheel"]["force-include"]}
    assert kept == needed | {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]}
    assert all((ROOT / name).exists() for name in kept)


def test_compose_names_files_and_variables_that_there_are() -> None:
    compose: Any = yaml.safe_load(read("compose.yaml"))
    bot = compose["services"]["bot"]
    assert (DEPLOY / bot["build"]["context"] / bot["build"]["dockerfile"]).exists()
    assert bot["read_only"]
    assert bot["cap_drop"] == ["ALL"]
    offered = set(re.findall(r"^(?:# )?(\w+)=", read("env.example"), re.MULTILINE))
    assert set(re.findall(r"\$\{(\w+)", read("compose.yaml"))) <= offered
    profiles = {each for service in compose["services"].values() for each in service.get("profiles", ())}
    assert {match for line in code(PAGE) for match in re.findall(r"--profile (\w+)", line)} == profiles
    for host in re.findall(r"://(?:\w+:\w+@)?(\w+):\d", read("env.example")):
        assert host in compose["services"] | yaml.safe_load(read("compose.cluster.yaml"))["services"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose.cluster.yaml"])
def test_compose_files_keep_to_the_specification(name: str) -> None:
    compose: Any = yaml.safe_load(read(name))
    services, mounted = compose["services"], set[str]()
    assert {key for key in compose if not key.startswith("x-")} == {"services", "volumes"}
    for service in services.values():
        assert {key: type(value) for key, value in service.items()} == {key: KINDS[key] for key in service}
        assert ("image" in service) is not ("build" in service)
        for key, known in INNER_KEYS.items():
            assert service.get(key, {}).keys() <= known
        for key, pattern in PATTERNS.items():
            values = service.get(key, [])
            for value in [values] if isinstance(values, str) else values:
                assert re.fullmatch(pattern, value), (key, value)
        assert {type(value) for value in service.get("environment", {}).values()} <= {str, int}
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert {"test", "interval", "retries"} == services[other]["healthcheck"].keys()
        mounted |= {each.partition(":")[0] for each in service.get("volumes", ()) if each[0] != "."}
    assert mounted == compose["volumes"].keys()


@pytest.mark.parametrize("profile", ["ollama", "postgres"])
def test_the_variables_of_a_profile_are_settings(profile: str, tmp_path: Path) -> None:
    block = read("env.example").partition(f"--profile {profile}`")[2].partition("\n\n")[0]
    given = dict(re.findall(r"^# (PIXI_\w+)=(\S+)$", block, re.MULTILINE))
    assert load(environ=given, folder=tmp_path).sources.keys() == {
        name.removeprefix("PIXI_").lower().replace("__", ".") for name in given
    }


def test_the_unit_starts_what_there_is_and_knows_its_exit_codes() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(read("pixi.service"))
    program, command = unit["Service"]["ExecStart"].split()
    assert program.endswith("/pixi-persona")
    assert command in SUBCOMMANDS
    assert unit["Service"]["RestartPreventExitStatus"] == str(USAGE)
    assert unit["Service"]["ReadWritePaths"] == unit["Service"]["WorkingDirectory"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    for name in ("pixi.service", "pixi-worker@.service"):
        unit = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/sh", read("pixi.service"), flags=re.MULTILINE)
        (tmp_path / name).write_text(unit, encoding="utf-8")
        path = str(tmp_path / name.replace("@", "@1"))
        told = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
        )
        ours = [line for line in told.stderr.splitlines() if line.startswith("pixi") or tmp_path.name in line]
        assert (told.returncode, ours) == (0, [])


def test_the_parts_of_a_cluster_are_subcommands_and_get_what_they_need(tmp_path: Path) -> None:
    compose: Any = yaml.safe_load(read("compose.cluster.yaml"))
    services = compose["services"]
    parts = {name: service for name, service in services.items() if "command" in service}
    assert parts.keys() == {"gateway", "worker", "serve"}
    for name, service in parts.items():
        command, *flags = service["command"]
        parser = argparse.ArgumentParser(exit_on_error=False)
        frame.load(command).configure(parser)
        parser.parse_args(flags)
        assert command == name
        assert load(
            environ={key: str(value) for key, value in service["environment"].items()}, folder=tmp_path
        ).sources
        extras = set(service["build"]["args"]["EXTRAS"].split(","))
        assert {"cluster", "speed", "otel"} <= extras <= EXTRAS
    assert services["worker"]["deploy"]["replicas"] == 2
    offered = set(re.findall(r"^(?:# )?(\w+)=", read("env.example"), re.MULTILINE))
    assert set(re.findall(r"\$\{(\w+)", read("compose.cluster.yaml"))) <= offered


def test_the_collector_finds_every_part_and_is_found() -> None:
    services = yaml.safe_load(read("compose.cluster.yaml"))["services"]
    collector: Any = yaml.safe_load(read("otel-collector.yaml"))
    (scraped,) = collector["receivers"]["prometheus"]["config"]["scrape_configs"]
    (found,) = scraped["dns_sd_configs"]
    parts = [name for name, service in services.items() if "command" in service]
    assert found["names"] == parts
    assert {services[name]["environment"]["PIXI_MONITORING__PORT"] for name in parts} == {found["port"]}
    host, port = re.findall(
        r"^# OTEL_EXPORTER_OTLP_ENDPOINT=http://(\w+):(\d+)$", read("env.example"), re.MULTILINE
    )[0]
    assert host in services
    assert collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].endswith(f":{port}")
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= collector[kind].keys()
