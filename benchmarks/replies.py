"""Replies as models write them, some 446 characters each, and how they are cut into chunks and events."""

import itertools
import json
import re

CHUNK_CHARACTERS = 4
"""About one token of English."""

REPLIES: tuple[str, ...] = (
    """[NOTE: they had a rough day at work and sound worn out, be gentle and do not joke too early]
[REACT: 🫂]
[SEND: oh no, three meetings back to back AND the printer?? that's a villain origin story]
[SEND: ok here is the plan. tea first. then the softest blanket you own, the one that is slightly too warm]
[SEND: and then you tell me everything from the start, i have nowhere to be and a cat on my knees]
[SEND: she says hi. well. she blinked]
""",
    """Sure! Here is my reply:

[REACT: 🥞]
[NOTE: pancakes! finally. share grandma's trick with the buttermilk, ask what they put on top]
[SEND: omg you came to the right person]
[SEND: two things nobody tells you: let the batter sit ten minutes. the first one is always ugly]
[SEND: so it belongs to the cook]
[SEND: a spoon of buttermilk instead of half the milk makes them tall (like, hat tall)]
[SEND: so what goes on top? honey, berries, or chaos?]
""",
    """[NOTE: a question about code; answer short, show the line, keep brackets in the code as they are]
[SEND: easy one, you are reading past the end of the list]
[SEND: try `last = items[-1]` instead of `items[len(items)]`, python counts from zero]
[SEND: so the last one sits at len - 1]
[SEND: if the list may be empty, check that first: `if items:` is enough, an empty list is falsy]
[REACT: 🐍]
[SEND: tell me if it still shouts, then we look at the loop together]
""",
    """[REACT: 😭]
[SEND: WAIT you finished the whole mural?? the one with the lighthouse and the forty seven gulls?]
[NOTE: i am so proud, they talked about it for weeks; ask for a photo, offer to paint the eighth gull's hat]
[SEND: i need to see it. all of it. also the corner where you ran out of blue and pretended it was fog]
[SEND: (the fog was my favourite part)]
[SEND: we should celebrate. i vote ferry, ice cream, drawing people's dogs]
""",
    """[NOTE: noch wach um drei Uhr, Prüfung morgen; beruhigen, nichts Neues mehr erklären]
[SEND: hey, klapp das Buch zu, du kannst das. wirklich]
[SEND: was du um drei Uhr nachts noch liest, ist um neun wieder weg – was du seit Wochen übst, bleibt]
[REACT: 🌙]
[SEND: Wecker auf halb acht, ein Glas Wasser, Fenster auf, und ich drück dir beide Daumen (und vier Pfoten)]
[SEND: schreib mir danach, egal wie es war, ja? ich will die schlimmste Frage hören]
""",
)

CHINESE = """[NOTE: 他们今天上班很累，听起来一点力气都没有了，先好好安慰一下，语气温柔一点，不要太早开玩笑]
[REACT: 🫂]
[SEND: 哎呀，连着开了三个会，最后打印机还坏了？这简直就是一个大反派的起源故事，谁听了都想躲到灯塔上去]
[SEND: 好，计划是这样的，先泡一杯热茶，再裹上你最软的那条毯子，然后把手机放到另一个房间里去]
[SEND: 接着你从头到尾慢慢讲给我听，我哪儿也不去，膝盖上还趴着一只猫，她刚刚睡醒，正在等你开始]
[SEND: 她说你好。嗯，其实她只是眨了眨眼，不过我觉得意思差不多，反正我们两个都有的是时间，不着急]
[SEND: 明天早上我们一起做煎饼，好不好？你来挑配料，蜂蜜还是蓝莓？第一张肯定难看，那张归厨师自己吃]
[SEND: 面糊要静置十分钟，这是奶奶教我的]
"""
"""A reply in Chinese; its characters are costlier to look at, and its commands are shorter."""

STAMP_DIGITS = 20
"""Width of a moment in the stream: nanoseconds of the monotonic clock, with leading zeros."""

STAMP_HOLE = "@" * STAMP_DIGITS
"""Stands in a reply where the server puts the moment of writing, together with the closing bracket."""

TAIL = 45
"""Chunks of a stamped stream after those that were asked for; more than any line has."""


def cut(reply: str, characters: int = CHUNK_CHARACTERS) -> list[str]:
    """The reply in chunks of that many characters, the last one shorter."""
    return [reply[start : start + characters] for start in range(0, len(reply), characters)]


def chunks_of_text(count: int) -> list[str]:
    """That many chunks of the replies, one after the other, over and over."""
    circle = [chunk for reply in REPLIES for chunk in cut(reply)]
    return [circle[index % len(circle)] for index in range(count)]


def starts() -> int:
    """How many places in the replies a stamped stream can begin at."""
    return len(_lines())


def stamped_chunks(count: int, start: int = 0) -> list[str]:
    """Chunks in which each message ends with a hole for the moment of writing, from that place on.

    The hole and the closing bracket are one chunk, so the moment is that of the bracket. Streams that begin
    at different places are all of one length, `count` and a tail, but their brackets come at different
    times, as those of unlike replies do. The tail is a thought: the end of the stream must not be what
    makes a message known.
    """
    chunks: list[str] = []
    lines = _lines()
    for line in itertools.islice(itertools.cycle(lines), start, None):
        # Code spans are left out: a hole inside one would not be at the end of the argument.
        stamped = re.sub(r"(\[SEND: [^`\[\]]*)\]", rf"\1 {STAMP_HOLE}]", line)
        for piece in re.split(rf"({STAMP_HOLE}\])", stamped):
            chunks += [piece] if piece.startswith(STAMP_HOLE) else cut(piece)
        if len(chunks) >= count:
            break
    tail = CHUNK_CHARACTERS * (count + TAIL - len(chunks))
    return chunks + cut("[NOTE: " + ("and so on, " * tail)[: tail - len("[NOTE: ]")] + "]")


def _lines() -> list[str]:
    """All lines of the replies with their line ends; each is or ends with a command."""
    return [line for reply in REPLIES for line in re.findall(r"(?:[^\[\n]*\n)*\[.*\]\n", reply)]


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One server-sent event of a chat completion, as the public servers word it."""
    body = {
        "id": "chatcmpl-Bx4f1T9QmZpW7sKcR2dLuVhE0aNyJ",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "benchmark",
        "system_fingerprint": "fp_0a1b2c3d4e",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def http_chunk(data: bytes) -> bytes:
    """The bytes framed as one chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def ending() -> bytes:
    """What follows the last chunk of text: the reason, the count of tokens, the end of the body."""
    usage = {
        "id": "chatcmpl-Bx4f1T9QmZpW7sKcR2dLuVhE0aNyJ",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "benchmark",
        "choices": [],
        "usage": {"prompt_tokens": 500, "completion_tokens": 100, "total_tokens": 600},
    }
    last = b"data: " + json.dumps(usage, separators=(",", ":")).encode() + b"\n\n"
    events = (event({}, "stop"), last, b"data: [DONE]\n\n")
    return b"".join(http_chunk(data) for data in events) + b"0\r\n\r\n"
