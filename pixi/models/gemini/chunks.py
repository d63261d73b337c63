"""The chunks of a Gemini stream, as the provider's package reads them, and the deltas that they make.

Sans-IO: chunks in, deltas out.
"""

import json
from typing import TYPE_CHECKING

from pixi.core.deltas import Cited, Delta, Finished, Usage
from pixi.core.errors import ModelError
from pixi.core.lines import ToolCall
from pixi.models import faults
from pixi.models.calls import distinct_id
from pixi.models.complaint import Complaint
from pixi.models.faults import Server
from pixi.models.gathering import Gathering
from pixi.models.gemini.body import Kept

if TYPE_CHECKING:
    from google.genai import types

_CUT = ("MAX_TOKENS", "CONTINUATION")
# Another attempt may do better: what the model wrote was no call, or no answer.
_BOTCHED = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
    "TOO_MANY_TOOL_CALLS",
    "OTHER",
)
_UNSIGNED = "MISSING_THOUGHT_SIGNATURE"


class ChunkAssembler:
    """Makes deltas of the chunks of one stream. See `pixi.models.packaged.watched.Assembler`.

    Attributes:
        ended: the server said why its reply ended.
        done: the end mark came: there is none here.
        understood: chunks of a reply that were read.
        unseen: pieces of what no delta shows yet: content all the same.
        held: characters that are held until the end, about.
    """

    def __init__(self, server: Server) -> None:
        self.ended = False
        self.done = False
        self.understood = 0
        self.unseen = 0
        self.held = 0
        self._server = server
        self._gathering = Gathering()
        self._spoke = False
        self._reason = ""
        self._why = ""
        self._blocked = ""
        self._before: list[types.Part] = []
        self._calls: list[types.Part] = []
        self._pages: dict[int, tuple[str, str]] = {}
        self._cited: set[int] = set()
        self._queries: dict[str, None] = {}
        self._counts: types.GenerateContentResponseUsageMetadata | None = None
        self._kept: dict[str, Kept] = {}

    def keepsakes(self) -> dict[str, Kept]:
        """What the server wants back for each call, by its id. Known once the stream was closed."""
        return self._kept

    def feed(self, piece: "types.GenerateContentResponse") -> list[Delta]:
        """Take the next chunk."""
        deltas: list[Delta] = []
        if piece.candidates or piece.usage_metadata or piece.prompt_feedback:
            self.understood += 1
        if piece.usage_metadata is not None:
            self._counts = piece.usage_metadata
        if piece.prompt_feedback is not None and piece.prompt_feedback.block_reason is not None:
            self._blocked = (
                piece.prompt_feedback.block_reason_message or piece.prompt_feedback.block_reason.value
            )
            self.ended = True
        if piece.candidates:
            candidate = piece.candidates[0]
            for part in (candidate.content.parts if candidate.content else None) or ():
                self._take(part, deltas)
            if candidate.grounding_metadata is not None:
                self._ground(candidate.grounding_metadata)
            if candidate.finish_reason is not None:
                self._reason = candidate.finish_reason.value
                self._why = candidate.finish_message or ""
                self.ended = True
        self._gathering.flush(deltas)
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over; gives the tool calls, the pages that were cited, and `Finished`.

        Raises:
            ModelError: nothing was said, and the server told why.
        """
        if not self._spoke and not self._calls and (fault := self._fault()) is not None:
            raise fault
        deltas: list[Delta] = [Cited(*self._pages[at]) for at in sorted(self._cited & self._pages.keys())]
        taken: set[str] = set()
        for part in self._calls:
            asked = part.function_call
            assert asked is not None
            call_id = distinct_id(asked.id or "", taken)
            self._kept[call_id] = Kept(tuple(self._before), part)
            arguments = json.dumps(asked.args or {}, ensure_ascii=False)
            deltas.append(ToolCall(call_id, asked.name or "", arguments))
        return [*deltas, Finished("length" if self._reason in _CUT else "stop", self._counted())]

    def _take(self, part: "types.Part", deltas: list[Delta]) -> None:
        if part.function_call is not None:
            self._calls.append(part)
            self._hold(str(part.function_call.args))
        elif part.tool_call is not None or part.tool_response is not None:
            # What the server did by itself, which it wants back beside the calls that followed.
            self._before.append(part)
            self._hold(str(part.tool_response))
        elif part.text:
            if part.thought:
                self._gathering.think(part.text, deltas)
            else:
                self._spoke = True
                self._gathering.say(part.text, deltas)

    def _ground(self, found: "types.GroundingMetadata") -> None:
        """Note what was searched for and found. Each chunk may tell the whole again, or its own part."""
        self._queries |= dict.fromkeys(found.web_search_queries or ())
        chunks = found.grounding_chunks or ()
        for at, chunk in enumerate(chunks):
            if chunk.web is not None and chunk.web.uri:
                self._pages[at] = (chunk.web.uri, chunk.web.title or chunk.web.domain or "")
        supported = [
            at for each in found.grounding_supports or () for at in each.grounding_chunk_indices or ()
        ]
        self._cited |= set(supported or range(len(chunks)))

    def _fault(self) -> ModelError | None:
        if self._blocked:
            return faults.declined(self._server, Complaint(0, self._blocked, "blocked"))
        told = self._why or self._reason
        if self._reason in ("", "STOP", *_CUT):
            return None
        if self._reason == _UNSIGNED:
            return faults.refusal(self._server, Complaint(400, told, "thought_signature"))
        if self._reason in _BOTCHED:
            return ModelError(f"{self._server.model} at {self._server.place} wrote no reply: {told}")
        return faults.declined(self._server, Complaint(0, told, self._reason))

    def _hold(self, text: str) -> None:
        self.unseen += 1
        self.held += 100 + len(text)

    def _counted(self) -> Usage:
        """What the server's own tools brought is a part of the prompt, what it thought one of the reply."""
        counts = self._counts
        if counts is None:
            return Usage(searches=len(self._queries))
        return Usage(
            prompt_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
            cached_tokens=counts.cached_content_token_count or 0,
            completion_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
            searches=len(self._queries),
        )
