"""Turns as traces, sent to a collector: whole, joined with the log, without a word unless that is wanted."""

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from pixi.app import tracing
from pixi.app.logs import TURN_SPAN, form_of
from pixi.app.service import BotService
from pixi.core.errors import ConfigError
from pixi.core.masking import SecretRedactor
from pixi.testing import RecordingChannel
from tests.app.watched import HERE, WORD, answers, talk, watched
from tests.servers.scripted_openai import Hang, Reply, Seen, finish, stream
from tests.servers.staged_web import served
from tests.waiting import until


@dataclass
class Collector:
    """Takes OTLP over HTTP, and keeps it."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """All spans, in the order in which they began."""
        found = [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    async def take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        self.bodies.append(await request.read())
        self.requests.append(ExportTraceServiceRequest.FromString(self.bodies[-1]))
        return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def collector() -> AsyncGenerator[Collector, None]:
    """A collector at an address of this machine."""
    it = Collector()
    async with served({"/v1/traces": it.take}) as port:
        it.url = f"http://127.0.0.1:{port}"
        yield it


@asynccontextmanager
async def traced(
    folder: Path, more: str = "", choose: Callable[[Seen], Reply] = answers
) -> AsyncGenerator[tuple[BotService, Collector], None]:
    """A service that sends traces, and their collector, which has them all once the block is left."""
    async with collector() as here:
        more = f'[monitoring]\ntraces = "{here.url}"\n{more}'
        async with watched(folder, more, choose) as service:
            yield service, here


def attributes(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        texts = [one.string_value for one in each.value.array_value.values]
        found[each.key] = texts if kind == "array_value" else getattr(each.value, str(kind))
    return found


def told(span: Span, *names: str) -> tuple[Any, ...]:
    return tuple(attributes(span).get(name) for name in names)


async def test_a_turn_is_a_trace_of_its_requests_commands_acts_and_tools(tmp_path: Path) -> None:
    async with traced(tmp_path) as (service, here):
        await talk(service, f"I have a {WORD}", f"break the {WORD}")
    (resource, *_) = (each.resource for request in here.requests for each in request.resource_spans)
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert (about["service.name"], about["service.version"]) == ("pixi-persona", service.version)
    whole, broken = here.named("invoke_agent Wren")
    assert told(
        whole, "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.provider.name", "gen_ai.request.model"
    ) == ("invoke_agent", "Wren", "openai", "first")
    assert told(whole, "pixi.finish", "pixi.reason", "pixi.steps") == ("stop", "answered", 2)
    assert told(whole, "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens") == (250, 18)
    assert attributes(whole)["pixi.first_visible_seconds"] > 0
    assert [event.name for event in whole.events] == ["begun"]
    assert whole.start_time_unix_nano < whole.events[0].time_unix_nano
    one, two, three = here.named("chat first")
    assert {span.parent_span_id for span in (one, two)} == {whole.span_id}
    assert one.kind == Span.SPAN_KIND_CLIENT
    assert told(
        one,
        "gen_ai.operation.name",
        "gen_ai.response.finish_reasons",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "pixi.step",
    ) == ("chat", ["stop"], 100, 60, 1)
    first, last = attributes(one)["gen_ai.response.time_to_first_chunk"], one.end_time_unix_nano
    assert 0 < first <= (last - one.start_time_unix_nano) / 1e9
    for name, parents in {"note": [one], "send": [one, two], "react": [two]}.items():
        commands = here.named(f"command {name}")
        assert [span.parent_span_id for span in commands] == [parent.span_id for parent in parents]
        acts = [act for act in here.named(f"act {name}") if act.trace_id == whole.trace_id]
        assert [act.parent_span_id for act in acts] == [span.span_id for span in commands]
        assert all(told(act, "pixi.outcome") == ("done",) for act in acts)
    (remember,), (made_up,) = here.named("execute_tool remember"), here.named("execute_tool other")
    for tool, code in ((remember, Status.STATUS_CODE_UNSET), (made_up, Status.STATUS_CODE_ERROR)):
        assert (tool.parent_span_id, tool.status.code) == (whole.span_id, code)
    assert told(remember, "gen_ai.operation.name", "gen_ai.tool.name") == ("execute_tool", "remember")
    assert three.status.code == broken.status.code == Status.STATUS_CODE_ERROR
    assert (three.trace_id, broken.trace_id != whole.trace_id) == (broken.trace_id, True)
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in here.spans)
    for body in here.bodies:
        assert WORD.encode() not in body.lower()
        assert HERE.encode() not in body


async def test_words_are_in_traces_where_the_settings_say_so_and_secrets_are_not(tmp_path: Path) -> None:
    async with traced(tmp_path, "words = true\n") as (service, here):
        service.mask.learn(["hunter2hunter2"])
        await talk(service, f"I have a {WORD}, and hunter2hunter2")
    (root,) = here.named("invoke_agent Wren")
    (message,) = json.loads(attributes(root)["gen_ai.input.messages"])
    assert message["parts"][0]["content"] == f"I have a {WORD}, and ***"
    assert attributes(root)["gen_ai.conversation.id"] == HERE
    (remember,) = here.named("execute_tool remember")
    assert json.loads(attributes(remember)["gen_ai.tool.call.arguments"]) == {"fact": f"has a {WORD}"}
    assert WORD in attributes(remember)["gen_ai.tool.call.result"]
    (reply,) = json.loads(attributes(here.named("chat first")[1])["gen_ai.output.messages"])
    assert reply["parts"][0]["content"].startswith(f"[SEND: your {WORD} it is]")
    assert not any(b"hunter2" in body for body in here.bodies)


async def test_log_lines_of_a_turn_name_its_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pixi")
    forms: list[dict[str, Any]] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            forms.append(form_of(record, SecretRedactor()))

    class Telling(RecordingChannel):
        async def send(self, *args: Any, **more: Any) -> str | None:
            logging.getLogger("pixi.test").info("in an act")
            return await super().send(*args, **more)

    lines = Lines()
    logging.getLogger("pixi").addHandler(lines)
    try:
        async with traced(tmp_path) as (service, here):
            await talk(service, "hi", channel=Telling(HERE))
            logging.getLogger("pixi.test").info("beside the talk")
    finally:
        logging.getLogger("pixi").removeHandler(lines)
    (root,) = here.named("invoke_agent Wren")
    (turn,) = (form for form in forms if form["logger"] == "pixi.turns")
    assert (turn["trace_id"], turn["span_id"]) == (root.trace_id.hex(), root.span_id.hex())
    *acts, beside = (form for form in forms if form["logger"] == "pixi.test")
    assert [act["trace_id"] for act in acts] == 2 * [root.trace_id.hex()]
    assert "trace_id" not in beside
    assert TURN_SPAN.get() == {}


async def test_the_environment_names_the_collector_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collector() as here:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", here.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "wren-in-the-kitchen")
        async with watched(tmp_path) as service:
            await talk(service, "hi")
        (resource, *_) = (each.resource for request in here.requests for each in request.resource_spans)
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert about["service.name"] == "wren-in-the-kitchen"
    assert len(here.named("invoke_agent Wren")) == 1
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-5")
    with pytest.raises(ConfigError, match="OpenTelemetry in the environment cannot hold: schedule_delay"):
        async with watched(tmp_path):
            pass


async def test_a_turn_that_is_begun_again_is_two_traces(tmp_path: Path) -> None:
    asked: list[Seen] = []

    def slow_at_first(seen: Seen) -> Reply:
        asked.append(seen)
        return stream(Hang()) if len(asked) == 1 else stream("[SEND: hi both]", finish())

    async with traced(tmp_path, choose=slow_at_first) as (service, here):
        first = asyncio.create_task(talk(service, "hi"))
        await until(lambda: asked)
        channel = await talk(service, "and hi", start=2)
        await first
    assert channel.sent == ["hi both"] or first.result().sent == ["hi both"]
    begun, again = here.named("invoke_agent Wren")
    assert told(begun, "pixi.reason", "pixi.finish") == ("restarted", None)
    assert [event.name for event in begun.events] == ["begun", "restarting"]
    assert told(again, "pixi.reason", "pixi.finish") == ("answered", "stop")
    assert again.trace_id != begun.trace_id
    assert [span.parent_span_id for span in here.named("chat first")] == [begun.span_id, again.span_id]


async def test_a_collector_that_is_away_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_LAST_SECONDS", 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")  # seconds that it tries
    async with watched(tmp_path, '[monitoring]\ntraces = "http://127.0.0.1:1"\n') as service:
        channel = await talk(service, "hi")
    assert channel.sent[0].startswith("a ")


async def test_without_opentelemetry_a_setting_is_refused_and_the_environment_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, tracing._PARTS[1], None)
    with pytest.raises(ConfigError, match=re.escape('pip install "pixi-persona[otel]"')):
        async with watched(tmp_path, '[monitoring]\ntraces = "http://127.0.0.1:1"\n'):
            pass
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    async with watched(tmp_path) as service:
        assert service.engine.settings.observers == []
    assert "no trace is sent" in caplog.text


def test_names_of_attributes_are_those_of_the_conventions() -> None:
    used = set(re.findall(r'"(gen_ai\.[\w.]+)"', Path(tracing.__file__).read_text(encoding="utf-8")))
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    assert len(used) > 10
    assert used <= known
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert {"chat", "invoke_agent", "execute_tool"} <= operations
