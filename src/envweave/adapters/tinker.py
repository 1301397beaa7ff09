"""`TinkerSampler` and `to_datum`: Thinking Machines' Tinker as the sampler, and samples in the form of its trainer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import tinker

from envweave.errors import ContextOverflowError, UsageError
from envweave.lm.tokens import Drawn


class TinkerSampler:
    """Draws through a sampling client.

    Call `update` with the client for new weights. With a `context_length`, a prompt that is too long ends the episode
    as `context_overflow`.
    """

    def __init__(
        self,
        client: tinker.SamplingClient,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        context_length: int | None = None,
        version: int | str | None = 0,
    ) -> None:
        self._client = client, version
        self._context_length = context_length
        self._options: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "top_k": top_k}

    @property
    def version(self) -> int | str | None:
        return self._client[1]

    def update(self, client: tinker.SamplingClient, version: int | str | None) -> None:
        """Use these weights for draws that begin from now on."""
        self._client = client, version

    async def sample(self, prompt: Sequence[int], *, max_tokens: int, stop: Sequence[int]) -> Drawn:
        client, version = self._client
        if self._context_length is not None:
            max_tokens = min(max_tokens, self._context_length - len(prompt))
        if max_tokens < 1:
            raise ContextOverflowError(f"the prompt has {len(prompt)} tokens, the context {self._context_length}")
        options = tinker.SamplingParams(max_tokens=max_tokens, stop=list(stop), **self._options)
        answer = await client.sample(tinker.ModelInput.from_ints(list(prompt)), 1, options)
        drawn = answer.sequences[0]
        logprobs = None if drawn.logprobs is None else tuple(drawn.logprobs)
        return Drawn(tuple(drawn.tokens), logprobs, version)


class TrainingSequence(Protocol):
    """What `envweave.rollouts.Sample` has."""

    tokens: list[int]
    mask: list[int]
    logprobs: list[float]
    advantages: list[float]


def to_datum(sample: TrainingSequence) -> tinker.Datum:
    """A sample of `Group.samples` for `forward_backward` with `importance_sampling`, `ppo` or `cispo`.

    Targets are the tokens that follow, so that everything is shifted by one. What the environment said has the
    advantage 0. Raises `UsageError` for drawn tokens without log-probabilities.
    """
    if not len(sample.tokens) == len(sample.mask) == len(sample.logprobs) == len(sample.advantages):
        raise UsageError("the sample has no advantages", "take it from group.samples()")
    if any(math.isnan(value) for value in sample.logprobs):
        raise UsageError("the sample has tokens without log-probabilities", "the sampler must give them")
    advantages = [value * own for value, own in zip(sample.advantages, sample.mask, strict=True)]
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(sample.tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tinker.TensorData(data=sample.tokens[1:], dtype="int64"),
            "logprobs": tinker.TensorData(data=sample.logprobs[1:], dtype="float32"),
            "advantages": tinker.TensorData(data=advantages[1:], dtype="float32"),
        },
    )
