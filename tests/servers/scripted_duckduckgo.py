"""DuckDuckGo as its page without scripts is: behind a proxy on loopback, with a certificate of our own.

async with ScriptedDuckDuckGo(found(("Pancakes", "https://a.example/", "Thin."))) as server:
    engine = DuckDuckGo(proxy=server.proxy, verify=server.believed)
    ...
    assert server.asked == [{"q": "pancakes", "b": "", "l": "de-de"}]
"""

import asyncio
import re
import ssl
from html import escape
from urllib.parse import parse_qsl

from tests.servers.model_faults import CERTIFICATES
from tests.servers.scripted_openai import Hang, LoopbackServer, Reply, answer

_HTML = "text/html; charset=UTF-8"


def found(*results: tuple[str, str, str]) -> Reply:
    """The page of these results: title, address, snippet."""
    rows = "".join(
        '<div class="result results_links web-result"><div class="links_main links_deep result__body">'
        f'<h2 class="result__title"><a class="result__a" href="{escape(url)}">{escape(title)}</a>'
        f'</h2><a class="result__snippet" href="{escape(url)}">{snippet}</a></div></div>'
        for title, url, snippet in results
    )
    return answer(200, f'<!DOCTYPE html><html><body><div id="links">{rows}</div></body></html>', _HTML)


def puzzle(status: int = 202) -> Reply:
    """What whoever comes too often is shown."""
    words = "Unfortunately, bots use DuckDuckGo too."
    return answer(status, f'<html><body><div class="anomaly-modal__title">{words}</div></body></html>', _HTML)


class ScriptedDuckDuckGo(LoopbackServer):
    """The proxy and, behind it, the server: an async context manager.

    Args:
        replies: given in their order, the last one again and again.

    Attributes:
        asked: the fields of each search.
        hosts: whom the proxy was asked for.
        believed: the file of the certificate that vouches for it.
    """

    believed = str(CERTIFICATES / "searched-by.pem")

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self.asked: list[dict[str, str]] = []
        self.hosts: list[str] = []
        self._replies = list(replies)
        self._behind = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._behind.load_cert_chain(CERTIFICATES / "searched.pem")

    @property
    def proxy(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plain = writer.transport  # which is left open where TLS does not come about
        try:
            self.hosts.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            await writer.start_tls(self._behind)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1]) if length else 0)
            self.asked.append(dict(parse_qsl(body.decode(), keep_blank_values=True)))
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
            for step in reply.steps:
                if isinstance(step, Hang):
                    await reader.read()
                elif isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            writer.close()
            plain.abort()
