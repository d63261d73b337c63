"""One trace for a message and its answer, though one process hears and another answers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from pixi.app.cluster.gateway import Recorder
from pixi.app.cluster.queue import open_queue
from pixi.app.logs import TRACE_HEADERS
from pixi.app.tracing import TurnTracer, heard_spans
from pixi.engine import Engine
from pixi.settings import Settings
from pixi.testing import ScriptedModel
from tests.app.cluster.house import TALK, House, working
from tests.engine.scene import PIXI
from tests.servers.postgres import Postgres


class Process:
    """A process that traces: it begins spans, and keeps those that ended."""

    def __init__(self) -> None:
        self._ended = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._ended))
        self.tracer: Tracer = provider.get_tracer("pixi")

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._ended.get_finished_spans()}


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_what_a_gateway_hears_is_the_parent_of_what_a_worker_does(house: House, url: str) -> None:
    gateway, worker = Process(), Process()
    cast("Recorder", house.intake).hearing = heard_spans(gateway.tracer)
    model = ScriptedModel("[SEND: zebrafinch]")
    async with open_queue(url) as queue, Engine(model=model, persona=PIXI, store=house.store) as engine:
        engine.settings.observers.append(TurnTracer(worker.tracer, engine, Settings).observe)
        await house.say("a zebrafinch", by="zebrafinch")
        assert TRACE_HEADERS.get() == {}
        async with working(engine, house.store, queue, house):
            await house.rests()
            assert house.said() == ["zebrafinch"]
    (heard,) = gateway.spans.values()
    spans = worker.spans
    turn, act = spans["invoke_agent Pixi"], spans["act send"]
    assert parent(spans["queued"]) == parent(turn) == heard.context.span_id
    assert parent(act) == spans["command send"].context.span_id
    assert {span.context.trace_id for span in spans.values()} == {heard.context.trace_id}
    times = [spans["queued"].start_time, spans["queued"].end_time, spans["chat scripted"].start_time]
    assert times == sorted(times, key=lambda time: time or 0)
    assert "zebrafinch" not in "".join(span.to_json() for span in (heard, *spans.values()))


async def test_a_conversation_that_is_put_off_goes_on_in_its_trace(house: House, url: str) -> None:
    async def answer(conversation: str, times: int) -> None:
        began.append((times, TRACE_HEADERS.get()))
        if times == 0:
            await queue.put(conversation, times=1)
        else:
            done.set()

    began: list[tuple[int, Mapping[str, str]]] = []
    done = asyncio.Event()
    gateway = Process()
    cast("Recorder", house.intake).hearing = heard_spans(gateway.tracer)
    async with open_queue(url) as queue:
        await house.say("hi")
        task = asyncio.create_task(queue.work(answer, bot=TALK, concurrency=1))
        await done.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    (_, first), (_, second) = began
    assert first["traceparent"] == second["traceparent"]


async def test_without_traces_the_queue_is_told_nothing_of_them(
    house: House, url: str, postgres: Postgres
) -> None:
    await house.say("hi")
    found = postgres.run_in(url.partition("schema=")[2], "SELECT args FROM procrastinate_jobs")
    assert found == [({"conversation": TALK, "times": 0},)]
