"""The server as knowledge: tools that look up what was written in it and everybody here may read."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from pixi.core.channel import Archive, ArchivedMessage, ArchiveQuery, Asker, ForumPost, FoundMessages, Way
from pixi.core.errors import ChannelError, ToolError
from pixi.core.spending import Rate
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from pixi.toolbox.tools import EVERYBODY, ToolTerms

SOURCE = "server_history"
"""The source of the tools: a persona that names it gets them all."""

PER_PERSON = Rate(30, 300.0)
"""Rate limit of these tools for one person."""

_MOST = 25  # messages in one result
_MOST_POSTS = 8
_NOTHING = "Nothing was found that everybody here may read. Try other words, or fewer."
_NO_ARCHIVE = "There is no server here whose messages could be looked up."
_TERMS = ToolTerms(source=SOURCE, personas=EVERYBODY, per_person=PER_PERSON, needs="archive")

Channel = Annotated[str, Field(description="name, id or link of a channel or thread; empty: all of them")]
Limit = Annotated[int, Field(description="how many messages", ge=1, le=_MOST)]


def setup(addon: Addon) -> None:
    """Register them."""
    _searching(addon)
    _reading(addon)


def _searching(addon: Addon) -> None:
    """Register the tools that find messages and posts."""

    @addon.tool(**_TERMS)
    async def search_messages(
        context: Context,
        *,
        words: Annotated[str, Field(description="a few words, in the language in which it was written")] = "",
        channel: Channel = "",
        author: Annotated[str, Field(description="only what this person wrote: name or mention")] = "",
        before: Annotated[str, Field(description="only before this day, e.g. 2026-03-31")] = "",
        after: Annotated[str, Field(description="only since this day, e.g. 2026-03-01")] = "",
        limit: Limit = 8,
    ) -> dict[str, Any]:
        """Search what people wrote in this server before: who said something, when, where it was decided.

        Gives messages with a link each. Show people the links; `read_messages` reads what stands round one.
        """
        archive, asking = _asked(context)
        if not words.strip() and not author.strip():
            raise ToolError("Give words to look for, or an author.")
        query = ArchiveQuery(
            words=words.strip(),
            place=channel,
            author=author,
            before=_moment(before),
            after=_moment(after),
            limit=limit,
        )
        try:
            return told(await archive.search(query, asking))
        except ChannelError as error:
            raise ToolError(str(error)) from error

    @addon.tool(**_TERMS)
    async def search_forum(
        context: Context,
        words: Annotated[str, Field(description="what the question or topic is about")],
        forum: Annotated[str, Field(description="name of one forum; empty: all of them")] = "",
        limit: Annotated[int, Field(description="how many posts", ge=1, le=_MOST_POSTS)] = 3,
    ) -> dict[str, Any]:
        """Search the posts of this server's forums: questions that were asked before, and their best answers.

        Gives title, tags, whether it is solved, first message, best answers, and links to show people.
        """
        archive, asking = _asked(context)
        if not words.strip():
            raise ToolError("Give words to look for.")
        try:
            found = await archive.posts(ArchiveQuery(words=words.strip(), place=forum, limit=limit), asking)
        except ChannelError as error:
            raise ToolError(str(error)) from error
        return _with_note({"posts": [_post(each) for each in found.posts]}, found.partial, bool(found.posts))


def _reading(addon: Addon) -> None:
    """Register the tools that read messages where they stand."""

    @addon.tool(**_TERMS)
    async def read_pins(
        context: Context,
        channel: Annotated[str, Field(description="name, id or link; empty: where you are")] = "",
        limit: Limit = 10,
    ) -> dict[str, Any]:
        """Read the messages that people pinned in a channel: rules, dates, links worth keeping."""
        archive, asking = _asked(context)
        try:
            return told(await archive.pins(channel, asking, limit=limit), nothing="Nothing is pinned there.")
        except ChannelError as error:
            raise ToolError(str(error)) from error

    @addon.tool(**_TERMS)
    async def read_messages(
        context: Context,
        where: Annotated[str, Field(description="the link of a message; or a channel, thread or post")],
        way: Annotated[
            Way,
            Field(description="messages around that one, or before or after it; a channel's first: after"),
        ] = "around",
        limit: Limit = 10,
    ) -> dict[str, Any]:
        """Read a few messages of this server as they stand one after the other, oldest first.

        With the link of a search's result you read what it is about; with a channel, what was written last.
        """
        archive, asking = _asked(context)
        try:
            found = await archive.read(where, asking, way=way, limit=limit)
        except ChannelError as error:
            raise ToolError(str(error)) from error
        return told(found, nothing="Nobody wrote anything there.")


def told(found: FoundMessages, *, nothing: str = _NOTHING) -> dict[str, Any]:
    """Return what a model gets of messages."""
    messages = [_message(each) for each in found.messages]
    return _with_note({"messages": messages}, found.partial, bool(messages), nothing)


def _asked(context: Context) -> tuple[Archive, Asker]:
    """Return the archive where somebody asks, and in whose name it is searched: all answered in the turn."""
    archive = context.channel.archive
    if archive is None:
        raise ToolError(_NO_ARCHIVE)
    people = tuple(dict.fromkeys(author.id for author in context.askers))
    return archive, Asker(people, context.message.id)


def _message(written: ArchivedMessage) -> dict[str, Any]:
    message = {
        "author": written.author,
        "where": written.place,
        "when": _when(written.at),
        "text": written.text,
        "link": written.link,
    }
    return message | ({"bot": True} if written.bot else {})


def _post(post: ForumPost) -> dict[str, Any]:
    told: dict[str, Any] = {"title": post.title, "forum": post.place, "when": _when(post.at)}
    told |= {"tags": list(post.tags)} if post.tags else {}
    told |= {"solved": post.solved, "answers": post.answers, "link": post.link}
    told |= {"closed": True} if post.closed else {}
    told |= {"first_message": _answer(post.first)} if post.first is not None else {}
    return told | ({"best_answers": [_answer(each) for each in post.best]} if post.best else {})


def _answer(written: ArchivedMessage) -> dict[str, Any]:
    return {"author": written.author, "text": written.text, "link": written.link}


def _with_note(result: dict[str, Any], partial: str, found: bool, nothing: str = _NOTHING) -> dict[str, Any]:
    note = " ".join(part for part in ("" if found else nothing, partial) if part)
    return result | ({"note": note} if note else {})


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _moment(day: str) -> float | None:
    """Return the beginning of a day, or a moment, in seconds since the epoch; UTC where it names no zone."""
    day = day.strip()
    if not day:
        return None
    try:
        moment = datetime.fromisoformat(day)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ToolError(f"{day[:40]!r} is no day: write it as 2026-03-31.") from None
