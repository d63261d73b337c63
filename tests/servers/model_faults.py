"""What a model's server can do wrong, one `Fault` for each, over real sockets.

async with served(fault) as faulty:
    ...ask the model at faulty.base_url...
    assert len(faulty.requests) <= 3
"""

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from pixi.models.deadlines import Deadlines
from tests.servers.dialects import CHAT, Part, Speech, framed
from tests.servers.scripted_openai import (
    Close,
    Flood,
    Hang,
    Later,
    Reply,
    Reset,
    ScriptedOpenAI,
    Seen,
    Stall,
    Step,
    Wait,
    answer,
    call,
    content,
    event,
    finish,
    head,
    page,
    stream,
)

HURRIED = Deadlines(first=5.0, gap=5.0, turn=60.0)
"""Deadlines that each stall of a `hurried` fault outlasts, by a clock that runs ahead."""

SAID = "[SEND: pancakes for all 🥞]"
"""The reply of a server that is, or becomes, fine."""

CERTIFICATES = Path(__file__).parent / "certificates"

Where = Literal["a server", "nobody", "no host", "self-signed", "expired", "no TLS"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a server does wrong.

    Attributes:
        name: of the fault; unique.
        replies: to each request in turn; the last again and again.
        says: a pattern that the one notice holds; "" where it ends in the reply `SAID`.
        heard: what was said before it went wrong.
        where: what there is at the address.
        asked: how many requests come through, of all attempts.
    """

    name: str
    replies: tuple[Reply, ...] = ()
    says: str = ""
    heard: str = ""
    where: Where = "a server"
    asked: int = 1

    @property
    def stalls(self) -> bool:
        """Whether it ends at a deadline; what does not stall takes as long as a busy machine takes."""
        return bool(re.search("no words|stopped in the middle", self.says))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Faulty:
    """A fault that is there to be met. `requests` are those that came through."""

    base_url: str
    requests: list[Seen]


@asynccontextmanager
async def served(fault: Fault) -> AsyncGenerator[Faulty, None]:
    """Let there be a server with that fault."""
    if fault.where == "no host":
        yield Faulty("http://nowhere.invalid/v1", [])
    elif fault.where == "nobody":
        yield Faulty(f"http://127.0.0.1:{closed_port()}/v1", [])
    elif fault.where == "no TLS":
        async with await asyncio.start_server(_refuse_tls, "127.0.0.1", 0) as plain:
            yield Faulty(f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/v1", [])
    else:
        tls = {"self-signed": "own", "expired": "expired"}.get(fault.where)
        async with ScriptedOpenAI(*fault.replies, tls=speaking_tls(tls) if tls else None) as server:
            yield Faulty(server.base_url, server.requests)


async def _refuse_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a greeting that is no HTTP as web servers do."""
    await reader.read(1024)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
    writer.close()


def closed_port() -> int:
    """A port of 127.0.0.1 where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def speaking_tls(certificate: str) -> ssl.SSLContext:
    """TLS with a certificate for 127.0.0.1 that nobody signed but itself: `own`, or `expired`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
    return context


def trusting(certificate: str) -> ssl.SSLContext:
    """For a client that trusts who signed that certificate."""
    return ssl.create_default_context(cafile=CERTIFICATES / f"{certificate}.pem")


def hurried(fault: Fault) -> Fault:
    """The fault with the loop's clock put forward where its server waits or stalls.

    For a test whose model lives in the same loop: give it `HURRIED` for its deadlines.
    """

    def quick(step: Step) -> list[Step]:
        match step:
            case Wait(seconds):
                return [Later(5 * seconds)]
            case Hang():
                return [Stall()]
            case Close() if fault.stalls:  # the client waits on
                return [Later(0.2)] * 40
            case _:
                return [step]

    replies = (Reply(tuple(chain.from_iterable(map(quick, each.steps)))) for each in fault.replies)
    return replace(fault, replies=tuple(replies))


_MEGABYTE = framed(b"x" * 1_000_000)
_HEAD = head(transfer_encoding="chunked")


def _bomb() -> bytes:
    """A line of 100 MB, as gzip: made in pieces, for it is made where tests are only counted."""
    packer = zlib.compressobj(1, wbits=31)
    packed = [packer.compress(b"data: "), *(packer.compress(b"x" * 1_000_000) for _ in range(100))]
    return b"".join([*packed, packer.flush()])


_BOMB = _bomb()


def before_any_word(speaks: Speech) -> tuple[Fault, ...]:
    """Make the faults where nothing of a reply comes: another attempt, or another model, may be asked."""
    fine, error = speaks.says(SAID), speaks.error
    pings = [step for _ in range(40) for step in (framed(speaks.ping), Wait(0.05))]
    blanks = [step for _ in range(40) for step in (speaks.blank, Wait(0.05))]
    boom = answer(200, {"error": {"message": "boom"}})
    return (
        Fault("connection refused", says="Nothing answers at", where="nobody", asked=0),
        Fault("no such host", says="There is no host nowhere.invalid", where="no host", asked=0),
        Fault(
            "self-signed certificate",
            (fine,),
            says="No trusted TLS connection",
            where="self-signed",
            asked=0,
        ),
        Fault("expired certificate", (fine,), says="No trusted TLS connection", where="expired", asked=0),
        Fault("plain HTTP on a TLS port", says="No trusted TLS connection", where="no TLS", asked=0),
        Fault("reset before the headers", (Reply((Reset(),)),), says="broke the connection off", asked=3),
        Fault("closed before the headers", (Reply((Close(),)),), says="broke the connection off", asked=3),
        Fault(
            "reset during the headers",
            (Reply((b"HTTP/1.1 200 OK\r\ncontent-ty", Wait(0.02), Reset())),),
            says="broke the connection off",
            asked=3,
        ),
        Fault(
            "closed after the headers", (Reply((_HEAD, Close())),), says="broke the connection off", asked=3
        ),
        Fault(
            "reset after the headers",
            (Reply((_HEAD, Wait(0.02), Reset())),),
            says="broke the connection off",
            asked=3,
        ),
        Fault("an empty body", (Reply((_HEAD, b"0\r\n\r\n")),), says="without a reply", asked=3),
        Fault("not HTTP", (Reply((b"SSH-2.0-OpenSSH_9.6\r\n\r\n", Close())),), says="does not speak HTTP"),
        Fault("429 with a long Retry-After", (error(429, "Slow", retry_after="3600"),), says="wait 3600 s"),
        Fault(
            "429 without a header",
            (error(429, "Slow down"),),
            says="limits how often it may be asked",
            asked=3,
        ),
        Fault("401", (error(401, "Incorrect API key provided."),), says="wants a key|refused the key"),
        Fault("402", (error(402, "Insufficient Balance"),), says="no credit left"),
        Fault("403", (error(403, "Not for you"),), says="does not let this key use the model"),
        Fault("404, the model was removed", (error(404, "The model does not exist"),), says="has no model"),
        Fault("500", (error(500, "Oh no"),), says=r"failed \(500\)", asked=3),
        Fault("502, a proxy's page", (page(502),), says=r"failed \(502\)", asked=3),
        Fault("503", (error(503, "Loading model"),), says=r"failed \(503\)", asked=3),
        Fault(
            "another content type",
            (answer(200, "hello", "text/plain"),),
            says="not answer as a model server",
        ),
        Fault("HTML instead of JSON", (page(200),), says="answered with a web page"),
        Fault("another JSON", (answer(200, {"hello": 1}),), says="does not answer as a model server"),
        Fault("an error in a 200", (boom,), says="It said: boom", asked=3),
        Fault(
            "an error in a stream",
            (speaks.says(speaks.error_event, stop=None),),
            says="It said: boom",
            asked=3,
        ),
        Fault("a stall before the headers", (Reply((Hang(),)),), says="sent no words for"),
        Fault("a stall before the first byte", (Reply((_HEAD, Hang())),), says="sent no words for"),
        Fault("pings only", (Reply((_HEAD, *pings)),), says="sent no words for"),
        Fault("empty pieces only", (speaks.says(*blanks, stop=None),), says="sent no words for"),
        Fault(
            "half an error's body", (Reply((head(503, content_length="99"), b"{", Hang())),), says="no words"
        ),
        Fault(
            "a redirect to elsewhere",
            (answer(307, "", location="http://127.0.0.1:9/v1/chat/completions"),),
            says="sends us on to another address",
        ),
        Fault(
            "one line of 50 MB",
            (Reply((_HEAD, framed(b"data: "), Flood(_MEGABYTE, 50), b"0\r\n\r\n")),),
            says="too long to be a reply",
        ),
        Fault(
            "an endless stream without a line end",
            (Reply((_HEAD, Flood(_MEGABYTE, 1_000_000))),),
            says="too long to be a reply",
        ),
        Fault(
            "an endless object",
            (Reply((head(200, "application/json"), b'{"', Flood(b"x" * 1_000_000, 1_000_000))),),
            says="too long to be a reply",
        ),
        Fault(
            "a gzip bomb",
            (Reply((head(content_encoding="gzip", content_length=str(len(_BOMB))), _BOMB)),),
            says="too long to be a reply",
        ),
        Fault(
            "a gzip bomb for an error",
            (Reply((head(400, content_encoding="gzip", content_length=str(len(_BOMB))), _BOMB)),),
            says=r"refused the request \(400\)",
        ),
        Fault(
            "framing that breaks",
            (Reply((_HEAD, Wait(0.02), b"zz\r\n", Close())),),
            says="broke the connection off",
            asked=3,
        ),
        Fault(
            "a content length that lies",
            (Reply((head(content_length="5000"), speaks.ping, Close())),),
            says="broke the connection off",
            asked=3,
        ),
    )


def after_some_words(speaks: Speech) -> tuple[Fault, ...]:
    """Make the faults after which what was said stands, and nothing is asked again."""
    pings = [step for _ in range(40) for step in (speaks.ping, Wait(0.05))]
    flood = (b"data: ", Flood(_MEGABYTE, 50))

    def begun(*parts: Part, end: bool = True) -> tuple[Reply]:
        return (speaks.says(SAID, *parts, stop=None, end=end),)

    return (
        Fault("reset in the middle", begun(Wait(0.02), Reset()), "broke the connection off", SAID),
        Fault("cut in the middle", begun(end=False), "broke the connection off", SAID),
        Fault("an error in the middle", begun(speaks.error_event), "It said: boom", SAID),
        Fault("a stall in the middle", begun(Hang()), "stopped in the middle of its reply", SAID),
        Fault("pings in the middle", begun(*pings), "stopped in the middle of its reply", SAID),
        Fault("a line of 50 MB in the middle", begun(*flood), "too long to be a reply", SAID),
    )


def none_to_speak_of(speaks: Speech) -> tuple[Fault, ...]:
    """Make the faults that whoever talks does not meet."""
    fine, error = speaks.says(SAID), speaks.error
    boom = answer(200, {"error": {"message": "boom"}})
    return (
        Fault("500, then fine", (error(500, "Oh no"), fine), asked=2),
        Fault("502 and 503, then fine", (page(502), error(503, "Loading model"), fine), asked=3),
        Fault("429 with Retry-After, then fine", (error(429, "Slow", retry_after="0.05"), fine), asked=2),
        Fault("429 without a header, then fine", (error(429, "Slow"), fine), asked=2),
        Fault("reset, then fine", (Reply((Reset(),)), fine), asked=2),
        Fault("an error in a 200, then fine", (boom, fine), asked=2),
        Fault("pieces of one byte", (fine.bytewise(),)),
        Fault("UTF-8 cut in two", (_cut_in(fine, "🥞".encode()),)),
        Fault("a broken event", (speaks.says(b"data: {broken\n\n", SAID),)),
        Fault("broken off after the reason", (Reply((*fine.steps[:-1], Reset())),)),
        Fault("left open after the end mark", (Reply((*fine.steps[:-1], Hang())),)),
    )


def _cut_in(reply: Reply, sign: bytes) -> Reply:
    """The reply with a pause in the middle of a sign of several bytes."""
    at = next(n for n, step in enumerate(reply.steps) if isinstance(step, bytes) and sign in step)
    step = reply.steps[at]
    assert isinstance(step, bytes)
    middle = step.index(sign) + 2
    return Reply((*reply.steps[:at], step[:middle], Wait(0.02), step[middle:], *reply.steps[at + 1 :]))


_CUT = event(content(SAID))
_PIECE = event(call(arguments="x" * 100_000, index=0))

BEFORE_ANY_WORD = (
    *before_any_word(CHAT),
    Fault(
        "an endless tool call",
        (stream(call("look", '{"at": "', index=0), Flood(framed(_PIECE), 1_000_000), done=False),),
        says="too long to be a reply",
    ),
)
"""Of chat completions: nothing of a reply comes."""

AFTER_SOME_WORDS = after_some_words(CHAT)
"""Of chat completions: what was said stands."""

NONE_TO_SPEAK_OF = (
    *none_to_speak_of(CHAT),
    Fault("no end mark", (stream(SAID, finish(), done=False),)),
    Fault("no reason and no end mark", (stream(SAID, done=False),)),
    Fault("left open after the reason", (stream(SAID, finish(), Hang()),)),
    Fault("the content type of a page's text", (stream(SAID, finish(), content_type="text/plain"),)),
    Fault("not streamed", (answer(200, {"choices": [{"message": {"content": SAID}}]}),)),
    Fault(
        "more than its content length",
        (Reply((head(content_length=str(len(_CUT))), _CUT, b"HTTP/1.1 500 Oh no\r\n\r\n")),),
    ),
)
"""Of chat completions: whoever talks meets no fault."""

FAULTS = (*BEFORE_ANY_WORD, *AFTER_SOME_WORDS, *NONE_TO_SPEAK_OF)


def odd_calls(name: str) -> Reply:
    """Two calls of a tool whose pieces come out of order, by index, the first one last; then one without."""
    return stream(
        call(name, '{"at": ', index=1, call_id="b"),
        call(name, '{"at": "one', index=0, call_id="a"),
        call(arguments='"two"}', index=1),
        call(arguments='"}', index=0),
        call(name, '{"at": "three"}', call_id="c"),
        finish("tool_calls"),
    )
