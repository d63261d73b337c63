"""What other programs are served by MCP: databases to search and to ask, personas to be and to talk to."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pixi.addons.knowledge import RESULTS, described, query_result, search_result
from pixi.app.serving.talks import LONGEST_MESSAGE, McpTalks
from pixi.core.deltas import ToolSchema
from pixi.core.errors import PixiError, ToolError
from pixi.core.persona import Persona
from pixi.core.prompt import fill
from pixi.core.spending import Count
from pixi.core.untrusted import clipped, prompt_name
from pixi.toolbox.arguments import checked
from pixi.toolbox.safe_names import safe_names
from pixi.toolbox.schema import Signature, signature_of

if TYPE_CHECKING:
    from pixi.app.databases import DatabasePool
    from pixi.knowledge.database import DirectoryDatabase

Books = Callable[[], AbstractAsyncContextManager[Count]]
"""Entered while a model is asked, and told what that used."""

_MOST_RESULTS = 20
_LONGEST_WORDS = 2_000  # of a search, a question, or a name of a person
_LONGEST_ABOUT = 300
_READY_SECONDS = 10.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServedCall:
    """One call of a client.

    Attributes:
        happens: told in a line what is being done.
        talk: the conversation of this client, where it has one of its own.
    """

    happens: Tell
    talk: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that is served."""

    signature: Signature
    function: Callable[..., Awaitable[Mapping[str, Any]]]
    reads: bool

    @property
    def schema(self) -> ToolSchema:
        """Return the tool as a client sees it."""
        return self.signature.schema

    async def call(self, call: ServedCall, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry it out.

        Raises:
            ToolError: the arguments do not fit, or it could not be done.
        """
        return await self.function(call, **checked(self.signature, arguments))


@dataclass(frozen=True, slots=True)
class Served:
    """All that there is for clients.

    Attributes:
        tools: by name.
        personas: by the names of their prompts.
    """

    tools: Mapping[str, Offer] = field(default_factory=dict)
    personas: Mapping[str, Persona] = field(default_factory=dict)

    @classmethod
    def of(
        cls, library: "DatabasePool", personas: Mapping[str, Persona], talks: McpTalks, books: Books
    ) -> "Served":
        """Offer the databases that are open, and these personas by the names of their files."""
        offers = [
            *(
                offer
                for name, database in library.databases.items()
                for offer in _of_database(library, database, library.find(name).tool, books)
            ),
            *([_talk_to(personas, talks)] if personas else []),
        ]
        names = safe_names(personas)
        return cls(
            {offer.schema.name: offer for offer in offers},
            {names[name]: persona for name, persona in personas.items()},
        )

    def prompt(self, name: str, user: str) -> str:
        """Return the text of a persona, for a model that is to be it.

        Raises:
            ToolError: there is none of that name.
        """
        persona = self.personas.get(name)
        if persona is None:
            raise ToolError(f"There is no prompt {prompt_name(name)!r}. Prompts: {', '.join(self.personas)}.")
        names = {"user": prompt_name(user[:_LONGEST_WORDS]) or "somebody", "char": persona.name}
        return fill(persona.prompt, names | {"persona": persona.name})


def _of_database(
    library: "DatabasePool", database: "DirectoryDatabase", tool_name: str, books: Books
) -> Iterator[Offer]:
    """Return the tools of a database: its search, which needs no model, and its query."""

    async def search(
        call: ServedCall,
        keyword: Annotated[
            str, Field(description="a few words, in the language of the documents", max_length=_LONGEST_WORDS)
        ],
        limit: Annotated[int, Field(description="how many entries", ge=1, le=_MOST_RESULTS)] = RESULTS,
    ) -> Mapping[str, Any]:
        await _read(database)
        return await search_result(database, keyword, limit)

    async def query(
        call: ServedCall,
        query: Annotated[
            str, Field(description="what you want to know, as a whole question", max_length=_LONGEST_WORDS)
        ],
        ids: Annotated[
            list[int], Field(description="ids from the search; without any, the best that a search finds")
        ] = [],  # noqa: B006 - pydantic copies it
    ) -> Mapping[str, Any]:
        await _read(database)
        call.happens("looking for a model that reads")
        try:
            async with books() as count:
                agent = await library.reader()
                call.happens(f"reading what {database.title} says of that")
                return await query_result(database, agent, query, ids, count, progress=call.happens)
        except ToolError:
            raise
        except PixiError as error:
            raise ToolError(f"Nobody can read it out: {error}") from error

    search.__name__, query.__name__ = f"search_{tool_name}_database", f"query_{tool_name}_database"
    search.__doc__ = (
        f"Search {described(database)}\n\nGives ids, titles and snippets of entries; "
        f"`{query.__name__}` reads whole entries."
    )
    query.__doc__ = (
        f"Have entries of {database.title} read, and get back what they say about a question, word for word "
        "and with its place."
    )
    yield Offer(signature_of(search), search, reads=True)
    yield Offer(signature_of(query), query, reads=True)


async def _read(database: "DirectoryDatabase") -> None:
    """Wait a while for its files to be read; what is still missing then is told with the result."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_READY_SECONDS):
            await database.ready()


def _talk_to(personas: Mapping[str, Persona], talks: McpTalks) -> Offer:
    who = Literal[tuple(personas)]  # type: ignore[valid-type]  # known only now

    async def talk_to(
        call: ServedCall,
        persona: Annotated[Any, Field(description="who is to answer")],
        message: Annotated[str, Field(description="what you say", max_length=LONGEST_MESSAGE)],
        conversation: Annotated[
            str, Field(description="to go on with an earlier talk: what it gave as `conversation`")
        ] = "",
    ) -> Mapping[str, Any]:
        return await talks.say(persona, message, conversation or call.talk, call.happens)

    talk_to.__annotations__["persona"] = Annotated[who, Field(description="who is to answer")]
    about = "\n".join(f"- {name}: {_about(persona)}" for name, persona in personas.items())
    talk_to.__doc__ = f"Say something to a persona, and get its answer.\n\n{about}"
    return Offer(signature_of(talk_to), talk_to, reads=False)


def _about(persona: Persona) -> str:
    return clipped(" ".join(persona.about.split()) or persona.name, _LONGEST_ABOUT)
