"""An environment as a language model sees it: observations are messages, and an action is the model's reply.

    env = ew.make("lineworld", chat=True)
    result = env.reset(seed=1)
    conversation = result.obs.messages
    while not result.done:
        reply = model.reply(conversation, tools=result.obs.tools)
        result = env.step(reply)
        conversation += [reply.message.to_dict(), *result.obs.messages]

Everything else is as for any other environment: rewards, ends, forks, vectors, servers.

An author may define any of these members; without them, the schemas and the docstring say what a model needs:

    system_prompt               a text; the docstring of the class unless defined
    to_messages(observation)    a text, a message or a list of messages
    read_reply(message)         the action; raises `InvalidActionError`, or anything else, for a reply it cannot read
    unreadable_reward           the reward of an episode that ends because replies cannot be read; 0.0 unless defined

A reply that cannot be read, or whose action the environment refuses, changes nothing. The model is told why, `nudges`
times in an episode; the next such reply ends the episode, because the model caused it, with `unreadable_reward`.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from math import fsum
from typing import Any

from envweave.chat.interface import ChatInterface, RuleOf, UnreadableReply
from envweave.chat.messages import tool_message
from envweave.chat.options import Chat, ChatObservation
from envweave.core.environment import DefaultState
from envweave.core.flow import Flow, call_it, run, run_async
from envweave.core.return_values import StepOutcome, read_reset, read_step
from envweave.core.transform import transformed
from envweave.errors import InvalidActionError, UsageError
from envweave.lm.messages import FunctionCall, Message
from envweave.requests import EpisodeEnd
from envweave.results import ResetResult, StepResult

UNREADABLE_REWARD = 0.0


class ChatEnvironment:
    """A sync environment whose actions are replies of a model; with several agents, replies by agent."""

    applies_transform = True

    def __init__(self, env: Any, chat: Chat, rule_of: RuleOf, *, multi_agent: bool) -> None:
        self.env = env
        self._chat = chat
        self._rule_of = rule_of
        self._interface = ChatInterface(env, chat, rule_of)
        self._multi_agent = multi_agent
        self._nudged = 0
        self._kept: dict[str, list[Any]] = {}
        """With several agents, the actions of those whose replies were read while another's was not."""
        self._seen: Any = None
        self.action_type = None
        self.observation_type = dict[str, ChatObservation] if multi_agent else ChatObservation
        self.reset = self._like(env.reset)

    def _like(self, reset: Callable[..., Any]) -> Callable[..., Any]:
        """`_reset` with the signature of the environment's own; not a closure, so that a copy has its own."""
        like = functools.partial(self._reset)
        like.__wrapped__ = reset  # type: ignore[attr-defined]
        return like

    def _reset(self, **options: Any) -> Any:
        return run(self._resetting(options), call_it)

    def step(self, reply: Any) -> Any:
        return run(self._stepping(reply), call_it)

    # The order of each call, for sync and async environments.

    def _resetting(self, options: dict[str, Any]) -> Flow[ResetResult[Any]]:
        outcome = read_reset((yield functools.partial(self.env.reset, **options)))
        self._nudged, self._kept, self._seen = 0, {}, outcome.observation
        listing = self._interface.listing
        if listing is not None:
            self._interface.listed = yield listing
        prompt = getattr(options.get("task"), "prompt", "")
        observation = self._by_agent(outcome.observation, functools.partial(self._interface.first_messages, prompt))
        return ResetResult(observation, outcome.info, outcome.requests)

    def _stepping(self, reply: Any) -> Flow[StepResult[Any]]:
        """Read the reply, step once for each action in it, and tell the model what came of them."""
        calls: dict[str | None, list[str]] = {}
        outcomes: list[StepOutcome] = []
        refusal: InvalidActionError | None = None
        try:
            actions = self._read_all(reply, calls)
            by_agent = {agent: found[0] for agent, found in actions.items()}
            for action in [by_agent] if self._multi_agent else actions[None]:
                if outcomes and (outcomes[-1].terminated or outcomes[-1].truncated):
                    break
                raw = yield functools.partial(self.env.step, action)
                if not getattr(self.env, "applies_transform", False):
                    raw = transformed(getattr(self.env, "transform", None), raw)
                outcomes.append(read_step(raw))
        except UnreadableReply as failure:
            return self._unreadable(failure.error, [failure.agent], calls)
        except InvalidActionError as error:  # the environment itself refused an action
            if not outcomes:
                return self._unreadable(error, list(calls), calls)
            refusal = error
        self._kept, self._seen = {}, outcomes[-1].observation
        return self._told(outcomes, calls, refusal)

    def _told(
        self,
        outcomes: list[StepOutcome],
        calls: dict[str | None, list[str]],
        refusal: InvalidActionError | None = None,
    ) -> StepResult[Any]:
        """The result of the steps of one reply. `refusal` is that of the action after the last of them."""
        last = outcomes[-1]
        if self._multi_agent or (len(outcomes) == 1 and not calls.get(None)):
            observation = self._by_agent(
                last.observation, lambda agent, seen: self._interface.answers(seen, calls.get(agent, []))
            )
        else:
            messages = [
                message
                for outcome, call in zip(outcomes, calls[None], strict=False)
                for message in self._interface.answers(outcome.observation, [call])
            ]
            reason = refusal.message if refusal is not None else "the episode is over"
            messages += [tool_message(call, f"not run: {reason}") for call in calls[None][len(outcomes) :]]
            observation = self._interface.observation(None, last.observation, messages)
        rewards = [outcome.reward for outcome in outcomes if outcome.reward is not None]
        reward = last.reward if len(outcomes) == 1 or last.reward is None else fsum(rewards)
        requests = tuple(request for outcome in outcomes for request in outcome.requests)
        return StepResult(observation, reward, last.terminated, last.truncated, last.info, requests)

    def _unreadable(
        self, error: InvalidActionError, agents: list[str | None], calls: dict[str | None, list[str]]
    ) -> StepResult[Any]:
        """Tell these agents what is wrong, or end the episode by the environment's rule."""
        self._nudged += 1
        over = self._nudged > self._chat.nudges
        info = {"unreadable": error.message}
        ends = (EpisodeEnd(reason="invalid_action", final_info=info),) if over else ()
        shown, nudge = self._interface.observation, self._interface.nudge
        if not self._multi_agent:
            observation = shown(None, self._seen, [] if over else nudge(error, None, calls.get(None, [])))
            return StepResult(observation, self._unreadable_reward if over else 0.0, over, False, info, ends)
        told, rewards = {}, {}
        for agent, seen in self._seen.items():
            is_meant = agent in agents
            messages = nudge(error, agent, calls.get(agent, [])) if is_meant and not over else []
            told[agent] = shown(agent, seen, messages)
            rewards[agent] = 0.0 if not over else self._unreadable_reward if is_meant else None
        return StepResult(told, rewards, {"__all__": over}, {"__all__": False}, info, ends)  # type: ignore[arg-type]

    @property
    def _unreadable_reward(self) -> Any:
        return getattr(self.env, "unreadable_reward", UNREADABLE_REWARD)

    def _read_all(self, reply: Any, calls: dict[str | None, list[str]]) -> dict[Any, list[Any]]:
        if not self._multi_agent:
            return {None: self._interface.read(None, reply, calls)}
        if not isinstance(reply, Mapping):
            raise UsageError(f"replies are a {type(reply).__name__}, not a dict by agent", "{'alice': reply}")
        found = dict(self._kept)
        failure: UnreadableReply | None = None
        for agent, one in reply.items():
            try:
                actions = self._interface.read(agent, one, calls)
                if len(actions) != 1:
                    raise UnreadableReply(InvalidActionError(f"{len(actions)} actions; one is made at a time"), agent)
                found[agent] = actions
            except UnreadableReply as error:
                failure = failure or error
        if failure is not None:
            self._kept = found
            raise failure
        return found

    def _by_agent(self, observation: Any, messages: Callable[[str | None, Any], list[dict[str, Any]]]) -> Any:
        shown = self._interface.observation
        if not self._multi_agent:
            return shown(None, observation, messages(None, observation))
        return {agent: shown(agent, one, messages(agent, one)) for agent, one in observation.items()}

    # What the environment itself has.

    @property
    def to_act(self) -> Any:
        """Agents that must act; those whose replies were read already need not reply again."""
        acting = getattr(self.env, "to_act", None)
        if not self._kept:
            return acting
        agents = getattr(self.env, "agents", ()) if acting is None else [acting] if isinstance(acting, str) else acting
        return [agent for agent in agents if agent not in self._kept]

    @property
    def transform(self) -> Any:
        return getattr(self.env, "transform", None)

    @transform.setter
    def transform(self, transform: Any) -> None:
        self.env.transform = transform

    def __getattr__(self, name: str) -> Any:
        if name in ("env", "action_space", "observation_space") or name.startswith("__"):
            raise AttributeError(name)
        if name == "state" and isinstance(getattr(type(self.env), name, None), DefaultState):
            raise AttributeError(name)
        found = getattr(self.env, name)
        own = {"fork": self._fork, "snapshot": self._snapshot, "restore": self._restore, "respond": self._respond}
        return {**own, "tool_action": self._tool_action}.get(name, found)

    def _fork(self) -> Any:
        return self._forked(self.env.fork())

    def _forked(self, env: Any) -> Any:
        twin = type(self)(env, self._chat, self._rule_of, multi_agent=self._multi_agent)
        twin._load(self._saved())
        return twin

    def _saved(self) -> tuple[Any, ...]:
        return self._nudged, dict(self._kept), self._seen, self._interface.listed

    def _load(self, saved: tuple[Any, ...]) -> None:
        self._nudged, kept, self._seen, self._interface.listed = saved
        self._kept = dict(kept)

    def _snapshot(self) -> Any:
        return self.env.snapshot(), self._saved()

    def _restore(self, snapshot: tuple[Any, ...]) -> Any:
        self.env.restore(snapshot[0])
        self._load(snapshot[1])

    def _tool_action(self, name: str, arguments: dict[str, Any]) -> Message:
        return Message("assistant", None, (FunctionCall("call", name, json.dumps(arguments)),))

    def _respond(self, request_id: str, value: Any) -> Any:
        raw = self.env.respond(request_id, value)
        return None if raw is None else self._told([read_step(raw)], {})


class AsyncChatEnvironment(ChatEnvironment):
    """The same for an environment whose methods are awaited."""

    async def _reset(self, **options: Any) -> Any:
        return await run_async(self._resetting(options), call_it)

    async def step(self, reply: Any) -> Any:
        return await run_async(self._stepping(reply), call_it)

    async def _fork(self) -> Any:
        return self._forked(await self.env.fork())

    async def _snapshot(self) -> tuple[Any, ...]:
        return await self.env.snapshot(), self._saved()

    async def _restore(self, snapshot: tuple[Any, ...]) -> None:
        await self.env.restore(snapshot[0])
        self._load(snapshot[1])

    async def _respond(self, request_id: str, value: Any) -> Any:
        raw = await self.env.respond(request_id, value)
        return None if raw is None else self._told([read_step(raw)], {})


def as_chat(env: Any, chat: Chat, rule_of: RuleOf, *, multi_agent: bool) -> ChatEnvironment:
    """The environment as a model sees it."""
    is_async = inspect.iscoroutinefunction(env.step) or inspect.iscoroutinefunction(env.reset)
    return (AsyncChatEnvironment if is_async else ChatEnvironment)(env, chat, rule_of, multi_agent=multi_agent)
