"""The chunks of a streamed reply, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envweave.errors import InvalidReplyError
from envweave.lm.messages import encodable
from envweave.lm.secrets import Secret


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """A piece of a reply: of its text, its reasoning, or one of its tool calls."""

    text: str = ""
    reasoning: str = ""
    tool_call: int | None = None
    """The place of the tool call, from 0, that `id`, `name` and `arguments` are a piece of."""
    id: str = ""
    name: str = ""
    arguments: str = ""


OnDelta = Callable[[ReplyDelta], None]


class StreamedChoice:
    """Puts the chunks of a stream together to the chat completion that they are the pieces of."""

    def __init__(self, secret: Secret, on_delta: OnDelta) -> None:
        self.begun = False
        self._secret, self._on_delta = secret, on_delta
        self._answer: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"finish_reason": None}
        self._texts: dict[tuple[Any, ...], list[str]] = {}
        self._places: dict[int, tuple[int | None, str]] = {}
        self._count = 0
        self._held: dict[tuple[Any, ...], str] = {}

    def add(self, chunk: Any) -> None:
        """Take the next chunk. Raises `InvalidReplyError`."""
        choices = chunk.get("choices") if isinstance(chunk, Mapping) else None
        if not isinstance(choices, list):
            raise InvalidReplyError("a part of the stream is not a chunk of a chat completion")
        self.begun = True
        self._answer.update({key: value for key, value in chunk.items() if value is not None and key != "choices"})
        for choice in choices:
            if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
                self._add_choice(choice)

    def completion(self) -> dict[str, Any] | None:
        """What the endpoint would have answered without a stream; None if the end has not come."""
        if self._choice["finish_reason"] is None:
            return None
        for key in list(self._held):
            self._emit(key, "", last=True)
        message: dict[str, Any] = {}
        calls: dict[int, dict[str, Any]] = {}
        for (kind, place, field), texts in self._texts.items():
            call = calls.setdefault(place, {"function": {}}) if kind == "tool_call" else {}
            target = message if kind == "message" else call if field == "id" else call["function"]
            target[field] = "".join(texts)
        message["tool_calls"] = [calls[place] for place in sorted(calls)]
        return {**self._answer, "choices": [{**self._choice, "message": message}]}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        self._choice["finish_reason"] = choice.get("finish_reason") or self._choice["finish_reason"]
        if isinstance(found := choice.get("token_ids"), list):
            self._choice.setdefault("token_ids", []).extend(found)
        scores = choice.get("logprobs")
        if isinstance(scores, Mapping) and isinstance(scores.get("content"), list):
            self._choice.setdefault("logprobs", {"content": []})["content"].extend(scores["content"])
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return
        self._add_text(("message", 0, "content"), delta.get("content"))
        self._add_text(("message", 0, "refusal"), delta.get("refusal"))
        self._add_text(("message", 0, "reasoning"), delta.get("reasoning_content") or delta.get("reasoning"))
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            self._add_tool_call(number, call)

    def _add_tool_call(self, number: int, call: Any) -> None:
        index = call.get("index", number) if isinstance(call, Mapping) else None
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(index, int) or not isinstance(function, Mapping | None):
            raise InvalidReplyError("a part of the stream has a tool call that cannot be read")
        place, known = self._places.get(index, (None, ""))
        id = call.get("id") or known
        if place is None or (known and id != known):  # some endpoints give all calls the same index
            place, self._count = self._count, self._count + 1
        self._places[index] = (place, id)
        for field, text in {"id": id, **(function or {})}.items():
            key = ("tool_call", place, field)
            is_repeated = field != "arguments" and "".join(self._texts.get(key, ())) == text
            if field in ("id", "name", "arguments") and not is_repeated:
                self._add_text(key, text)

    def _add_text(self, key: tuple[Any, ...], text: Any) -> None:
        if isinstance(text, str) and (text or key == ("message", 0, "content")):
            self._texts.setdefault(key, []).append(text)
            if key[2] != "refusal":
                self._emit(key, text)

    def _emit(self, key: tuple[Any, ...], text: str, *, last: bool = False) -> None:
        """Pass on what cannot be part of the token any more."""
        text = self._held.pop(key, "") + text
        held = 0 if last else self._secret.held_back(text)
        if held:
            text, self._held[key] = text[:-held], text[-held:]
        text = self._secret.strike(encodable(text))
        if text:
            self._on_delta(_delta(key, text))


def _delta(key: tuple[Any, ...], text: str) -> ReplyDelta:
    kind, place, field = key
    if kind == "tool_call":
        return ReplyDelta(tool_call=place, **{field: text})
    return ReplyDelta(reasoning=text) if field.startswith("reasoning") else ReplyDelta(text=text)
