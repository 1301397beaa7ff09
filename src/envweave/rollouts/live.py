"""An episode under way: an environment, the conversations of its agents, and the episode as far as it went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from envweave.core.handle import AsyncEnvHandle
from envweave.errors import (
    CapacityError,
    ContextOverflowError,
    EnvError,
    EnvWeaveError,
    InvalidActionError,
    UnsupportedError,
    UsageError,
)
from envweave.record.log import EpisodeLog
from envweave.requests import DEFAULT_AGENT, EpisodeEnd, NeedAction, Request, ToolCall
from envweave.results import StepResult
from envweave.rollouts.base import Conversation, Policy
from envweave.rollouts.episodes import Episode, Turn, drawn_tokens, reward_parts
from envweave.rollouts.forks import Forks
from envweave.rollouts.limits import Limits
from envweave.rollouts.policies import FunctionPolicy
from envweave.rollouts.pool import EnvPool

T = TypeVar("T")

MAX_REFUSALS = 200
"""Actions that a plain function may propose for one step."""


class AttemptError(Exception):
    """The machinery failed; `end` is the name of the end, `stage` where it was."""

    def __init__(self, end: str, stage: str, error: BaseException) -> None:
        super().__init__(end, stage, error)
        self.end = end
        self.stage = stage
        self.error = error


@dataclass(frozen=True, slots=True)
class Rules:
    """How all episodes of a rollout are played."""

    policies: Mapping[str | None, Policy | FunctionPolicy]
    limits: Limits
    keep_states: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether policies are given observations, not conversations."""
        return isinstance(next(iter(self.policies.values())), FunctionPolicy)

    def policy(self, agent_id: str | None) -> Policy | FunctionPolicy:
        found = self.policies.get(agent_id) or self.policies.get(None)
        if found is None and len(self.policies) == 1:
            found = next(iter(self.policies.values()))
        if found is None:
            raise UsageError(f"no policy for the agent {agent_id!r}", f"there are {sorted(map(str, self.policies))}")
        return found


class LiveEpisode:
    """Plays one episode. `start` or `fork` begins it; `play` continues it to its end, or to a step."""

    def __init__(self, env: AsyncEnvHandle[Any, Any, Any, Any], episode: Episode, rules: Rules, pool: EnvPool) -> None:
        self.env = env
        self.episode = episode
        self.log: EpisodeLog | None = None
        self.first: tuple[Any, float] | None = None
        self._rules = rules
        self._pool = pool
        self._observation: Any = None
        self._conversations: dict[str | None, Conversation] = {}
        self._last_turns: dict[str | None, Turn] = {}
        self._tokens = 0
        self._forks: Forks | None = None
        self._arrival: asyncio.Future[AsyncEnvHandle[Any, Any, Any, Any]] | None = None
        """The environment, if it is still being made."""
        self._pending: tuple[Request, ...] | None = None
        """What it will wait for then."""

    async def start(self, **reset: Any) -> Any:
        """Reset the environment. Returns the first observation. Raises `AttemptError`, `UsageError`."""
        begun = time.perf_counter()
        try:
            result = await self._timed(self.env.reset(**reset))
        except EnvWeaveError as error:
            raise _refused_or_failed("reset", error) from error
        except TimeoutError as error:
            raise AttemptError("step_timeout", "reset", error) from error
        self.first = result, time.perf_counter() - begun
        self.episode.reset_seconds = self.first[1]
        task_id = result.info.get("task_id")
        self.episode.task_id = task_id if task_id is None else str(task_id)
        self._observe(result.observation)
        return result.observation

    def record(self, log: EpisodeLog) -> None:
        """Write what follows to a record, and the reset."""
        self.log = log
        if self.first is not None:
            log.reset(*self.first)

    def branched(self, number: int) -> Episode:
        """The episode of a branch that starts here."""
        return replace(self.episode, number=number, parent=(self.episode.number, len(self.episode.turns)), failures=[])

    async def fork(
        self, episode: Episode, rules: Rules | None = None, pool: EnvPool | None = None, *, is_played: bool = True
    ) -> LiveEpisode:
        """An independent episode at the same point, which shares the turns so far. A pool owns its environment.

        Raises `UnsupportedError` or `CapacityError` if there is no room, `AttemptError` if the machinery failed.
        """
        begun = time.perf_counter()
        twin = self.branch(episode, rules, pool, is_played=is_played)
        await twin.settle()
        episode.reset_seconds = time.perf_counter() - begun
        return twin

    def branch(
        self, episode: Episode, rules: Rules | None = None, pool: EnvPool | None = None, *, is_played: bool = True
    ) -> LiveEpisode:
        """The same without waiting for its environment: the policy can be asked meanwhile; `settle` waits and raises.

        Nothing may be done with this episode's environment before `settle`, which `play` calls.
        """
        pool = pool or self._pool
        if self._forks is None:
            self._forks = Forks(self.env, self._rules.limits.step_timeout)
        own = self.episode
        episode.turns, episode.steps, episode.task_id = list(own.turns), own.steps, own.task_id
        episode.totals, episode.unscored = dict(own.totals), set(own.unscored)
        twin = LiveEpisode(self.env, episode, rules or self._rules, pool)
        twin._arrival = self._forks.request(pool, is_played=is_played)
        twin.first = self.first
        twin._pending, twin._observation, twin._tokens = self._now_pending(), self._observation, self._tokens
        twin._conversations = {agent: one.copy() for agent, one in self._conversations.items()}
        return twin

    async def settle(self) -> None:
        """Wait for the environment, and until no forks of it are being made. Raises as `fork` does."""
        if self._arrival is None and self._forks is None:
            return
        begun = time.perf_counter()
        try:
            if self._arrival is not None:
                self.env = await self._arrival
                self._arrival = self._pending = None
            elif self._forks is not None:
                await self._forks.settled()
                self._forks = None
        except TimeoutError as error:
            raise AttemptError("step_timeout", "fork", error) from error
        except (UnsupportedError, CapacityError):
            raise
        except EnvWeaveError as error:
            raise AttemptError("infra_error", "fork", error) from error
        finally:
            self.episode.reset_seconds += time.perf_counter() - begun

    def abandon(self) -> None:
        """Need the environment no longer that is being made."""
        arrival = self._arrival
        if arrival is not None and not arrival.cancel() and not arrival.cancelled() and arrival.exception() is None:
            self._pool.discard(arrival.result())

    @property
    def has_env(self) -> bool:
        """Whether the environment is there; see `branch`."""
        return self._arrival is None

    async def play(self, until: int | None = None) -> bool:
        """Play to the end, or until `until` steps were made. Returns whether the episode is over.

        Raises `AttemptError` if the machinery failed, and `UsageError` for a mistake of the caller.
        """
        episode, limits = self.episode, self._rules.limits
        while not episode.end:
            if until is not None and episode.steps >= until:
                return False
            if limits.max_turns is not None and episode.steps >= limits.max_turns:
                episode.end = "max_turns"
            elif limits.max_episode_tokens is not None and self._tokens >= limits.max_episode_tokens:
                episode.end = "max_tokens"
            else:
                await self._step()
        await self._finish()
        return True

    async def _step(self) -> None:
        """Ask all agents that must act, and make one step."""
        needs = self._needs()
        state = await self._kept_state()
        for refusal in range(1, MAX_REFUSALS + 1):
            turns = await self._turns(needs)
            if self.episode.end:  # a budget was reached
                return
            if state is not None:
                turns[0].state = state
            await self.settle()
            begun = time.perf_counter()
            try:
                result = await self._timed(self.env.step(self._action(needs, turns)))
            except InvalidActionError as error:
                if refusal < MAX_REFUSALS and turns[0].reply is None:
                    continue
                refused = InvalidActionError(f"all actions were refused: {error.message}", error.hint)
                raise AttemptError("policy_error", "policy", refused) from error
            except EnvWeaveError as error:
                self._keep(turns, time.perf_counter() - begun)
                raise _refused_or_failed("step", error) from error
            except TimeoutError as error:
                self._keep(turns, time.perf_counter() - begun)
                raise AttemptError("step_timeout", "step", error) from error
            self._take(turns, result, time.perf_counter() - begun)
            return

    def _now_pending(self) -> tuple[Request, ...]:
        return self.env.pending if self._pending is None else self._pending

    def _needs(self) -> list[NeedAction]:
        pending = self._now_pending()
        for request in pending:
            if isinstance(request, ToolCall):
                raise UnsupportedError(f"{self.env.id} asks for the tool {request.tool_name!r}", "drive it from Python")
        return [request for request in pending if isinstance(request, NeedAction)]

    async def _kept_state(self) -> LiveEpisode | None:
        if not self._rules.keep_states:
            return None
        await self.settle()
        try:
            return await self.fork(self.branched(self.episode.number), is_played=False)
        except (UnsupportedError, CapacityError):
            return None

    async def _turns(self, needs: list[NeedAction]) -> list[Turn]:
        agents = [None if need.agent_id == DEFAULT_AGENT and len(needs) == 1 else need.agent_id for need in needs]
        if len(needs) == 1:
            return [await self._turn(agents[0], needs[0])]
        asked = [asyncio.ensure_future(self._turn(agent, need)) for agent, need in zip(agents, needs, strict=True)]
        try:
            return await asyncio.gather(*asked)
        except BaseException:  # an agent has failed: the others are asked for nothing more
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            raise

    async def _turn(self, agent: str | None, need: NeedAction) -> Turn:
        policy = self._rules.policy(agent)
        seen = self._observation if agent is None else self._observation.get(agent)
        turn = Turn(agent, self.episode.steps)
        begun = time.perf_counter()
        try:
            if isinstance(policy, FunctionPolicy):
                turn.observation = seen
                turn.action = await policy.act(seen, need)
            else:
                await self._ask(policy, turn)
        except ContextOverflowError:
            self.episode.end = "context_overflow"
        except UsageError:
            raise
        except Exception as error:
            raise AttemptError("policy_error", "policy", error) from error
        turn.model_seconds = time.perf_counter() - begun
        if self.log is not None and turn.reply is not None:
            self.log.model(turn.reply, turn.model_seconds, agent)
        return turn

    async def _ask(self, policy: Policy, turn: Turn) -> None:
        conversation = self._conversations[turn.agent_id]
        limits = self._rules.limits
        left = None if limits.max_episode_tokens is None else limits.max_episode_tokens - self._tokens
        conversation.max_tokens = min((n for n in (limits.max_tokens, left) if n is not None), default=None)
        turn.messages = conversation.new
        turn.reply = await policy.reply(conversation.copy())
        self._tokens += drawn_tokens(turn.reply)
        conversation.say(turn.reply)

    def _observe(self, observation: Any) -> None:
        """Keep an observation, and add its messages to the conversations of the agents that it is for."""
        self._observation = observation
        if self._rules.is_plain:
            return
        by_agent = (
            observation if isinstance(observation, Mapping) and "messages" not in observation else {None: observation}
        )
        for agent, seen in by_agent.items():
            messages = _member(seen, "messages")
            if messages is None:
                hint = "make it with chat=True, or pass a function of observations"
                raise UsageError("the environment gives no messages", hint)
            conversation = self._conversations.setdefault(agent, Conversation(agent_id=agent))
            conversation.hear(list(messages), list(_member(seen, "tools") or ()))

    def _action(self, needs: list[NeedAction], turns: list[Turn]) -> Any:
        actions = [turn.action if turn.reply is None else turn.reply for turn in turns]
        if turns[0].agent_id is None:
            return actions[0]
        return {need.agent_id: action for need, action in zip(needs, actions, strict=True)}

    def _keep(self, turns: list[Turn], seconds: float) -> None:
        for turn in turns:
            turn.env_seconds = seconds / len(turns)
            self._last_turns[turn.agent_id] = turn
        self.episode.turns += turns
        self.episode.steps += 1

    def _take(self, turns: list[Turn], result: StepResult[Any, Any, Any], seconds: float) -> None:
        self._keep(turns, seconds)
        self._observe(result.observation)
        episode = self.episode
        paid = result.reward if isinstance(result.reward, dict) else {turns[0].agent_id: result.reward}
        for agent, reward in paid.items():
            (episode.unscored.add if reward is None else episode.unscored.discard)(agent)
            turn = self._last_turns.get(agent)
            if reward is not None:
                episode.totals[agent] = episode.totals.get(agent, 0.0) + reward
                if turn is not None:
                    turn.reward = (turn.reward or 0.0) + reward
        for turn in turns:
            seen = result.observation if turn.agent_id is None else result.observation.get(turn.agent_id)
            turn.rewards, turn.info = reward_parts(seen), result.info
        if self.log is not None:
            self.log.step(self._logged_action(turns), result, seconds)
        ends = [request for request in result.requests if isinstance(request, EpisodeEnd) and request.agent_id is None]
        if not ends:
            return
        episode.end = ends[0].reason
        if episode.end == "infra_error":
            raise AttemptError("infra_error", "step", _error_in(result.info))

    def _logged_action(self, turns: list[Turn]) -> Any:
        actions = [turn.action if turn.reply is None else turn.reply.message.to_dict() for turn in turns]
        return (
            actions[0]
            if turns[0].agent_id is None
            else {turn.agent_id: a for turn, a in zip(turns, actions, strict=True)}
        )

    async def _finish(self) -> None:
        """Keep what the environment said last."""
        await self.settle()
        self.episode.last_messages = {agent: one.new for agent, one in self._conversations.items()}

    async def _timed(self, work: Awaitable[T]) -> T:
        limit = self._rules.limits.step_timeout
        return await work if limit is None else await asyncio.wait_for(work, limit)


def _member(seen: Any, name: str) -> Any:
    return seen.get(name) if isinstance(seen, Mapping) else getattr(seen, name, None)


def _refused_or_failed(stage: str, error: EnvWeaveError) -> Exception:
    """A mistake of the caller as it is; what the machinery did as `AttemptError`."""
    return error if isinstance(error, UsageError) else AttemptError("infra_error", stage, error)


def _error_in(info: Mapping[str, Any]) -> EnvWeaveError:
    found = info.get("error")
    message = str(found.get("message", "")) if isinstance(found, Mapping) else ""
    return EnvError(message or "the environment failed")
