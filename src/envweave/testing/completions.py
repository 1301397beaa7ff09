"""Chat completions as an OpenAI-compatible server writes them: whole, or as a stream of server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envweave.lm import Message, Reply
from envweave.testing.misbehaviour import Cut, Failure

Said = str | Reply
"""A reply of a scripted model: its text, or all of it."""

STREAM = {"content-type": "text/event-stream"}
END = "data: [DONE]\n\n"


def answer(request: Mapping[str, Any], said: Said | Sequence[Said]) -> Failure:
    """The response to a request. One reply is given as often as the request asks for."""
    replies = [said] * int(request.get("n") or 1) if isinstance(said, Said) else said
    choices = [_choice(request, place, _reply(one)) for place, one in enumerate(replies)]
    whole = {"object": "chat.completion", **_frame(request, choices, _reply(replies[0])), "usage": None}
    whole["usage"] = _usage(request, [_reply(one) for one in replies])
    if request.get("stream"):
        return Failure(200, "".join([*_events(request, whole), END]), STREAM)
    return Failure(200, json.dumps(whole))


def half_stream(said: Said, *, chunks: int = 2, clean: bool = False) -> Failure:
    """A stream that ends after so many chunks: the connection is cut, or, if `clean`, closed as if that were all."""
    request = {"model": "half", "stream": True}
    reply = _reply(said)
    events = _events(request, _frame(request, [_choice(request, 0, reply)], reply))
    part = "".join(events[:chunks])
    return Failure(200, part, STREAM) if clean else Cut(200, "".join([*events, END]), STREAM, after_bytes=len(part))


def _reply(said: Said) -> Reply:
    return said if isinstance(said, Reply) else Reply(Message("assistant", said), "stop")


def _frame(request: Mapping[str, Any], choices: list[dict[str, Any]], reply: Reply) -> dict[str, Any]:
    frame = {"id": "chatcmpl-scripted", "created": 0, "model": reply.model or request.get("model"), "choices": choices}
    if request.get("return_token_ids"):
        texts = "\n".join(str(message.get("content")) for message in request.get("messages") or ())
        frame["prompt_token_ids"] = list(reply.prompt_token_ids or texts.encode())
    return frame


def _choice(request: Mapping[str, Any], place: int, reply: Reply) -> dict[str, Any]:
    """One choice. The tokens of a reply that does not name them are its bytes, each with the log-probability -1."""
    message = {key: value for key, value in reply.message.to_dict().items() if key != "name"}
    reason = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    choice: dict[str, Any] = {"index": place, "message": message, "finish_reason": reason}
    tokens = list(reply.token_ids if reply.token_ids is not None else reply.text.encode())
    if request.get("return_token_ids"):
        choice["token_ids"] = tokens
    if request.get("logprobs"):
        scores = reply.logprobs if reply.logprobs is not None else [-1.0] * len(tokens)
        choice["logprobs"] = {"content": [{"token": "?", "logprob": score, "bytes": None} for score in scores]}
    return choice


def _usage(request: Mapping[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """What the first reply says, or else numbers of words."""
    used = replies[0].usage
    words = sum(len(str(message.get("content", "")).split()) for message in request.get("messages") or ())
    prompt = used.prompt_tokens or words
    drawn = used.completion_tokens or sum(len(reply.text.split()) for reply in replies)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": drawn,
        "total_tokens": prompt + drawn,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def _events(request: Mapping[str, Any], whole: Mapping[str, Any]) -> list[str]:
    """The chunks of a stream, without its end."""
    frame = {**whole, "object": "chat.completion.chunk", "usage": None}
    prompt = frame.pop("prompt_token_ids", None)
    chunks = []
    for choice in whole["choices"]:
        deltas = _deltas(choice["message"])
        scores = choice.get("logprobs")
        for number, delta in enumerate(deltas):
            piece: dict[str, Any] = {"index": choice["index"], "delta": delta, "finish_reason": None}
            if "token_ids" in choice:
                piece["token_ids"] = _slice(choice["token_ids"], number, len(deltas))
            if scores:
                piece["logprobs"] = {"content": _slice(scores["content"], number, len(deltas))}
            chunks.append({**frame, "choices": [piece]})
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        chunks.append({**frame, "choices": [end]})
    if prompt is not None:
        chunks[0]["prompt_token_ids"] = prompt
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({**frame, "choices": [], "usage": whole["usage"]})
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]


def _deltas(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if message["content"] is None else ""}]
    for field in ("reasoning_content", "content"):
        deltas += [{field: word} for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", message.get(field) or "")]
    for place, call in enumerate(message.get("tool_calls", ())):
        name, text = call["function"]["name"], call["function"]["arguments"]
        begin = {"index": place, **call, "function": {"name": name, "arguments": ""}}
        half = len(text) // 2
        rest = [{"index": place, "function": {"arguments": part}} for part in (text[:half], text[half:])]
        deltas += [{"tool_calls": [piece]} for piece in (begin, *rest)]
    return deltas


def _slice(items: list[Any], number: int, count: int) -> list[Any]:
    """Part `number` of `count` parts of about the same length."""
    return items[number * len(items) // count : (number + 1) * len(items) // count]
