"""The services that serve models for a key: their addresses, the variables of their keys, a model of each."""

from collections.abc import Mapping

from msgspec import Struct

_USUAL = "OPENAI_API_KEY"


class KnownProvider(Struct, frozen=True):
    """A service that serves models for a key.

    Attributes:
        title: its name, for people.
        key_name: the environment variable that its key is usually in.
        base_url: its address for chat completions.
        model: one of its models that is fit for a talk, neither the dearest nor the smallest.
    """

    title: str
    key_name: str
    base_url: str
    model: str


PROVIDERS = (
    # https://platform.openai.com/docs/api-reference
    KnownProvider("OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5-mini"),
    # https://platform.claude.com/docs/en/cli-sdks-libraries/libraries/openai-sdk
    KnownProvider("Anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1", "claude-sonnet-5"),
    # https://ai.google.dev/gemini-api/docs/openai
    KnownProvider(
        "Gemini",
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-3.8-flash",
    ),
    # https://openrouter.ai/docs/quick-start, https://openrouter.ai/openrouter/auto
    KnownProvider("OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openrouter/auto"),
    # https://docs.mistral.ai/api
    KnownProvider("Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-small-latest"),
    # https://console.groq.com/docs/openai, https://console.groq.com/docs/models
    KnownProvider("Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
    # https://api-docs.deepseek.com
    KnownProvider("DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com", "deepseek-flash"),
    # https://docs.x.ai/developers/introduction
    KnownProvider("xAI", "XAI_API_KEY", "https://api.x.ai/v1", "grok-4.3"),
)
"""Order in which they are offered."""


def providers_with_key(variables: Mapping[str, str]) -> tuple[KnownProvider, ...]:
    """Return the providers whose variable is set and not blank. `variables`: of the environment."""
    return tuple(each for each in PROVIDERS if variables.get(each.key_name, "").strip())


def key_name_of(host: str) -> str:
    """Return the variable of the key for a server: its provider's, or OpenAI's, which many others take."""
    return next((each.key_name for each in PROVIDERS if each.base_url.split("/")[2] == host), _USUAL)
