"""Play episodes and write down all that can be seen of them. Nothing the environment does is raised here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from envweave.core.handle import EnvHandle
from envweave.core.sample import sample
from envweave.errors import InvalidActionError
from envweave.requests import DEFAULT_AGENT, NeedAction, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.testing.episode import NOTHING, Call, FailedCall, Frame, PlayedEpisode, Watch
from envweave.testing.prints import fingerprint, observed
from envweave.testing.report import attempt

PATIENCE = 10_000
"""How many actions are drawn where all before were refused: one legal move in a thousand is found."""


class Policy(Protocol):
    """Chooses actions; one that insists has no other to offer when its action is refused."""

    insists: bool

    def choose(self, needs: list[NeedAction], *, several: bool) -> Any:
        """Raise `StopIteration` when it has no more to say."""


class Drawing:
    """Draws random actions from the schemas of those who must act."""

    insists = False

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, needs: list[NeedAction], *, several: bool) -> Any:
        drawn = {need.agent_id: sample(need.action_schema, self._random) for need in needs}
        return drawn if several else next(iter(drawn.values()))


class Script:
    """Says again what was said before."""

    insists = True

    def __init__(self, actions: Sequence[Any]) -> None:
        self._actions = iter(actions)

    def choose(self, needs: list[NeedAction], *, several: bool) -> Any:  # the script knows
        return next(self._actions)


class Player:
    """Drives one environment through its handle; tool calls are answered with None."""

    def __init__(
        self, handle: EnvHandle[Any], env: Any, watch: Watch | None = None, *, several: bool | None = None
    ) -> None:
        self.handle = handle
        self.env = env
        self.watch = watch
        self._several = several

    @property
    def needs(self) -> list[NeedAction]:
        return [request for request in self.handle.pending if isinstance(request, NeedAction)]

    @property
    def several(self) -> bool:
        """Actions and observations are dicts by agent; a foreign handle is known by whom it asks."""
        if self._several is None and self.needs:
            self._several = [need.agent_id for need in self.needs] != [DEFAULT_AGENT]
        return bool(self._several)

    def play(self, seed: int, max_steps: int, random: Random) -> PlayedEpisode:
        """A new episode with random actions."""
        return self.play_into(PlayedEpisode(seed), random, max_steps)

    def play_into(self, episode: PlayedEpisode, random: Random, max_steps: int) -> PlayedEpisode:
        """The same for an episode that says how it begins."""
        for _ in self.unfold(episode, Drawing(random), max_steps):
            pass
        return episode

    def replay(self, seed: int, actions: Sequence[Any] = (), *, max_steps: int) -> PlayedEpisode:
        """A new episode with given actions; without any it is a reset alone."""
        return self.replay_into(PlayedEpisode(seed), actions, max_steps)

    def replay_into(self, episode: PlayedEpisode, actions: Sequence[Any], max_steps: int) -> PlayedEpisode:
        """The same for an episode that says how it begins."""
        for _ in self.unfold(episode, Script(actions), max_steps):
            pass
        return episode

    def unfold(self, episode: PlayedEpisode, policy: Policy, max_steps: int) -> Iterator[None]:
        """Play into `episode`, one call for each `next`, until it ends, fails, or the policy is out of actions."""
        chosen = {} if episode.task is None else {"task": episode.task}
        if not self._call(episode, "reset", partial(self.handle.reset, seed=episode.seed, **chosen)):
            return
        agents, _ = attempt(lambda: tuple(self.env.agents))
        episode.agents = agents or ()
        yield
        while len(episode.steps) < max_steps and not episode.ended:
            tool = next((request for request in self.handle.pending if isinstance(request, ToolCall)), None)
            if tool is not None:
                went_on = self._call(episode, "respond", partial(self.handle.respond, tool.request_id, None))
            else:
                went_on = self._act(episode, policy)
            if not went_on:
                return
            yield

    def _act(self, episode: PlayedEpisode, policy: Policy) -> bool:
        needs, refusal = self.needs, ""
        for _ in range(PATIENCE if needs else 0):
            try:
                action = policy.choose(needs, several=self.several)
            except StopIteration:
                return False
            except Exception as error:  # a schema that is missing, beyond our means, or wrong in itself
                episode.speechless = error
                return False
            if self._call(episode, "step", partial(self.handle.step, action)):
                episode.actions.append(action)
                return True
            failure = episode.failure
            if policy.insists or failure is None or not isinstance(failure.error, InvalidActionError):
                return False
            refusal = failure.error.message
            episode.refusals, episode.failure = episode.refusals + 1, None
        if needs:
            message = f"{PATIENCE} random actions were refused, the last one because: {refusal}"
            hint = "say in the type of the action what is legal: Literal, or bounds by Annotated"
            episode.speechless = InvalidActionError(message, hint)
        return False

    def _call(self, episode: PlayedEpisode, call: Call, run: Callable[[], Any]) -> bool:
        if self.watch is not None:
            self.watch.raw = NOTHING
        result, error = attempt(run)
        if error is not None:
            episode.failure = FailedCall(call, error, NOTHING if self.watch is None else self.watch.raw)
            return False
        self._note(episode, call, result)
        return True

    def _note(self, episode: PlayedEpisode, call: Call, result: ResetResult[Any] | StepResult[Any]) -> None:
        raw = result if self.watch is None else self.watch.raw
        seen, metadata = observed(result.observation)
        verdict = fingerprint([result.reward, result.terminated, result.truncated])
        told = fingerprint([result.info, metadata])
        episode.frames.append(Frame(call, raw, result, self.handle.pending, seen, verdict, told))
