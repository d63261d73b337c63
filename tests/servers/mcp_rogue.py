"""An MCP server over standard input and output that behaves as badly as it is told to.

    python mcp_rogue.py WAY [FILE]

It is written without the SDK, so that it can break every rule. FILE gets a line for each thing worth noting.
"""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

WAY = sys.argv[1] if len(sys.argv) > 1 else "well"
NOTES = sys.argv[2] if len(sys.argv) > 2 else os.devnull
BIG = 50 * 2**20
WRITING = threading.Lock()
ECHO = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


def note(text: str) -> None:
    with open(NOTES, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def write(text: str) -> None:
    with WRITING:
        sys.stdout.write(text)
        sys.stdout.flush()


def send(**message: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(number: object, **result: object) -> None:
    send(id=number, result=result)


def for_ever(text: str, pause: float = 0.0) -> None:
    while True:
        write(text)
        time.sleep(pause)


def sleep() -> None:
    while True:
        time.sleep(60)


def abyss(levels: int) -> dict[str, Any]:
    """A schema nested so deeply."""
    sys.setrecursionlimit(10 * levels)
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def tools() -> list[dict[str, Any]]:
    """What is listed, by the way it goes."""
    described = dict(ECHO)
    if WAY == "twice":
        return [ECHO, {**ECHO, "description": "Another one."}]
    if WAY == "abyss":
        return [{"name": "deep", "inputSchema": abyss(800)}, ECHO]
    if WAY == "rubbish-tool":
        return [ECHO, {"name": 7, "inputSchema": "none"}]
    if WAY in ("changing", "described"):
        with open(NOTES, encoding="utf-8") as file:
            described["description"], *more = file.read().splitlines()
        return [described, *({**ECHO, "name": name} for name in more)]
    if WAY == "restless":  # each time all others, and no end of saying so
        note("listed")
        threading.Thread(target=restless, daemon=True).start()
        return [{**ECHO, "name": f"{time.monotonic_ns()}-{number}"} for number in range(20)]
    return [described]


def restless() -> None:
    for _ in range(100):
        send(method="notifications/tools/list_changed")
        time.sleep(0.001)


def listed(number: object, cursor: str | None) -> None:
    if WAY == "hang-list":
        sleep()
    elif WAY == "pages":
        page = int(cursor or 0)
        rest = {} if page == 2 else {"nextCursor": str(page + 1)}
        answer(number, tools=[{**ECHO, "name": f"echo{page}"}], **rest)
    elif WAY == "fat-pages":
        fat = {**ECHO, "name": f"echo{cursor}", "description": "x" * 3 * 2**20}
        answer(number, tools=[fat], nextCursor=f"{cursor}+")
    elif WAY == "pages-without-end":
        answer(number, tools=[], nextCursor="more")
    else:
        answer(number, tools=tools())


def called(number: int, arguments: dict[str, Any]) -> None:
    text = {"type": "text", "text": arguments.get("text", "")}
    match WAY:
        case "die":
            print("out of flour", file=sys.stderr, flush=True)
            os._exit(3)
        case "slow" | "hang-call":
            note("called")
        case "huge":
            head, tail = json.dumps({"jsonrpc": "2.0", "id": number, "result": 0})[:-1].rsplit("0", 1)[0], "}"
            write(head + '{"content": [{"type": "text", "text": "')
            for _ in range(50):
                write("x" * 2**20)
            write('"}]}' + tail + "\n")
        case "huge-late-number":  # as servers in JavaScript write it
            write(
                '{"result": {"content": [{"type": "text", "text": "' + "x" * BIG + '"}]}, "jsonrpc": "2.0", '
            )
            write(f'"id": {number}}}\n')
        case "many-parts":
            answer(number, content=[text] * 5_000)
        case "endless-line":
            for_ever("x" * 2**20)
        case "other-number":
            answer(number + 1_000, content=[text])
        case "rubbish-result":
            answer(number, content=[{"type": "text"}])
        case "refuses":
            send(id=number, error={"code": -32000, "message": "no \x1b[2J\nflour"})
        case "asks-person":
            send(id=number, error={"code": -32042, "message": "sign in first"})
        case "flood":
            for _ in range(20_000):
                send(method="notifications/message", params={"level": "info", "data": "x" * 100})
            answer(number, content=[text])
        case "pings":
            for ping in range(1_000_000):
                send(id=f"p{ping}", method="ping")
            answer(number, content=[text])
        case "complains":
            for _ in range(20_000):
                sys.stderr.write("x" * 1_000 + "\n")
            answer(number, content=[text])
        case "changing":
            with open(NOTES, "a", encoding="utf-8") as file:
                file.write(text["text"] + "\n")
            send(method="notifications/tools/list_changed")
            answer(number, content=[text])
        case _:
            answer(number, content=[text])


def greeted(number: object, params: dict[str, Any]) -> None:
    if WAY == "other-version":
        answer(
            number, protocolVersion="1066-10-14", capabilities={}, serverInfo={"name": "w", "version": "1"}
        )
        return
    changes = {"listChanged": True} if WAY in ("changing", "restless") else {}
    server = {"name": "rogue", "version": "1"}
    answer(
        number, protocolVersion=params["protocolVersion"], capabilities={"tools": changes}, serverInfo=server
    )


def begin() -> None:
    """What it does before anything is asked."""
    if WAY not in ("changing", "described"):
        note(f"started {os.getpid()}")
    match WAY:
        case "deaf":
            sleep()
        case "dies-at-once":
            print("no \x1b[31mflour", file=sys.stderr)
            sys.exit(3)
        case "not-json":
            for_ever("<html>\n")
        case "with-child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            note(f"child {child.pid}")
        case "stays":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "environment":
            note(json.dumps(dict(os.environ)))


def main() -> None:
    begin()
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case "initialize":
                greeted(number, params)
            case "tools/list":
                listed(number, params.get("cursor"))
            case "tools/call":
                called(number, params.get("arguments", {}))
            case "notifications/cancelled":
                note("cancelled")
            case str() if number is not None:
                send(id=number, error={"code": -32601, "message": "Method not found"})
    if WAY == "stays":
        sleep()


if __name__ == "__main__":
    main()
