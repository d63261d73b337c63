"""Pages as they were fetched from the web, by what the server said they are."""

from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell, feeds, markdown, pdf, plain, web_page
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.labels import parted
from pixi.knowledge.reading.opening import Original


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The page, as one document."""
    label, body = parted(original.all_bytes())
    if label.kind == "pdf":
        return pdf.read(replace(original, file=BytesIO(body), size=len(body)), tell)
    if not body.strip():
        return ()
    match label.kind:
        case "html":
            return (web_page.document_of(web_page.text_of(body, label.charset), label.url, tell),)
        case "feed":
            return (feeds.document_of(body, label.charset),)
        case "markdown":
            return (markdown.document_of(decoded(body, label.charset)),)
        case _:
            return (Document("", "", tuple(plain.sections(decoded(body, label.charset)))),)
