"""The command parser in 4-character chunks: processor time per chunk, and for a megabyte that is hostile."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

from benchmarks.peers import PIXI_BOT, PeerMissing, pixi_bot
from benchmarks.processes import cores, pinned
from benchmarks.replies import CHINESE, REPLIES, cut
from benchmarks.report import Figure
from benchmarks.rounds import Rounds, interleave
from pixi.core.language import BUILT_IN, CommandEnded, CommandStream, CommandText

GOAL_NS = 250
GOAL_RATIO = 11
GOAL_SLICE_MS = 100

KINDS: dict[str, tuple[Sequence[str], float]] = {
    "tidy": ((REPLIES[0], REPLIES[3], REPLIES[4]), 4.0),
    "prose before": (REPLIES[1:2], 7.0),
    "code spans": (REPLIES[2:3], 7.0),
    "Chinese": ((CHINESE,), 7.0),
}
"""Kinds of replies, and how many times `str.find` per chunk each may cost."""

PIECE = 4_096
"""Characters of a hostile reply that are fed at once."""
HOSTILE: dict[str, tuple[str, str, str]] = {
    "brackets": ("", "[", ""),
    "openings": ("", "[SEND: ", ""),
    "faces": ("", "[SEND: :] ", ""),
    "misspelt names": ("", "[REAKT: ", ""),
    "tags": ("", "<t", ""),
    "bare commands": ("", "[SEND]a ", ""),
    "a span that a command ends": ("[SEND: `", "[SEND: ", "\n[SEND: ok]"),
    "brackets in a span": ("[SEND: `", "[ ", "\n[SEND: ok]"),
    "a fence without an end": ("[NOTE: a [SEND: ``` ", "[REPLY #12: ", ""),
}
"""What a megabyte is made of: its beginning, what is repeated, and its end."""

Perform = Callable[[str], None]


def bracket_counter(characters: Iterable[str], commands: dict[str, Perform]) -> Iterator[str]:
    """The first idea anybody has: count brackets a character at a time, perform at zero, pass on the rest."""
    depth = 0
    held: list[str] = []
    for character in characters:
        if character == "[":
            depth += 1
        if depth:
            held.append(character)
        else:
            yield character
        if character == "]" and depth:
            depth -= 1
            if not depth:
                name, _, argument = "".join(held)[1:-1].partition(":")
                perform = commands.get(name.strip().lower())
                if perform is not None:
                    perform(argument.strip())
                held.clear()


class Contenders:
    """Each method reads all replies `repeat` times and gives nanoseconds per chunk."""

    def __init__(self, repeat: int, replies: Sequence[str]) -> None:
        self.repeat = repeat
        self.texts = replies
        self.replies = [cut(reply) for reply in replies]
        self.chunks = repeat * sum(map(len, self.replies))
        self.commands = repeat * sum(reply.count("]\n") for reply in replies)

    def _per_chunk(self, read: Callable[[list[str]], int]) -> float:
        """Time `read`, which gives the number of commands it performed for one reply."""
        performed = 0
        before = time.process_time_ns()
        for _ in range(self.repeat):
            for chunks in self.replies:
                performed += read(chunks)
        spent = time.process_time_ns() - before
        if performed != self.commands:
            raise AssertionError(f"{performed} commands performed, {self.commands} stand in the replies")
        return spent / self.chunks

    def ours(self) -> float:
        """`CommandStream`, every event looked at."""

        def read(chunks: list[str]) -> int:
            performed = 0
            stream = CommandStream()
            for chunk in chunks:
                for event in stream.feed(chunk):
                    # As the engine does: isinstance costs more than the event, for a msgspec.Struct.
                    if type(event) is CommandEnded:
                        performed += 1
            for event in stream.close():
                if type(event) is CommandEnded:
                    performed += 1
            return performed

        return self._per_chunk(read)

    def generator(self) -> float:
        """The bracket counter."""

        def read(chunks: list[str]) -> int:
            performed: list[str] = []
            commands: dict[str, Perform] = dict.fromkeys(BUILT_IN, performed.append)
            for _ in bracket_counter((character for chunk in chunks for character in chunk), commands):
                pass
            return len(performed)

        return self._per_chunk(read)

    def find(self) -> float:
        """Floor: look for a closing bracket in each chunk, and no more."""
        before = time.process_time_ns()
        for _ in range(self.repeat):
            for chunks in self.replies:
                for chunk in chunks:
                    chunk.find("]")
        return (time.process_time_ns() - before) / self.chunks

    def echo(self) -> float:
        """Floor: give each chunk back as an event, and look at its type, as any reader of this form must."""

        class Echo:
            def feed(self, text: str) -> list[CommandText]:
                return [CommandText(text)]

        before = time.process_time_ns()
        for _ in range(self.repeat):
            for chunks in self.replies:
                stream = Echo()
                for chunk in chunks:
                    for event in stream.feed(chunk):
                        assert type(event) is CommandText
        return (time.process_time_ns() - before) / self.chunks

    def finditer(self) -> float:
        """Floor: a pattern over the whole reply, once it is all there."""
        pattern = re.compile(r"\[(\w+): (.*)\]\n")
        whole = {id(chunks): reply for chunks, reply in zip(self.replies, self.texts, strict=True)}

        def read(chunks: list[str]) -> int:
            return sum(1 for _ in pattern.finditer(whole[id(chunks)]))

        return self._per_chunk(read)


class Hostile:
    """Reads hostile replies of one size, and notes the longest step and the whole, in milliseconds."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.worst = (0.0, "")
        self.slowest = (0.0, "")

    def read(self) -> None:
        """Read each reply in pieces, and close it in steps, as the engine does."""
        for name, (begin, unit, end) in HOSTILE.items():
            reply = begin + unit * (self.characters // len(unit)) + end
            spent = list(_steps_ms(reply))
            self.worst = max(self.worst, (max(spent), name))
            self.slowest = max(self.slowest, (sum(spent), name))


def _steps_ms(reply: str) -> Iterator[float]:
    """Yield the processor time of each step that nothing else comes between."""
    stream = CommandStream()
    for at in range(0, len(reply), PIECE):
        before = time.process_time()
        stream.feed(reply[at : at + PIECE])
        yield (time.process_time() - before) * 1_000
    closing = stream.closing()
    while True:
        before = time.process_time()
        more = next(closing, None)
        yield (time.process_time() - before) * 1_000
        if more is None:
            return


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    repeat = 2 if quick else 40
    everything = Contenders(repeat, [*REPLIES, CHINESE])
    measured: dict[str, Callable[[], float]] = {
        "ours": everything.ours,
        "generator": everything.generator,
        "find": everything.find,
        "finditer": everything.finditer,
    }
    for kind, (replies, _) in KINDS.items():
        alone = Contenders(repeat, replies)
        measured |= {kind: alone.ours, f"find, {kind}": alone.find}
    measured["echo"] = everything.echo
    core, _ = cores()
    peer = f"pixi-bot {PIXI_BOT}"
    missing = ""
    with ExitStack() as stack:
        stack.enter_context(pinned(core))
        try:
            bot = stack.enter_context(pixi_bot(core))
        except PeerMissing as error:
            missing = str(error)
        else:
            job = {"do": "parse", "replies": everything.replies, "repeat": everything.repeat}

            def of_peer() -> float:
                answer = bot.ask(job)
                if answer["performed"] != everything.commands:
                    raise AssertionError(f"pixi-bot performed {answer['performed']} commands")
                return float(answer["ns"] / answer["chunks"])

            measured[peer] = of_peer
        rounds = interleave(measured, rounds=2 if quick else 15)
        hostile, half = (Hostile(size >> (8 if quick else 0)) for size in (1 << 20, 1 << 19))
        hostile.read()
        half.read()
    return [_beside_peer(rounds, peer, missing), _beside_find(rounds), _hostile(hostile, half)]


def _beside_peer(rounds: Rounds, peer: str, missing: str) -> Figure:
    ours = rounds.median("ours")
    peers = {"bracket counter": f"{rounds.median('generator'):,.0f} ns"}
    ratios = {"bracket counter / Pixi": f"{rounds.ratio('generator', 'ours'):.1f}"}
    met = None
    if missing:
        peers[peer] = missing
    else:
        ratio = rounds.ratio(peer, "ours")
        peers[peer] = f"{rounds.median(peer):,.0f} ns"
        ratios[f"{peer} / Pixi"] = f"{ratio:.1f}"
        met = ours <= GOAL_NS and ratio >= GOAL_RATIO
    return Figure(
        name="Parser, per chunk of 4 characters",
        goal=f"≤ {GOAL_NS} ns, ≥ {GOAL_RATIO} × pixi-bot",
        ours=f"{ours:,.0f} ns",
        peers=peers,
        floors={
            "str.find per chunk": f"{rounds.median('find'):,.0f} ns",
            "re.finditer over the whole": f"{rounds.median('finditer'):,.0f} ns",
        },
        ratios=ratios | {"Pixi / str.find": f"{rounds.ratio('ours', 'find'):.1f}"},
        met=met,
    )


def _beside_find(rounds: Rounds) -> Figure:
    ratios = {kind: rounds.ratio(kind, f"find, {kind}") for kind in KINDS}
    return Figure(
        name="Parser, by kinds of replies",
        goal=", ".join(f"{kind} ≤ {most:.0f} × str.find" for kind, (_, most) in KINDS.items()),
        ours=", ".join(f"{kind} {rounds.median(kind):,.0f} ns" for kind in KINDS),
        floors={
            "str.find per chunk": f"{rounds.median('find'):,.0f} ns",
            "each chunk given back as an event": f"{rounds.median('echo'):,.0f} ns",
        },
        ratios={f"{kind} / str.find": f"{ratio:.1f}" for kind, ratio in ratios.items()}
        | {"given back / str.find": f"{rounds.ratio('echo', 'find'):.1f}"},
        met=all(ratios[kind] <= most for kind, (_, most) in KINDS.items()),
    )


def _hostile(whole: Hostile, half: Hostile) -> Figure:
    (worst, where), (slowest, what) = whole.worst, whole.slowest
    ratio = slowest / half.slowest[0]
    return Figure(
        name=f"Parser, {whole.characters:,} hostile characters, the longest step",
        goal=f"≤ {GOAL_SLICE_MS} ms, linear",
        ours=f"{worst:.0f} ms ({where})",
        ratios={"the slowest reply / half of it": f"{ratio:.1f} ({what}: {slowest / 1_000:.1f} s)"},
        met=worst <= GOAL_SLICE_MS,
    )
