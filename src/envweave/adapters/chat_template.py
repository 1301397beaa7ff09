"""`ChatTemplate`: prompts by the template of a Hugging Face tokenizer, replies read by the `renderers` package."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from renderers import DefaultRendererConfig, config_from_name, create_renderer
from renderers.base import MODEL_RENDERER_MAP

from envweave.errors import UsageError
from envweave.lm.messages import FunctionCall, Message
from envweave.lm.reply import Reply

PROBE = "39481057"
"""A text that no template contains or changes."""

TOOL_FORMS = {"<tool▁calls▁begin": "deepseek-v3", "<arg_key>": "glm", "<function=": "qwen3.5", "<tool_call>": "qwen3"}
"""What a template contains that has calls in a form which `renderers` can read."""


class ChatTemplate:
    """Renders by a chat template, whatever it is.

    The next prompt continues the drawn tokens if the template renders the reply to what was drawn, or to a text that
    reads the same, and if it leaves the conversation so far unchanged when messages are added. Templates that drop
    thoughts or rewrite calls do not, so that a prompt is rendered anew for them.
    """

    def __init__(self, tokenizer: Any, *, tool_parser: str | None = None, **options: Any) -> None:
        """`options` are passed to the template: `enable_thinking=False`.

        `tool_parser` is the form of tool calls, by its name in `renderers`. It is guessed from the template unless
        given; the replies of models that `renderers` knows are read by its renderer for the model.
        """
        self._tokenizer = copy.deepcopy(tokenizer)
        self._options = options
        self._reader = _reader(self._tokenizer, tool_parser)
        template = str(self._tokenizer.chat_template)
        self._splits_reasoning = "reasoning_content" in template
        self._has_parts, self._has_parsed_arguments = False, True
        self._find_forms()
        self._closer = self._find_closer()
        eos = self._tokenizer.eos_token_id
        self.stop: tuple[int, ...] = tuple(dict.fromkeys(token for token in (self._closer, eos) if token is not None))

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Raises `UsageError` for messages that the template refuses."""
        return self._encode(self._text(messages, tools, prompt=True))

    def extend(
        self,
        messages: Sequence[Mapping[str, Any]],
        new: int,
        last: Reply,
        tools: Sequence[Mapping[str, Any]],
    ) -> list[int] | None:
        drawn, prompt = list(last.token_ids or ()), list(last.prompt_token_ids or ())
        closer = drawn.pop() if drawn and drawn[-1] in self.stop else self._closer
        if closer is None:
            return None
        place = len(messages) - new - 1
        before = self._text(messages[:place], tools, prompt=True)
        full = self._text(messages, tools, prompt=True)
        probe = {**messages[place], "content": PROBE}
        probed = self._text([*messages[:place], probe, *messages[place + 1 :]], tools, prompt=True)
        mark = self._decode([closer])
        _, found, rest = probed.partition(PROBE)[2].partition(mark)
        ending = found + rest  # what comes after the reply
        if not (found and full.startswith(before) and full[len(before) :].endswith(ending)):
            return None
        written = full[len(before) : len(full) - len(ending)]
        if written != self._decode(drawn) and not self._reads_the_same(written, drawn, prompt, tools):
            return None
        added = self._encode(ending)
        return [*prompt, *drawn, *added] if added[:1] == [closer] else None

    def parse(self, token_ids: Sequence[int], prompt: Sequence[int], tools: Sequence[Mapping[str, Any]]) -> Message:
        ids = list(token_ids[:-1] if token_ids and token_ids[-1] in self.stop else token_ids)
        found = self._reader.parse_response(ids, tools=[dict(tool) for tool in tools] or None, prompt_ids=list(prompt))
        content = found.content
        calls: list[FunctionCall] = []
        for call in found.tool_calls:
            if call.status == "ok" and call.name:
                arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments or {})
                calls.append(FunctionCall(call.id or f"call_{len(prompt)}_{len(calls)}", call.name, arguments))
            else:  # the environment tells the model what is wrong with it
                content += call.raw
        return Message("assistant", content, tuple(calls), reasoning=found.reasoning_content or None)

    def _text(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], *, prompt: bool = False
    ) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                [self._for_template(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=prompt,
                **self._options,
            )
        except Exception as error:  # templates raise what they like
            raise UsageError(f"the chat template refuses the conversation: {error}") from error
        return text

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _reads_the_same(
        self, written: str, drawn: Sequence[int], prompt: Sequence[int], tools: Sequence[Mapping[str, Any]]
    ) -> bool:
        return _meaning(self.parse(self._encode(written), prompt, tools)) == _meaning(self.parse(drawn, prompt, tools))

    def _for_template(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message in the form that the template reads."""
        content, reasoning = message.get("content") or "", message.get("reasoning_content")
        if reasoning and not self._splits_reasoning:
            content = f"<think>{reasoning}</think>{content}"
        if self._has_parts and isinstance(content, str):
            content = [{"type": "text", "text": content}]
        calls = message.get("tool_calls")
        if not calls:
            return {**message, "content": content}
        if self._has_parsed_arguments:
            functions = [call["function"] for call in calls]
            functions = [{**each, "arguments": _parsed(each.get("arguments"))} for each in functions]
            calls = [{**call, "function": each} for call, each in zip(calls, functions, strict=True)]
        return {**message, "content": content, "tool_calls": calls}

    def _find_forms(self) -> None:
        """Find out whether the template reads contents as texts or parts, and arguments as objects or texts."""
        asked = {"role": "user", "content": PROBE}
        for self._has_parts in (False, True):
            with suppress(UsageError):
                if PROBE in self._text([asked], (), prompt=True):
                    break
        else:
            raise UsageError("the chat template shows no text of users", "pass renderer=")
        calls = [FunctionCall("c", "f", json.dumps({"a": PROBE}))]
        called = Message("assistant", "", tuple(calls)).to_dict()
        for self._has_parsed_arguments in (True, False):
            with suppress(UsageError):
                if PROBE in self._text([asked, called], ()).replace(PROBE, "", 1):
                    break

    def _find_closer(self) -> int | None:
        """The token that the template writes after a reply; None if there is none."""
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": PROBE}]
        special = set(self._tokenizer.all_special_ids)
        special |= {id for id, token in self._tokenizer.added_tokens_decoder.items() if token.special}
        for messages in ([*said, {"role": "user", "content": "b"}], said):
            try:
                tail = self._text(messages, ()).partition(PROBE)[2]
            except UsageError:
                continue
            found = next((token for token in self._encode(tail) if token in special), None)
            if found is not None:
                return found
        return None


def _reader(tokenizer: Any, tool_parser: str | None) -> Any:
    """What reads replies."""
    known = MODEL_RENDERER_MAP.get(tokenizer.name_or_path)
    if known is not None and tool_parser is None:
        return create_renderer(tokenizer, config_from_name(known))
    template = str(tokenizer.chat_template or "")
    if not template:
        raise UsageError("the tokenizer has no chat template", "set tokenizer.chat_template, or pass renderer=")
    if tool_parser is None:
        tool_parser = next((form for mark, form in TOOL_FORMS.items() if mark in template), None)
    try:
        return create_renderer(tokenizer, DefaultRendererConfig(tool_parser=tool_parser))
    except ValueError as error:
        raise UsageError(str(error)) from error


def _parsed(text: Any) -> Any:
    """The arguments of a call as the object that they are, if they are one."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _meaning(message: Message) -> tuple[Any, ...]:
    calls = [(call.name, _parsed(call.arguments)) for call in message.tool_calls]
    return (str(message.content or "").strip(), (message.reasoning or "").strip(), calls)
