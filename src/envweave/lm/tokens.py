"""What a policy that works on tokens is made of: a renderer around a sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envweave.lm.messages import Message
from envweave.lm.reply import Reply


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens that a model drew."""

    token_ids: tuple[int, ...]
    """With the token that ended the reply, if one did."""
    logprobs: tuple[float, ...] | None = None
    """Logarithms of the probabilities of the tokens at temperature 1."""
    policy_version: int | str | None = None
    """The weights that drew them."""


class Sampler(Protocol):
    """Draws tokens, for any number of episodes at once."""

    async def sample(self, prompt: Sequence[int], *, max_tokens: int, stop: Sequence[int]) -> Drawn:
        """Draw up to `max_tokens` tokens, or up to one of `stop`.

        Raises `ContextOverflowError` if the prompt leaves no room for a token.
        """


class Renderer(Protocol):
    """Turns conversations into tokens and drawn tokens into messages. Called by one thread at a time."""

    stop: Sequence[int]
    """Tokens that end a reply."""

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """The prompt for the next reply."""

    def extend(
        self,
        messages: Sequence[Mapping[str, Any]],
        new: int,
        last: Reply,
        tools: Sequence[Mapping[str, Any]],
    ) -> list[int] | None:
        """The prompt for the next reply, which begins with the prompt and the tokens of the last one.

        The last `new` messages came since `last`. None if such a prompt would differ from what the model was trained
        on, or if that is not certain.
        """

    def parse(self, token_ids: Sequence[int], prompt: Sequence[int], tools: Sequence[Mapping[str, Any]]) -> Message:
        """The message that the drawn tokens are."""
