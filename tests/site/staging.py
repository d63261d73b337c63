"""A copy of the pages for the builder of the site: with its own links, and in the order of the index."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_LINK = re.compile(r"(?<=\]\()([^()\s#]+)(?=[#)])")
_FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.DOTALL | re.MULTILINE)
_BESIDE = {
    "BENCHMARKS.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the project's folder that the site has, too."""

_CONFIG = """\
[project]
site_name = "Pixi"
site_description = "Characters that live in a chat"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
extra_css = ["site.css"]
nav = [{nav}]

[project.theme]
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{ icon = "lucide/sun", name = "Dark" }}

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{ icon = "lucide/moon", name = "Light" }}

[project.markdown_extensions.tables]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.md_in_html]
[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
[project.markdown_extensions.pymdownx.inlinehilite]
[project.markdown_extensions.pymdownx.saneheaders]
"""
_STYLE = "picture img { border-radius: 10px; height: auto; }\n"


def stage(folder: Path) -> Path:
    """Copy the pages into `folder`, made anew, with the builder's settings; return the path of these."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    shutil.copytree(DOCS, pages)
    (pages / "README.md").rename(pages / "index.md")
    for name, own in _BESIDE.items():
        shutil.copy(ROOT / name, pages / own)
    for page in pages.glob("*.md"):
        page.write_text(_with_links(page.read_text(encoding="utf-8"), pages), encoding="utf-8")
    (pages / "site.css").write_text(_STYLE, encoding="utf-8")
    config = folder / "zensical.toml"
    config.write_text(_CONFIG.format(nav=_order(pages / "index.md")), encoding="utf-8")
    return config


def _with_links(text: str, pages: Path) -> str:
    """The text of a page with links to other files of the project as they are in the site."""
    done, at = [], 0
    for block in _FENCED.finditer(text):
        done += [_LINK.sub(lambda link: _target(link[0], pages), text[at : block.start()]), block[0]]
        at = block.end()
    done.append(_LINK.sub(lambda link: _target(link[0], pages), text[at:]))
    return "".join(done)


def _target(link: str, pages: Path) -> str:
    if ":" in link:
        return link
    name = link.removeprefix("../").removeprefix("docs/")
    if name in _BESIDE:
        return _BESIDE[name]
    if name == "README.md":
        return "index.md"
    if link.startswith("../"):  # a file of the source: the site has a copy
        (pages / "source").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, pages / "source")
        return f"source/{Path(name).name}"
    return name


def _order(index: Path) -> str:
    """The pages in the order of the index, by its headings, as the builder's settings have it."""
    parts = [f'{{ "Pages" = {_quoted(index.name)} }}']
    for section in re.split(r"^## ", index.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        links = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)", section, re.MULTILINE)
        inside = ", ".join(f"{{ {_quoted(title)} = {_quoted(page)} }}" for title, page in links)
        parts.append(f"{{ {_quoted(heading)} = [{inside}] }}")
    more = ", ".join(_quoted(page) for page in _BESIDE.values())
    return ", ".join([*parts, f'{{ "About" = [{more}] }}'])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
