"""The least and the most that each number among the settings may be."""

from collections.abc import Mapping

Bounds = tuple[float, float]

_MODEL: Mapping[str, Bounds] = {
    "temperature": (0, 5),
    "max_tokens": (1, 1_000_000),
    "top_p": (0, 1),
    "top_k": (0, 1_000_000),
    "min_p": (0, 1),
    "repeat_penalty": (0.1, 10),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "seed": (0, 2**31 - 1),  # the largest that Gemini takes
    "context_tokens": (512, 100_000_000),
    "parameters": (0.001, 100_000),
    "first_seconds": (0.01, 3_600),
    "gap_seconds": (0.01, 3_600),
}
_LIMITS: Mapping[str, Bounds] = (
    {
        "commands": (1, 1_000),
        "messages": (1, 1_000),
        "reactions": (0, 1_000),
        "argument_characters": (1, 1_000_000),
        "reply_characters": (1, 10_000_000),
        "tools": (1, 1_000),
        "tool_steps": (0, 1_000),
        "tool_calls": (1, 1_000),
        "tool_seconds": (0.01, 3_600),
        "tool_result_bytes": (64, 100_000_000),
        "seconds": (0.1, 86_400),
        "restarts": (0, 100),
    }
    | {
        f"{whose}_{what}": (0, most)
        for whose in ("person", "channel", "guild")
        for what, most in (("messages", 1_000_000), ("tokens", 1_000_000_000_000), ("writes", 1_000_000))
    }
    | {"month_dollars": (0.01, 1_000_000)}
)
_DISCORD: Mapping[str, Bounds] = {
    "bot_turns": (0, 100),
    "overhear": (0, 100),
    "catch_up_minutes": (0, 10_080),  # a week
    "catch_up_messages": (0, 50),
    "patience_seconds": (0, 600),
    "pictures": (0, 10),  # as many as a message can carry
    "picture_megabytes": (0.1, 100),
    "picture_pixels": (64, 8_192),
    "text_files": (0, 10),
    "text_characters": (100, 1_000_000),
}
_HTTP: Mapping[str, Bounds] = {
    "port": (0, 65_535),
    "requests_per_minute": (1, 1_000_000),
    "key_requests_per_minute": (1, 1_000_000),
    "visitor_requests_per_minute": (1, 1_000_000),
    "visitor_messages_per_day": (1, 1_000_000),
    "visitors_per_address": (1, 1_000_000),
    "turns_per_person": (1, 10_000),
    "max_body_bytes": (1_000, 1_000_000_000),
    "max_file_bytes": (1_000, 10_000_000_000),
    "file_bytes_per_person": (0, 1_000_000_000_000),
    "file_characters": (100, 1_000_000),
}
RANGES: Mapping[str, Bounds] = {
    f"{section}.{key}": bounds
    for section, numbers in {
        "model": _MODEL,
        "helper_model": _MODEL,
        "reply": {"gather_seconds": (0, 60), "gather_messages": (1, 100), "waiting_messages": (1, 100_000)},
        "history": {"summary_tokens": (100, 4_000)},
        "store": {"keep_days": (1, 36_500)},  # a hundred years
        "limits": _LIMITS,
        "discord": _DISCORD,
        "mcp": {"seconds": (0.1, 3_600)},
        "web_search": {"results": (1, 20), "price": (0, 100)},
        "web_pages": {"megabytes": (0.1, 100), "characters": (500, 1_000_000), "seconds": (0.5, 600)},
        "http": _HTTP,
    }.items()
    for key, bounds in numbers.items()
}
"""By key. Those of `model` hold for each `[models.NAME]` too."""

SNOWFLAKES: Bounds = (1, 2**64 - 1)
"""What Discord's ids can be."""

DOLLARS: Bounds = (0, 1_000_000)
"""What a million tokens may cost."""
