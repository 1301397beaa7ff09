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
    read_reply(message)         the action; raises `InvalidActionError`, or `ValueError`, for a reply it cannot read
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
from typing import Any, TypeAlias

from envweave.chat.formats import ChatFormat, format_for, takes_tool_calls
from envweave.chat.messages import message_of, tool_message, user_message
from envweave.chat.options import Chat, ChatObservation
from envweave.chat.text import observation_text
from envweave.core.actions import ActionRule
from envweave.core.environment import DefaultState
from envweave.core.flow import Flow, call_it, run, run_async
from envweave.core.return_values import StepOutcome, read_reset, read_step
from envweave.core.transform import transformed
from envweave.errors import EnvWeaveError, InvalidActionError, UsageError
from envweave.lm.messages import FunctionCall, Message
from envweave.requests import EpisodeEnd
from envweave.results import ResetResult, StepResult
from envweave.tools.registry import registry_of

UNREADABLE_REWARD = 0.0
RuleOf: TypeAlias = Callable[[Any, "str | None"], ActionRule]
"""From an environment and an agent to the rule of its actions."""


class UnreadableReply(Exception):  # noqa: N818  (it never leaves this module)
    """The reply of an agent is not an action."""

    def __init__(self, error: InvalidActionError, agent: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.agent = agent


class ChatEnvironment:
    """A sync environment whose actions are replies of a model; with several agents, replies by agent."""

    applies_transform = True

    def __init__(self, env: Any, chat: Chat, rule_of: RuleOf, *, multi_agent: bool) -> None:
        self.env = env
        self._chat = chat
        self._rule_of = rule_of
        self._multi_agent = multi_agent
        self._nudged = 0
        self._kept: dict[str, list[Any]] = {}
        """With several agents, the actions of those whose replies were read while another's was not."""
        self._seen: Any = None
        self._listed: list[dict[str, Any]] = []
        """The tools of an environment of OpenEnv's, which takes a call to list them."""
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
        tools: Any = getattr(self.env, "tools", None)
        if _is_listed(tools):
            self._listed = yield tools.list
        prompt = getattr(options.get("task"), "prompt", "")
        observation = self._by_agent(outcome.observation, functools.partial(self._first_messages, prompt))
        return ResetResult(observation, outcome.info, outcome.requests)

    def _stepping(self, reply: Any) -> Flow[StepResult[Any]]:
        """Read the reply, step once for each action in it, and tell the model what came of them."""
        calls: dict[str | None, list[str]] = {}
        try:
            actions = self._read_all(reply, calls)
            by_agent = {agent: found[0] for agent, found in actions.items()}
            steps = [by_agent] if self._multi_agent else actions[None]
            outcomes: list[StepOutcome] = []
            for action in steps:
                if outcomes and (outcomes[-1].terminated or outcomes[-1].truncated):
                    break
                raw = yield functools.partial(self.env.step, action)
                if not getattr(self.env, "applies_transform", False):
                    raw = transformed(getattr(self.env, "transform", None), raw)
                outcomes.append(read_step(raw))
        except UnreadableReply as failure:
            return self._unreadable(failure.error, [failure.agent], calls)
        except InvalidActionError as error:  # the environment itself refused the action
            return self._unreadable(error, list(calls), calls)
        self._kept, self._seen = {}, outcomes[-1].observation
        return self._told(outcomes, calls)

    def _told(self, outcomes: list[StepOutcome], calls: dict[str | None, list[str]]) -> StepResult[Any]:
        last = outcomes[-1]
        if self._multi_agent or (len(outcomes) == 1 and not calls.get(None)):
            observation = self._by_agent(
                last.observation, lambda agent, seen: self._answers(seen, calls.get(agent, []))
            )
        else:
            messages = [
                message
                for outcome, call in zip(outcomes, calls[None], strict=False)
                for message in self._answers(outcome.observation, [call])
            ]
            messages += [tool_message(call, "not run: the episode is over") for call in calls[None][len(outcomes) :]]
            observation = self._observation(None, last.observation, messages)
        rewards = [outcome.reward for outcome in outcomes]
        reward = last.reward if len(outcomes) == 1 else None if None in rewards else fsum(rewards)
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
        if not self._multi_agent:
            observation: Any = self._observation(None, self._seen, [] if over else self._nudge(error, None, calls))
            return StepResult(observation, self._unreadable_reward if over else 0.0, over, False, info, ends)
        told, rewards = {}, {}
        for agent, seen in self._seen.items():
            is_meant = agent in agents
            messages = self._nudge(error, agent, calls) if is_meant and not over else []
            told[agent] = self._observation(agent, seen, messages)
            rewards[agent] = 0.0 if not over else self._unreadable_reward if is_meant else None
        return StepResult(told, rewards, {"__all__": over}, {"__all__": False}, info, ends)  # type: ignore[arg-type]

    @property
    def _unreadable_reward(self) -> Any:
        return getattr(self.env, "unreadable_reward", UNREADABLE_REWARD)

    def _nudge(
        self, error: InvalidActionError, agent: str | None, calls: dict[str | None, list[str]]
    ) -> list[dict[str, Any]]:
        """What a model is told about a reply that was not used."""
        text = "\n\n".join(part for part in (error.message, error.hint, self._instructions(agent)) if part)
        return [tool_message(call, text) for call in calls.get(agent, ())] or [user_message(text)]

    # From replies to actions.

    def _read_all(self, reply: Any, calls: dict[str | None, list[str]]) -> dict[Any, list[Any]]:
        if not self._multi_agent:
            return {None: self._read(None, reply, calls)}
        if not isinstance(reply, Mapping):
            raise UsageError(f"replies are a {type(reply).__name__}, not a dict by agent", "{'alice': reply}")
        found = dict(self._kept)
        failure: UnreadableReply | None = None
        for agent, one in reply.items():
            try:
                actions = self._read(agent, one, calls)
                if len(actions) != 1:
                    raise UnreadableReply(InvalidActionError(f"{len(actions)} actions; one is made at a time"), agent)
                found[agent] = actions
            except UnreadableReply as error:
                failure = failure or error
        if failure is not None:
            self._kept = found
            raise failure
        return found

    def _read(self, agent: str | None, reply: Any, calls: dict[str | None, list[str]]) -> list[Any]:
        message = message_of(reply)
        calls[agent] = [call.id for call in message.tool_calls]
        own = getattr(self.env, "read_reply", None)
        try:
            actions = [own(message)] if callable(own) else self._format(agent).read(message)
            check = self._rule_of(self.env, agent).check
            return [check(action) for action in actions]
        except InvalidActionError as error:
            raise UnreadableReply(error, agent) from error
        except (ValueError, EnvWeaveError) as error:
            raise UnreadableReply(InvalidActionError(str(error) or "the reply cannot be read"), agent) from error

    def _format(self, agent: str | None) -> ChatFormat:
        schema = self._rule_of(self.env, agent).schema
        schemas = self._tool_schemas() if takes_tool_calls(schema) else []
        return format_for(schema, tools=schemas, name=self._chat.format, description=self._description())

    def _tool_schemas(self) -> list[dict[str, Any]]:
        tools = getattr(self.env, "tools", None)
        return self._listed if _is_listed(tools) else registry_of(tools).schemas()

    # From observations to messages.

    def _by_agent(self, observation: Any, messages: Callable[[str | None, Any], list[dict[str, Any]]]) -> Any:
        if not self._multi_agent:
            return self._observation(None, observation, messages(None, observation))
        return {agent: self._observation(agent, one, messages(agent, one)) for agent, one in observation.items()}

    def _observation(self, agent: str | None, seen: Any, messages: list[dict[str, Any]]) -> ChatObservation:
        metadata = getattr(seen, "metadata", None)
        return ChatObservation(
            messages=messages,
            tools=self._format(agent).tools(),
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )

    def _first_messages(self, prompt: str, agent: str | None, observation: Any) -> list[dict[str, Any]]:
        own = getattr(self.env, "system_prompt", None)
        system = self._description() if own is None else own
        name = f"You are {agent}." if agent is not None else ""
        system = "\n\n".join(part for part in (system, name, self._instructions(agent)) if part)
        first = self._shown(observation)
        if prompt and not callable(getattr(self.env, "to_messages", None)):
            first = [user_message("\n\n".join(part for part in (prompt, observation_text(observation)) if part))]
        return [{"role": "system", "content": system}, *first] if system else first

    def _instructions(self, agent: str | None) -> str:
        """How to write a reply; an author who reads replies says so in the system prompt."""
        return "" if callable(getattr(self.env, "read_reply", None)) else self._format(agent).instructions()

    def _answers(self, observation: Any, calls: list[str]) -> list[dict[str, Any]]:
        """The messages that follow a reply: they answer its tool calls, if it has any."""
        shown = self._shown(observation)
        if not calls:
            return shown
        text = "\n".join(str(message.get("content") or "") for message in shown)
        return [tool_message(call, text if place == 0 else "") for place, call in enumerate(calls)]

    def _shown(self, observation: Any) -> list[dict[str, Any]]:
        own = getattr(self.env, "to_messages", None)
        shown = own(observation) if callable(own) else observation_text(observation)
        if isinstance(shown, str):
            return [user_message(shown)]
        return [message_of(one, role="user").to_dict() for one in ([shown] if isinstance(shown, Mapping) else shown)]

    def _description(self) -> str:
        return inspect.getdoc(type(getattr(self.env, "unwrapped", self.env))) or ""

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
        return self._nudged, dict(self._kept), self._seen

    def _load(self, saved: tuple[Any, ...]) -> None:
        self._nudged, kept, self._seen = saved
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


def _is_listed(tools: Any) -> bool:
    """Whether tools are those of an environment of OpenEnv's."""
    return callable(getattr(tools, "list", None))


def as_chat(env: Any, chat: Chat, rule_of: RuleOf, *, multi_agent: bool) -> ChatEnvironment:
    """The environment as a model sees it."""
    is_async = inspect.iscoroutinefunction(env.step) or inspect.iscoroutinefunction(env.reset)
    return (AsyncChatEnvironment if is_async else ChatEnvironment)(env, chat, rule_of, multi_agent=multi_agent)
