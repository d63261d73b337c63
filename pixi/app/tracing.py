"""Sends a trace of each turn to a collector, by OpenTelemetry.

`TurnTracer` is an observer of an engine, see `pixi.channels.observing`, and makes spans of its events:

    heard                       in a gateway: recording the message and queueing its conversation
    queued                      in a worker: from there to when the turn begins
    invoke_agent PERSONA        from when the message came to when the turn ended
        chat MODEL              each request to the model
            command NAME        from where a command opens to its closing bracket
                act KIND        from there to when it was carried out
        execute_tool NAME       each call of a tool

Where gateways hear and workers answer, `heard` is the parent of `queued` and `invoke_agent`: its traceparent
goes with the conversation over the queue. Messages that come while a worker is at the conversation are
answered in the trace of the one that it was queued for.

Names follow OpenTelemetry's conventions for generative AI where these have one; Pixi's own begin with
`pixi.`. They stand here as text, since the Python package of the conventions moves them about. Spans hold no
words, names or ids of people, unless `[monitoring] words` says so: then secrets in them are hidden.

OpenTelemetry is imported where traces are wanted, and nowhere else. There is one provider for each service,
and none is made the global one of the process.
"""

import asyncio
import importlib
import json
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pixi.app.logs import TRACE_HEADERS, TURN_SPAN
from pixi.app.metrics import OTHER
from pixi.app.models import api_of, wants_native
from pixi.core.errors import ConfigError
from pixi.core.masking import hidden_in
from pixi.settings.model_choice import runs_here

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

    from pixi.engine.engine import Engine
    from pixi.settings import Settings

Form = dict[str, Any]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"
_PARTS = ("opentelemetry.sdk.trace.export", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
_NOT_INSTALLED = 'Traces need OpenTelemetry: pip install "pixi-persona[otel]"'
_PROVIDERS = {"chat": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
_LAST_SECONDS = 2.0  # for the last traces to reach the collector, when the program ends

_log = logging.getLogger("pixi.app")


@asynccontextmanager
async def tracing(engine: "Engine", settings: "Callable[[], Settings]") -> AsyncGenerator[None, None]:
    """Send traces of an engine's turns until the block is left, if the settings or the environment want it.

    Args:
        engine: whose turns are traced.
        settings: gives the present ones.

    Raises:
        ConfigError: the settings want it and OpenTelemetry is not installed, or it cannot read its variables.
    """
    async with _tracer(settings()) as tracer:
        if tracer is None:
            yield
            return
        observe = TurnTracer(tracer, engine, settings).observe
        observers = engine.settings.observers
        observers.append(observe)
        try:
            yield
        finally:
            observers.remove(observe)


@asynccontextmanager
async def tracing_heard(
    settings: "Settings",
) -> AsyncGenerator[Callable[[], AbstractContextManager[None]], None]:
    """Send traces of what a gateway hears, as `tracing` does of turns. Gives what makes `Recorder.hearing`.

    Raises:
        ConfigError: as `tracing`.
    """
    async with _tracer(settings) as tracer:
        yield nullcontext if tracer is None else heard_spans(tracer)


@asynccontextmanager
async def _tracer(settings: "Settings") -> AsyncGenerator["Tracer | None", None]:
    """Give what begins spans, and send them until the block is left; None: nobody wants traces."""
    chosen = settings.monitoring
    variable = next(filter(os.environ.get, _ENDPOINTS), "")
    if not (chosen.traces or variable):
        yield None
        return
    try:
        for part in _PARTS:
            await asyncio.to_thread(importlib.import_module, part)
    except ImportError:
        if chosen.traces:
            raise ConfigError(f"[monitoring] traces: {_NOT_INSTALLED}") from None
        # The environment may be meant for all programs of the machine.
        _log.warning("%s is set, and no trace is sent. %s", variable, _NOT_INSTALLED)
        yield None
        return
    try:
        provider = _provider_for(chosen.traces)
    except ValueError as error:
        raise ConfigError(f"A variable of OpenTelemetry in the environment cannot hold: {error}") from None
    try:
        yield provider.get_tracer("pixi", version("pixi-persona"))
    finally:
        await _shut_down(provider)


def _provider_for(address: str) -> "TracerProvider":
    """Make what sends spans to a collector, from a thread. `address`: "": that of the environment."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.version": version("pixi-persona")})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "pixi-persona"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    endpoint = address.rstrip("/").removesuffix(_PATH) + _PATH if address else None
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider


async def _shut_down(provider: "TracerProvider") -> None:
    """Send what is left. A collector that does not answer keeps nobody waiting for long."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        provider.shutdown()
        with suppress(RuntimeError):  # the loop is closed: it took too long
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=end, name="last-traces", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_SECONDS):
            await done.wait()


def heard_spans(tracer: "Tracer") -> Callable[[], AbstractContextManager[None]]:
    """Return what traces a message that is recorded and queued in its block: who answers goes on with it."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    @contextmanager
    def heard() -> Iterator[None]:
        none = trace.set_span_in_context(trace.INVALID_SPAN)
        headers: dict[str, str] = {}
        # An error's text may quote people: the log says it.
        with tracer.start_span(
            "heard",
            context=none,
            kind=trace.SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(span))
            token = TRACE_HEADERS.set(headers)
            try:
                yield
            finally:
                TRACE_HEADERS.reset(token)

    return heard


class _Trace:
    """The open spans of the turn of one conversation."""

    __slots__ = ("commands", "inside", "model", "over", "request", "root", "said", "tools")

    def __init__(self, root: "Span", inside: "Context", model: str) -> None:
        self.root = root
        self.inside = inside  # with `root` as the parent of what is begun
        self.model = model  # the name of the one that is asked
        self.request: Span | None = None  # of the request that is under way
        self.commands: dict[int, Span] = {}  # of all commands, by their numbers
        self.tools: dict[str, Span] = {}  # of calls under way, by their ids
        self.said: list[str] = []  # the model's text in this request, where words are wanted
        self.over = False  # the turn is begun again: it ends as soon as the model's stream does


class TurnTracer:
    """Makes spans of what happens in turns.

    Args:
        tracer: begins spans.
        engine: whose turns they are.
        settings: gives the present ones.
    """

    def __init__(self, tracer: "Tracer", engine: "Engine", settings: "Callable[[], Settings]") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._otel = trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = tracer
        self._engine = engine
        self._settings = settings
        self._words = settings().monitoring.words
        self._open: dict[str, _Trace] = {}  # by conversation: each has one turn at a time
        self._takers: dict[str, Callable[[_Trace, Form], None]] = {
            "asked": self._asked,
            "answered": self._answered,
            "open": self._opened,
            "close": self._closed,
            "effect": self._effect,
            "tool_call": self._tool_call,
            "tool_result": self._tool_result,
            "thrown_away": lambda turn, form: turn.root.add_event("thrown away", {"pixi.why": form["why"]}),
            "approval": lambda turn, form: turn.root.add_event("a person is asked"),
            "approved": lambda turn, form: turn.root.add_event(
                "the person answered", {"pixi.verdict": form["verdict"]}
            ),
            "state": self._state,
            "turn_end": self._turn_end,
        }
        if self._words:
            self._takers["text"] = lambda turn, form: turn.said.append(form["text"])

    def observe(self, form: Form) -> None:
        """Take an event of a turn: this is an observer of an engine."""
        if form["event"] == "turn_start":
            self._turn_start(form)
            return
        taker = self._takers.get(form["event"])
        if taker is not None and (turn := self._open.get(form["conversation"])) is not None:
            taker(turn, form)

    # The turn.

    def _turn_start(self, form: Form) -> None:
        if (before := self._open.pop(form["conversation"], None)) is not None:
            self._end(before)
        now, model = time.time_ns(), form["model"]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": form["persona"],
            "gen_ai.provider.name": _provider_of(self._settings(), model),
            "gen_ai.request.model": model,
            "pixi.turn": form["turn"],
            "pixi.waited_seconds": form["waited"],
        }
        if self._words:
            parts = [_message("user", each["text"], name=each["author"]) for each in form["answers"]]
            attributes |= {
                "gen_ai.conversation.id": form["conversation"],
                "gen_ai.input.messages": self._hidden(parts),
            }
        root = self._tracer.start_span(
            f"invoke_agent {form['persona']}",
            context=self._heard(now),
            attributes=attributes,
            start_time=now - int(form["waited"] * 1e9),
        )
        root.add_event("begun", timestamp=now)
        self._open[form["conversation"]] = _Trace(root, self._otel.set_span_in_context(root), model)
        told = root.get_span_context()
        # In the task that writes the turn: what it logs from here on belongs to this trace.
        TURN_SPAN.set(
            {
                "trace_id": self._otel.format_trace_id(told.trace_id),
                "span_id": self._otel.format_span_id(told.span_id),
            }
        )

    def _heard(self, now: int) -> "Context":
        """Return the context that the turn goes on with, and make the span of its time on the queue."""
        headers = dict(TRACE_HEADERS.get())
        context = self._otel.set_span_in_context(self._otel.INVALID_SPAN)
        context = self._propagator.extract(headers, context)
        if queued_at := int(headers.pop("queued_at", 0)):
            TRACE_HEADERS.set(headers)  # it was on the queue once, whatever follows in this task
            queued = self._tracer.start_span("queued", context=context, start_time=min(queued_at, now))
            queued.end(now)
        return context

    def _state(self, turn: _Trace, form: Form) -> None:
        turn.root.add_event(form["state"])
        if form["state"] == "restarting":
            turn.over = True
            self._end_if_over(turn, form)

    def _turn_end(self, turn: _Trace, form: Form) -> None:
        told = {
            **_answer_of(form),
            "pixi.finish": form["finish"],
            "pixi.reason": form["reason"],
            "pixi.steps": form["steps"],
            "pixi.cost_dollars": form["cost"],
            "pixi.first_visible_seconds": form["first_visible"],
        }
        turn.root.set_attributes({name: value for name, value in told.items() if value is not None})
        if form["finish"] == "error":
            self._fail(turn.root)
        del self._open[form["conversation"]]
        self._end(turn)
        TURN_SPAN.set({})

    def _end_if_over(self, turn: _Trace, form: Form) -> None:
        if turn.over and turn.request is None:
            del self._open[form["conversation"]]
            turn.root.set_attribute("pixi.reason", "restarted")
            self._end(turn)

    def _end(self, turn: _Trace) -> None:
        """End the spans of a turn that are open still."""
        for span in (turn.request, *turn.commands.values(), *turn.tools.values(), turn.root):
            if span is not None and span.is_recording():
                span.end()

    # The model, and what it writes.

    def _asked(self, turn: _Trace, form: Form) -> None:
        turn.said.clear()
        turn.request = self._tracer.start_span(
            f"chat {turn.model}",
            context=turn.inside,
            kind=self._otel.SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _provider_of(self._settings(), turn.model),
                "gen_ai.request.model": turn.model,
                "gen_ai.request.stream": True,
                "pixi.step": form["step"],
                "pixi.lines": form["lines"],
                "pixi.tools": len(form["tools"]),
            },
        )

    def _answered(self, turn: _Trace, form: Form) -> None:
        if (span := turn.request) is None:
            return
        span.set_attributes({**_answer_of(form), "gen_ai.response.finish_reasons": [form["finish"]]})
        if form["first"] is not None:
            span.set_attribute("gen_ai.response.time_to_first_chunk", form["first"])
        if self._words:
            text = "".join(turn.said)
            span.set_attribute("gen_ai.output.messages", self._hidden([_message("assistant", text)]))
        if form["failed"]:
            self._fail(span)
        span.end()
        turn.request = None
        self._end_if_over(turn, form)

    def _opened(self, turn: _Trace, form: Form) -> None:
        inside = turn.inside if turn.request is None else self._otel.set_span_in_context(turn.request)
        turn.commands[form["number"]] = self._tracer.start_span(
            f"command {form['name']}", context=inside, attributes={"pixi.command": form["name"]}
        )

    def _closed(self, turn: _Trace, form: Form) -> None:
        if (span := turn.commands.get(form["number"])) is not None:
            span.set_attribute("pixi.complete", form["complete"])
            span.end()

    def _effect(self, turn: _Trace, form: Form) -> None:
        command = turn.commands.get(form["number"])
        now = time.time_ns()
        span = self._tracer.start_span(
            f"act {form['act']}",
            context=turn.inside if command is None else self._otel.set_span_in_context(command),
            attributes={"pixi.act": form["act"], "pixi.outcome": form["outcome"]},
            start_time=now - int((form["ms"] or 0.0) * 1e6),
        )
        span.end(now)

    def _tool_call(self, turn: _Trace, form: Form) -> None:
        there = self._engine.tools.get(form["name"]) is not None
        name = form["name"] if there else OTHER  # a model may ask for tools by any words
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "pixi.step": form["step"],
        }
        if self._words:
            attributes["gen_ai.tool.call.arguments"] = self._hidden(form["arguments"])
        turn.tools[form["id"]] = self._tracer.start_span(
            f"execute_tool {name}", context=turn.inside, attributes=attributes
        )

    def _tool_result(self, turn: _Trace, form: Form) -> None:
        if (span := turn.tools.pop(form["id"], None)) is None:
            return
        if self._words:
            span.set_attribute("gen_ai.tool.call.result", self._hidden(form["result"]))
        if not form["ok"]:
            self._fail(span)
        span.end()

    def _fail(self, span: "Span") -> None:
        """Mark a span as failed. Why, the log says: an error's text may quote people."""
        span.set_attribute("error.type", "_OTHER")
        span.set_status(self._otel.StatusCode.ERROR)

    def _hidden(self, value: object) -> str:
        """Return plain data as JSON, without secrets."""
        plain = hidden_in(value, self._engine.tools.mask.redact)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)


def _answer_of(form: Form) -> Form:
    """Return the attributes of what a model answered, and what that used."""
    usage = form["usage"]
    return {
        "gen_ai.response.model": form["model"],
        "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.cache_read.input_tokens": usage["cached_tokens"],
        "gen_ai.usage.output_tokens": usage["completion_tokens"],
    }


def _message(role: str, text: str, **more: str) -> Form:
    """Return a message in the form of the conventions."""
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def _provider_of(settings: "Settings", model: str) -> str:
    """Return the provider of a model, in the conventions' words: what its server is spoken with."""
    listed = (each for one in (settings.model, *settings.models.values()) for each in (one, *one.fallback))
    chosen = next((each for each in listed if each.name == model), settings.model)
    if runs_here(chosen):
        return "pixi"
    api = api_of(chosen, native=wants_native(settings))
    return _PROVIDERS.get(api, api)
