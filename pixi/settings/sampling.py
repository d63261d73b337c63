"""How a model chooses its words: the values that people set, under the names that each API has for them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

Sampler = Literal["llama.cpp", "chat", "openai", "responses", "anthropic", "gemini"]
"""What samples: llama.cpp in a process of ours, or a server by its API. `openai` is OpenAI's own `chat`."""

TITLES: Mapping[Sampler, str] = {
    "llama.cpp": "llama.cpp",
    "chat": "chat completions",
    "openai": "OpenAI's chat completions",
    "responses": "the Responses API",
    "anthropic": "Anthropic's Messages API",
    "gemini": "Gemini's API",
}

_OPENAI = ("top_p", "frequency_penalty", "presence_penalty", "seed", "stop")
_LOCAL = (*_OPENAI, "top_k", "min_p", "repeat_penalty")
_NAMES: Mapping[Sampler, Mapping[str, tuple[str, ...]]] = {
    "llama.cpp": {name: (name,) for name in _LOCAL},
    # llama.cpp and LM Studio know the one name for the penalty, vLLM and OpenRouter the other; each ignores
    # what it does not know.
    "chat": {
        **{name: (name,) for name in _LOCAL},
        "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    },
    "openai": {name: (name,) for name in _OPENAI},
    "responses": {"top_p": ("top_p",)},
    "anthropic": {"stop": ("stop_sequences",)},
    "gemini": {
        "top_p": ("topP",),
        "top_k": ("topK",),
        "frequency_penalty": ("frequencyPenalty",),
        "presence_penalty": ("presencePenalty",),
        "seed": ("seed",),
        "stop": ("stopSequences",),
    },
}
_GEMINIS = "generationConfig"  # the field of a body in which Gemini wants them


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sampling:
    """How a model chooses its words. What is not set is the server's choice, or suits the model's size.

    Attributes:
        top_p: the share of likely words to choose from.
        top_k: how many of the likeliest words to choose from; 0 means all.
        min_p: how likely a word must be, as a share of the likeliest one.
        repeat_penalty: how much less likely a word becomes that came before; 1 is no penalty.
        frequency_penalty: how much less likely a word becomes each time that it came before.
        presence_penalty: how much less likely a word becomes that came before at all.
        seed: a number; with the same one, the same request gets the same reply, as far as the server can.
        stop: texts at which a reply ends.
    """

    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def not_known_to(self, sampler: Sampler) -> list[str]:
        """Return the values that are set and that a sampler does not know."""
        return [name for name in self._set() if name not in _NAMES[sampler]]

    def fields_for(
        self, sampler: Sampler, extra_body: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Return the fields of a request's body that say it, with those of `extra_body` on top."""
        named = _NAMES[sampler]
        own = {each: value for name, value in self._set().items() for each in named.get(name, ())}
        extra = dict(extra_body or {})
        if own and sampler == "gemini":
            theirs = extra.get(_GEMINIS)
            return {**extra, _GEMINIS: {**own, **(theirs if isinstance(theirs, Mapping) else {})}}
        return {**own, **extra}

    def _set(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(Sampling)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value not in (None, ())
        }
