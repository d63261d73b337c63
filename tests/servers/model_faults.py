"""What a model's server can do wrong, one `Fault` for each, over real sockets.

    async with served(fault) as faulty:
        ...ask the model at faulty.base_url...
        assert len(faulty.requests) <= 3

Give the model `FIRST_SECONDS` and `GAP_SECONDS` for its deadlines: what stalls here stalls longer.
"""

import asyncio
import gzip
import re
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.servers.scripted_openai import (
    Close,
    Flood,
    Hang,
    Json,
    Reply,
    Reset,
    ScriptedOpenAI,
    Seen,
    Step,
    Wait,
    answer,
    call,
    chunk,
    content,
    error,
    event,
    finish,
    head,
    page,
    stream,
)

FIRST_SECONDS = GAP_SECONDS = 0.4
"""Deadlines that each stall of these outlasts."""

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


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_FINE = stream(SAID, finish())
_PINGS: list[str | Json | Step] = [b": ping\n\n", Wait(0.05)]
_BLANKS: list[str | Json | Step] = [chunk({"content": ""}), Wait(0.05)]
_MEGABYTE = b"x" * 1_000_000
_PIECE = event(call(arguments="x" * 100_000, index=0))
_BOMB = gzip.compress(b"data: " + b"x" * 100_000_000, compresslevel=1)
_CUT = event(content(SAID))
_EMOJI = _CUT.index("🥞".encode()) + 2

BEFORE_ANY_WORD = (
    Fault("connection refused", says="Nothing answers at", where="nobody", asked=0),
    Fault("no such host", says="There is no host nowhere.invalid", where="no host", asked=0),
    Fault(
        "self-signed certificate", (_FINE,), says="No trusted TLS connection", where="self-signed", asked=0
    ),
    Fault("expired certificate", (_FINE,), says="No trusted TLS connection", where="expired", asked=0),
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
        "closed after the headers", (stream(done=False, end=False),), says="broke the connection off", asked=3
    ),
    Fault(
        "reset after the headers", (stream(Wait(0.02), Reset()),), says="broke the connection off", asked=3
    ),
    Fault("an empty body", (stream(done=False),), says="without a reply", asked=3),
    Fault("not HTTP", (Reply((b"SSH-2.0-OpenSSH_9.6\r\n\r\n", Close())),), says="does not speak HTTP"),
    Fault("429 with a long Retry-After", (error(429, "Slow", retry_after="3600"),), says="wait 3600 s"),
    Fault(
        "429 without a header", (error(429, "Slow down"),), says="limits how often it may be asked", asked=3
    ),
    Fault("401", (error(401, "Incorrect API key provided."),), says="wants a key|refused the key"),
    Fault("402", (error(402, "Insufficient Balance"),), says="no credit left"),
    Fault("403", (error(403, "Not for you"),), says="does not let this key use the model"),
    Fault("404, the model was removed", (error(404, "The model does not exist"),), says="has no model"),
    Fault("500", (error(500, "Oh no"),), says=r"failed \(500\)", asked=3),
    Fault("502, a proxy's page", (page(502),), says=r"failed \(502\)", asked=3),
    Fault("503", (error(503, "Loading model"),), says=r"failed \(503\)", asked=3),
    Fault("another content type", (answer(200, "hello", "text/plain"),), says="not answer as a model server"),
    Fault("HTML instead of JSON", (page(200),), says="answered with a web page"),
    Fault("another JSON", (answer(200, {"hello": 1}),), says="does not answer as a model server"),
    Fault("an error in a 200", (answer(200, {"error": {"message": "boom"}}),), says="It said: boom", asked=3),
    Fault(
        "an error in a stream",
        (stream(event({"error": {"message": "boom"}})),),
        says="It said: boom",
        asked=3,
    ),
    Fault("a stall before the headers", (Reply((Hang(),)),), says="sent no words for"),
    Fault("a stall before the first byte", (stream(Hang()),), says="sent no words for"),
    Fault("pings only", (stream(*_PINGS * 40),), says="sent no words for"),
    Fault("empty pieces only", (stream(*_BLANKS * 40),), says="sent no words for"),
    Fault("half an error's body", (Reply((head(503, content_length="99"), b"{", Hang())),), says="no words"),
    Fault(
        "a redirect to elsewhere",
        (answer(307, "", location="http://127.0.0.1:9/v1/chat/completions"),),
        says="sends us on to another address",
    ),
    Fault(
        "one line of 50 MB",
        (stream(b"data: ", Flood(_framed(_MEGABYTE), 50), done=False),),
        says="too long to be a reply",
    ),
    Fault(
        "an endless stream without a line end",
        (stream(Flood(_framed(_MEGABYTE), 1_000_000), done=False),),
        says="too long to be a reply",
    ),
    Fault(
        "an endless object",
        (Reply((head(200, "application/json"), b'{"', Flood(_MEGABYTE, 1_000_000))),),
        says="too long to be a reply",
    ),
    Fault(
        "an endless tool call",
        (stream(call("look", '{"at": "', index=0), Flood(_framed(_PIECE), 1_000_000), done=False),),
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
        (Reply((head(transfer_encoding="chunked"), Wait(0.02), b"zz\r\n", Close())),),
        says="sent no words for",
    ),
    Fault(
        "a content length that lies",
        (Reply((head(content_length="5000"), event(content("")), Close())),),
        says="broke the connection off",
        asked=3,
    ),
)
"""Nothing of a reply comes: another attempt, or another model, may be asked."""

AFTER_SOME_WORDS = (
    Fault("reset in the middle", (stream(SAID, Wait(0.02), Reset()),), "broke the connection off", SAID),
    Fault("cut in the middle", (stream(SAID, done=False, end=False),), "broke the connection off", SAID),
    Fault("an error in the middle", (stream(SAID, event({"error": "boom"})),), "It said: boom", SAID),
    Fault("a stall in the middle", (stream(SAID, Hang()),), "stopped in the middle of its reply", SAID),
    Fault("pings in the middle", (stream(SAID, *_PINGS * 40),), "stopped in the middle of its reply", SAID),
    Fault(
        "a line of 50 MB in the middle",
        (stream(SAID, b"data: ", Flood(_framed(_MEGABYTE), 50), done=False),),
        "too long to be a reply",
        SAID,
    ),
)
"""What was said stands, and nothing is asked again."""

NONE_TO_SPEAK_OF = (
    Fault("500, then fine", (error(500, "Oh no"), _FINE), asked=2),
    Fault("502 and 503, then fine", (page(502), error(503, "Loading model"), _FINE), asked=3),
    Fault("429 with Retry-After, then fine", (error(429, "Slow", retry_after="0.05"), _FINE), asked=2),
    Fault("429 without a header, then fine", (error(429, "Slow"), _FINE), asked=2),
    Fault("reset, then fine", (Reply((Reset(),)), _FINE), asked=2),
    Fault("an error in a 200, then fine", (answer(200, {"error": {"message": "boom"}}), _FINE), asked=2),
    Fault("pieces of one byte", (_FINE.bytewise(),)),
    Fault("UTF-8 cut in two", (stream(_CUT[:_EMOJI], Wait(0.02), _CUT[_EMOJI:], finish()),)),
    Fault("a broken event", (stream(b"data: {broken\n\n", SAID, b"data: \xff\n\n", finish()),)),
    Fault("no end mark", (stream(SAID, finish(), done=False),)),
    Fault("no reason and no end mark", (stream(SAID, done=False),)),
    Fault("broken off after the reason", (stream(SAID, finish(), Reset()),)),
    Fault("left open after the reason", (stream(SAID, finish(), Hang()),)),
    Fault("left open after the end mark", (stream(SAID, finish(), event("[DONE]"), Hang()),)),
    Fault("the content type of a page's text", (stream(SAID, finish(), content_type="text/plain"),)),
    Fault("not streamed", (answer(200, {"choices": [{"message": {"content": SAID}}]}),)),
    Fault(
        "more than its content length",
        (Reply((head(content_length=str(len(_CUT))), _CUT, b"HTTP/1.1 500 Oh no\r\n\r\n")),),
    ),
)
"""Whoever talks meets no fault."""

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
