"""The command parser in 4-character chunks: nanoseconds of processor time per chunk."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

from benchmarks.peers import PIXI_BOT, PeerMissing, pixi_bot
from benchmarks.processes import cores, pinned
from benchmarks.replies import REPLIES, cut
from benchmarks.report import Figure, progress
from benchmarks.rounds import interleave
from pixi.core.language import BUILT_IN, CommandEnded, CommandStream

COMMAND = "python -m benchmarks parser"
GOAL_NS = 250
GOAL_RATIO = 11

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

    def __init__(self, repeat: int) -> None:
        self.repeat = repeat
        self.replies = [cut(reply) for reply in REPLIES]
        self.chunks = repeat * sum(map(len, self.replies))
        self.commands = repeat * sum(reply.count("]\n") for reply in REPLIES)

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
                    if isinstance(event, CommandEnded):
                        performed += 1
            for event in stream.close():
                if isinstance(event, CommandEnded):
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

    def finditer(self) -> float:
        """Floor: a pattern over the whole reply, once it is all there."""
        pattern = re.compile(r"\[(\w+): (.*)\]\n")
        whole = {id(chunks): reply for chunks, reply in zip(self.replies, REPLIES, strict=True)}

        def read(chunks: list[str]) -> int:
            return sum(1 for _ in pattern.finditer(whole[id(chunks)]))

        return self._per_chunk(read)


def run(quick: bool) -> list[Figure]:
    """Measure it."""
    progress("parser")
    contenders = Contenders(repeat=2 if quick else 40)
    measured: dict[str, Callable[[], float]] = {
        "ours": contenders.ours,
        "generator": contenders.generator,
        "find": contenders.find,
        "finditer": contenders.finditer,
    }
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
            job = {"do": "parse", "replies": contenders.replies, "repeat": contenders.repeat}

            def of_peer() -> float:
                answer = bot.ask(job)
                if answer["performed"] != contenders.commands:
                    raise AssertionError(f"pixi-bot performed {answer['performed']} commands")
                return float(answer["ns"] / answer["chunks"])

            measured[peer] = of_peer
        rounds = interleave(measured, rounds=2 if quick else 15)
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
    ratios["Pixi / str.find"] = f"{rounds.ratio('ours', 'find'):.1f}"
    return [
        Figure(
            name="Parser, per chunk of 4 characters",
            command=COMMAND,
            goal=f"≤ {GOAL_NS} ns, ≥ {GOAL_RATIO} × pixi-bot",
            ours=f"{ours:,.0f} ns",
            peers=peers,
            floors={
                "str.find per chunk": f"{rounds.median('find'):,.0f} ns",
                "re.finditer over the whole": f"{rounds.median('finditer'):,.0f} ns",
            },
            ratios=ratios,
            met=met,
        )
    ]
