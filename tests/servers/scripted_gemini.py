"""Replies of the Gemini API (`streamGenerateContent?alt=sse`), in the format of its documentation.

    async with ScriptedOpenAI(reply(said("Hel", "lo"))) as server:
        model = ServerModel("scripted", Gemini(), base_url=server.base_url)

A reply is a list of chunks, made by `said`, `thought`, `call`, `part`; raw steps may stand between them.
"""

import json

from tests.servers.scripted_openai import Close, Json, Reply, Step, answer, event, head

SIGNATURE = "c2lnbmVk"


def part(fields: Json) -> Json:
    """A chunk with that part."""
    return {
        "candidates": [{"content": {"parts": [fields], "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20},
        "modelVersion": "scripted",
        "responseId": "r1",
    }


def said(*pieces: str) -> list[Json]:
    """Chunks of text."""
    return [part({"text": piece}) for piece in pieces]


def thought(*pieces: str) -> list[Json]:
    """Chunks of what the model thought."""
    return [part({"text": piece, "thought": True}) for piece in pieces]


def call(name: str, arguments: Json, *, call_id: str | None = None, signature: str | None = None) -> Json:
    """A chunk with a call, which comes whole here."""
    asked: Json = {"name": name, "args": arguments} | ({"id": call_id} if call_id else {})
    return part({"functionCall": asked} | ({"thoughtSignature": signature} if signature else {}))


def found(
    *pages: tuple[str, str], queries: tuple[str, ...] = (), cited: tuple[int, ...] | None = None
) -> Json:
    """Grounding metadata: the pages of a search as (url, title), and which of them the text rests on."""
    told: Json = {
        "searchEntryPoint": {"renderedContent": "<div>…</div>"},
        "groundingChunks": [{"web": {"uri": url, "title": title}} for url, title in pages],
        "webSearchQueries": list(queries),
    }
    if cited is not None:
        segment = {"startIndex": 0, "endIndex": 5, "text": "Flour"}
        told["groundingSupports"] = [{"segment": segment, "groundingChunkIndices": list(cited)}]
    return told


def reply(
    *items: Json | list[Json] | Step,
    stop: str | None = "STOP",
    grounding: Json | None = None,
    usage: Json | None = None,
    end: bool = True,
) -> Reply:
    """A streamed reply, each chunk one write.

    Args:
        items: chunks; bytes are written as they are.
        stop: the reason of its end; None: it breaks off before it.
        grounding: of the last chunk.
        usage: more counts.
        end: the HTTP body is ended as it should be.
    """
    steps: list[Step] = [head(transfer_encoding="chunked")]
    for item in items:
        if isinstance(item, dict):
            steps.append(framed(item))
        elif isinstance(item, list):
            steps += [framed(chunk) for chunk in item]
        else:
            steps.append(item)
    if stop is not None:
        last = part({"text": ""})
        last["candidates"][0] |= {"finishReason": stop} | (
            {"groundingMetadata": grounding} if grounding else {}
        )
        last["usageMetadata"] |= {"candidatesTokenCount": 9} | (usage or {})
        steps.append(framed(last))
    return Reply((*steps, b"0\r\n\r\n" if end else Close()))


def error(status: int, words: str, code: str = "INVALID_ARGUMENT", *, retry: str | None = None) -> Reply:
    """An answer that is an error. `retry`: the time after which to ask again, such as `34s`."""
    return answer(status, fault(status, words, code, retry=retry))


def fault(status: int, words: str, code: str, *, retry: str | None = None) -> Json:
    """What an error looks like, in an event as in an answer."""
    fields: Json = {"code": status, "message": words, "status": code}
    if retry:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        fields["details"] = [{"@type": kind, "retryDelay": retry}]
    return {"error": fields}


def models(*ids: str) -> Reply:
    """A listing of models."""
    return answer(200, {"models": [{"name": f"models/{each}", "displayName": each} for each in ids]})


def framed(chunk: Json) -> bytes:
    """A chunk as one HTTP chunk with one event."""
    data = event(json.dumps(chunk, ensure_ascii=False))
    return b"%x\r\n%b\r\n" % (len(data), data)
