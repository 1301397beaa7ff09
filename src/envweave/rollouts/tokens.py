"""`TokenPolicy`: conversations as token sequences. What was drawn is never encoded again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from envweave.core.lookup import load
from envweave.errors import UsageError
from envweave.lm.reply import Reply, Usage
from envweave.lm.tokens import Renderer, Sampler
from envweave.rollouts.base import Conversation

T = TypeVar("T")


class TokenPolicy:
    """Renders a conversation, draws tokens and parses them.

    A prompt continues the tokens of the last reply if it is certain that the chat template renders the conversation
    so; otherwise the conversation is rendered anew, and `Episode.samples` begins another sequence.
    """

    def __init__(
        self,
        sampler: Sampler,
        tokenizer: Any = None,
        *,
        renderer: Renderer | None = None,
        max_tokens: int = 1024,
        stop: Sequence[int] = (),
        **template_options: Any,
    ) -> None:
        """Use the chat template of the tokenizer, with these options, or another renderer.

        The tokenizer is copied, because it must not be used by two threads. `stop` are tokens that end a reply, beside
        those of the renderer. `tool_parser=` names the form of tool calls, see `ChatTemplate`.
        """
        if (tokenizer is None) == (renderer is None):
            raise UsageError("a token policy needs either a tokenizer or a renderer", "TokenPolicy(sampler, tokenizer)")
        if renderer is not None and template_options:
            raise UsageError(f"options of a chat template beside a renderer: {', '.join(template_options)}")
        if type(max_tokens) is not int or max_tokens < 1:
            raise UsageError(f"max_tokens is {max_tokens!r}", "use a positive whole number")
        if renderer is None:
            template = load("envweave.adapters.chat_template:ChatTemplate", extra="transformers")
            renderer = template(tokenizer, **template_options)
        self.sampler = sampler
        self.renderer = renderer
        self.max_tokens = max_tokens
        self.stop = tuple(dict.fromkeys([*renderer.stop, *stop]))
        self._thread = ThreadPoolExecutor(1, "envweave-renderer")

    async def reply(self, conversation: Conversation) -> Reply:
        """The next message, with its tokens. Raises what the sampler raises, and `ContextOverflowError`."""
        tools, renderer = conversation.tools, self.renderer
        prompt = await self._rendered(lambda: self._prompt(conversation))
        limit = min(self.max_tokens, conversation.max_tokens or self.max_tokens)
        drawn = await self.sampler.sample(prompt, max_tokens=limit, stop=self.stop)
        message = await self._rendered(lambda: renderer.parse(drawn.token_ids, prompt, tools))
        ended = bool(drawn.token_ids) and drawn.token_ids[-1] in self.stop
        return Reply(
            message,
            "length" if not ended else "tool_calls" if message.tool_calls else "stop",
            Usage(calls=1, prompt_tokens=len(prompt), completion_tokens=len(drawn.token_ids)),
            tuple(prompt),
            drawn.token_ids,
            drawn.logprobs,
            policy_version=drawn.policy_version,
        )

    def _prompt(self, conversation: Conversation) -> list[int]:
        last, renderer = conversation.last, self.renderer
        prompt = None
        if last is not None and last.token_ids is not None and conversation.last_tools == conversation.tools:
            prompt = renderer.extend(conversation.messages, len(conversation.new), last, conversation.tools)
        return renderer.render(conversation.messages, conversation.tools) if prompt is None else prompt

    async def _rendered(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
