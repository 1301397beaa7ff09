"""`TransformersSampler`: draws tokens from a local model of the `transformers` package."""

from __future__ import annotations

import threading
from asyncio import Future, get_running_loop
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from envweave.core.threads import start
from envweave.errors import ContextOverflowError, UsageError
from envweave.lm.tokens import Drawn

BATCH_WAIT_S = 0.005
"""How long a batch waits for another prompt, since the last one."""


@dataclass(slots=True)
class _Request:
    prompt: list[int]
    max_tokens: int
    stop: tuple[int, ...]
    done: Future[Drawn] = field(default_factory=lambda: get_running_loop().create_future())

    def answer(self, drawn: Drawn | None, error: BaseException | None) -> None:
        """Called on the thread of the model."""

        def set_result() -> None:
            if self.done.done():  # the caller was cancelled
                return
            if error is not None:
                self.done.set_exception(error)
            elif drawn is not None:
                self.done.set_result(drawn)

        try:
            self.done.get_loop().call_soon_threadsafe(set_result)
        except RuntimeError:  # the loop was closed
            pass


class TransformersSampler:
    """Draws for all episodes that wait, in batches, on one thread.

    The model may be trained between draws: do it in `with sampler.updating(version):`, which waits for the batch under
    way. `version` is kept with each draw.
    """

    def __init__(
        self,
        model: Any,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        max_batch: int = 64,
        version: int | str | None = 0,
    ) -> None:
        """`temperature=0` takes the most probable token. `top_k=0` is no limit."""
        if temperature < 0 or not 0 < top_p <= 1 or top_k < 0 or max_batch < 1:
            raise UsageError(f"{temperature=}, {top_p=}, {top_k=}, {max_batch=}: not in range")
        self.model = model
        self.version = version
        self._max_batch = max_batch
        self._options: dict[str, Any] = {"do_sample": temperature > 0, "num_beams": 1, "use_cache": True}
        if temperature > 0:
            self._options |= {"temperature": float(temperature), "top_p": float(top_p), "top_k": top_k}
        neutral = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_p": 0.0, "typical_p": 1.0}
        self._options |= neutral  # the defaults of the model would fill what is not set
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._lock = threading.Lock()
        """Held by a batch, and while the model is trained."""
        self._starting = threading.Lock()
        self._is_running = False

    @contextmanager
    def updating(self, version: int | str | None) -> Iterator[None]:
        """Wait until no batch runs, and let none begin before the block ends. Later draws have this version."""
        with self._lock:
            yield
            self.version = version

    async def sample(self, prompt: Sequence[int], *, max_tokens: int, stop: Sequence[int]) -> Drawn:
        context = getattr(self.model.config, "max_position_embeddings", None)
        room = max_tokens if context is None else min(max_tokens, context - len(prompt))
        if room < 1:
            raise ContextOverflowError(f"the prompt has {len(prompt)} tokens, the context of the model {context}")
        request = _Request(list(prompt), room, tuple(stop))
        self._requests.put(request)
        with self._starting:
            if not self._is_running:
                self._is_running = True
                start(self._run)
        return await request.done

    def _run(self) -> None:
        """Draw until nobody waits."""
        while True:
            batch = self._next_batch()
            if not batch:
                with self._starting:
                    if self._requests.empty():
                        self._is_running = False
                        return
                continue
            try:
                with self._lock:
                    drawn = self._draw(batch)
            except BaseException as error:
                for request in batch:
                    request.answer(None, error)
            else:
                for request, one in zip(batch, drawn, strict=True):
                    request.answer(one, None)

    def _next_batch(self) -> list[_Request]:
        batch: list[_Request] = []
        try:
            while len(batch) < self._max_batch:
                batch.append(self._requests.get(timeout=BATCH_WAIT_S))
        except Empty:
            pass
        return [request for request in batch if not request.done.cancelled()]

    def _draw(self, batch: list[_Request]) -> list[Drawn]:
        device, width = self.model.device, max(len(request.prompt) for request in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, request in enumerate(batch):
            ids[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt) :] = 1
        logprobs = _Logprobs()
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                found = self.model.generate(
                    input_ids=ids.to(device),
                    attention_mask=mask.to(device),
                    generation_config=self._config(batch),
                    logits_processor=LogitsProcessorList([logprobs]),
                    stopping_criteria=StoppingCriteriaList([_RowEnds(batch, width)]),
                )
        finally:
            self.model.train(was_training)
        logprobs.note(found[:, -1])
        rows, values = found[:, width:].tolist(), torch.stack(logprobs.steps, dim=1).tolist()
        return [self._drawn(*each) for each in zip(batch, rows, values, strict=True)]

    def _config(self, batch: list[_Request]) -> GenerationConfig:
        stop = sorted({token for request in batch for token in request.stop})
        longest = max(request.max_tokens for request in batch)
        eos = stop or [-1]  # with None, the model would fill in its own
        return GenerationConfig(max_new_tokens=longest, eos_token_id=eos, pad_token_id=0, **self._options)

    def _drawn(self, request: _Request, tokens: list[int], logprobs: list[float]) -> Drawn:
        ends = (place + 1 for place, token in enumerate(tokens) if token in request.stop)
        length = min(next(ends, len(tokens)), request.max_tokens)
        return Drawn(tuple(tokens[:length]), tuple(logprobs[:length]), self.version)


class _Logprobs(LogitsProcessor):  # type: ignore[misc]
    """Keeps the logarithm of the probability of each drawn token, before temperature and cuts."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self._last: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._last is not None:
            self.note(input_ids[:, -1])
        self._last = scores.float().log_softmax(-1)
        return scores

    def note(self, tokens: Any) -> None:
        """The tokens that were drawn from the last scores."""
        self.steps.append(self._last.gather(-1, tokens.unsqueeze(-1)).squeeze(-1))


class _RowEnds(StoppingCriteria):  # type: ignore[misc]
    """Ends each row at its own number of tokens."""

    def __init__(self, batch: list[_Request], width: int) -> None:
        self._ends = [width + request.max_tokens for request in batch]

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return torch.tensor([input_ids.shape[1] >= end for end in self._ends], device=input_ids.device)
