"""The wikis of `[wiki.NAME]`: their tools come and go with the settings; they are asked when a model asks."""

from collections.abc import Mapping

from pixi.addons.wiki import WikiOf, source_of, tool_names, wiki_tools
from pixi.app.reach.part import Grounds
from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.fetching.web import Web
from pixi.settings import Settings, WikiSettings
from pixi.web.wikis.wiki import Wiki
from pixi.web.wikis.wikipedia import wikipedia_in


def part_on(grounds: Grounds) -> "Wikis":
    """The part, on an engine."""
    return Wikis(grounds)


class Wikis:
    """The tools of all wikis.

    Args:
        grounds: what it stands on.
    """

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        self._web = Web()
        self._wikipedias: dict[str, Wiki] = {}
        self._known: dict[str, WikiSettings] = {}

    async def go_by(self, settings: Settings) -> None:
        """Register the tools of wikis that came or changed, and take away those of others.

        Raises:
            ConfigError: the tools of two would be called the same, or as another tool is.
        """
        self._web.contact = settings.web_pages.contact
        _check_names(settings.wiki)
        grounds = self._grounds
        for name in [name for name, known in self._known.items() if settings.wiki.get(name) != known]:
            grounds.tools.remove(source_of(name))
            del self._known[name]
        for name, wanted in settings.wiki.items():
            if name not in self._known:
                setup = wiki_tools(
                    name,
                    self._wiki_of(wanted),
                    self._grounds.library.reader,
                    grounds.tools.mask,
                    about=_about(name, wanted),
                    personas=wanted.personas,
                )
                grounds.tools.remove(source_of(name))  # what an earlier try may have left
                setup(grounds.addon)
                self._known[name] = wanted

    async def close(self) -> None:
        """Give back the connections."""
        await self._web.close()

    def _wiki_of(self, wanted: WikiSettings) -> WikiOf:
        if wanted.url:
            wiki = Wiki(self._web, wanted.url, trusted=True)
            return lambda _: wiki
        return self._wikipedia_of

    def _wikipedia_of(self, persona: Persona) -> Wiki:
        """Wikipedia in the persona's language, the same one each time."""
        url, variant = wikipedia_in(persona.language)
        key = f"{url} {variant}"
        if key not in self._wikipedias:
            self._wikipedias[key] = Wiki(self._web, url, trusted=False, variant=variant)
        return self._wikipedias[key]


def _about(name: str, wanted: WikiSettings) -> str:
    """What the model is told of it."""
    if wanted.about:
        return f"the wiki {name}: {wanted.about}"
    return f"the wiki {name}" if wanted.url else "Wikipedia, the encyclopedia"


def _check_names(wikis: Mapping[str, WikiSettings]) -> None:
    called: dict[tuple[str, str], str] = {}
    for name in wikis:
        other = called.setdefault(tool_names(name), name)
        if other != name:
            raise ConfigError(
                f"[wiki.{other}] and [wiki.{name}]: their tools would both be called {tool_names(name)[0]}; "
                "rename one of them."
            )
