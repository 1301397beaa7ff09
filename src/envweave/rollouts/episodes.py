"""What came of one attempt at one task: turns, rewards, how it ended, and the token sequences to train on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, nan
from typing import TYPE_CHECKING, Any

from envweave.errors import EnvWeaveError, describe
from envweave.lm.reply import Reply, Usage
from envweave.rollouts.base import ChatMessage

if TYPE_CHECKING:
    from envweave.rollouts.live import LiveEpisode

FAILED = ("infra_error", "policy_error", "step_timeout", "wall_time", "closed", "cancelled")
"""Ends that the machinery caused, or that nobody can be blamed for: such an episode is not scored."""
BUDGETS = ("max_turns", "max_tokens", "context_overflow")
"""Ends that the rollout's own limits caused: scored by the rewards so far."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    stage: str
    """`make`, `reset`, `fork`, `policy` or `step`."""
    code: str
    """The code of the error, as in `envweave.errors`, or the name of its class."""
    message: str
    attempt: int = 1

    @property
    def cause(self) -> str:
        """A short name to count by."""
        return f"{self.stage}: {self.code}"

    @classmethod
    def of(cls, stage: str, error: BaseException, attempt: int) -> Failure:
        if isinstance(error, EnvWeaveError):
            return cls(stage, error.code, error.message, attempt)
        return cls(stage, type(error).__name__, describe(error), attempt)


@dataclass(slots=True, eq=False)
class Turn:
    """One reply or action of an agent, and what came of it. Branches of a tree share the turns before the branch."""

    agent_id: str | None
    step: int
    """The step of the episode, from 0. With several agents, those that act together have a turn each."""
    messages: list[ChatMessage] = field(default_factory=list)
    """What the environment said since the agent's last turn."""
    reply: Reply | None = None
    """None for a plain function."""
    observation: Any = None
    """What a plain function was given."""
    action: Any = None
    """What a plain function did."""
    reward: float | None = None
    """The sum of what the agent was paid from this turn to its next; None if nothing was scored."""
    rewards: dict[str, float | None] = field(default_factory=dict)
    """The parts of the reward by name, where the environment has a rubric."""
    info: dict[str, Any] = field(default_factory=dict)
    model_seconds: float = 0.0
    env_seconds: float = 0.0
    state: LiveEpisode | None = None
    """The episode as it was before this turn, if `keep_states` was set; see `values`."""


@dataclass(slots=True)
class Sample:
    """One token sequence to train on. All lists have one length; what the environment said has mask 0."""

    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 for a token that was drawn and is to be trained on."""
    logprobs: list[float] = field(default_factory=list)
    """As drawn; NaN where the sampler gave none, 0 where the mask is 0."""
    turns: list[int] = field(default_factory=list)
    """The number of the turn that drew the token; -1 for the environment's."""
    advantages: list[float] = field(default_factory=list)
    """Filled by `Group.samples`; 0 where the mask is 0."""
    agent_id: str | None = None
    episode: int = 0
    """The number of the episode within its group."""

    def weigh(self, values: Sequence[float | None]) -> bool:
        """Set the advantages from those of the turns; the mask is 0 where there is none. False if there are none."""
        known = [turn >= 0 and values[turn] is not None for turn in self.turns]
        self.mask = [int(mask and own) for mask, own in zip(self.mask, known, strict=True)]
        self.logprobs = [logprob if mask else 0.0 for logprob, mask in zip(self.logprobs, self.mask, strict=True)]
        given = (values[turn] if mask else 0.0 for mask, turn in zip(self.mask, self.turns, strict=True))
        self.advantages = [value or 0.0 for value in given]
        return any(self.mask)

    def _extend(self, reply: Reply, turn: int) -> None:
        prompt, drawn = reply.prompt_token_ids or (), reply.token_ids or ()
        told = prompt[len(self.tokens) :]
        logprobs = reply.logprobs if reply.logprobs is not None and len(reply.logprobs) == len(drawn) else None
        self.tokens += [*told, *drawn]
        self.mask += [0] * len(told) + [1] * len(drawn)
        self.logprobs += [0.0] * len(told) + list(logprobs or [nan] * len(drawn))
        self.turns += [-1] * len(told) + [turn] * len(drawn)

    def _is_continued_by(self, reply: Reply) -> bool:
        return list((reply.prompt_token_ids or ())[: len(self.tokens)]) == self.tokens


@dataclass(slots=True, eq=False, weakref_slot=True)
class Episode:
    """One attempt at one task."""

    group: int = 0
    number: int = 0
    """Within the group, from 0."""
    task_id: str | None = None
    seed: int | None = None
    turns: list[Turn] = field(default_factory=list)
    end: str = ""
    """An `EndReason`, or `max_turns`, `max_tokens`, `context_overflow`, `policy_error`, `step_timeout`, `wall_time`,
    `cancelled`."""
    failures: list[Failure] = field(default_factory=list)
    """Of all attempts; the last one is why the episode failed, if it did."""
    attempts: int = 1
    tree: int = 0
    """The number of the tree within the group."""
    parent: tuple[int, int] | None = None
    """For a branch: the number of the episode that it left, and how many turns they share."""
    last_messages: dict[str | None, list[ChatMessage]] = field(default_factory=dict)
    """What the environment said after each agent's last turn."""
    totals: dict[str | None, float] = field(default_factory=dict)
    """The sum of what each agent was paid."""
    unscored: set[str | None] = field(default_factory=set)
    """Agents whose last step has no reward."""
    unfinished_reward: float | None = 0.0
    steps: int = 0
    started: float = 0.0
    """Seconds since the epoch."""
    seconds: float = 0.0
    reset_seconds: float = 0.0
    """For the reset or the fork that it began with, and for the forks made on its way."""
    wait_seconds: float = 0.0
    """Of `seconds`, those spent on neither the model nor the environment."""
    is_recorded: bool = False
    """Read from a record by a rollout that was resumed."""

    @property
    def failed(self) -> bool:
        """Whether the machinery failed. Such an episode has no reward."""
        return self.end in FAILED

    @property
    def error(self) -> Failure | None:
        """Why the episode failed; None if it did not."""
        return self.failures[-1] if self.failed and self.failures else None

    @property
    def returns(self) -> dict[str | None, float | None]:
        """The reward of each agent; the key is None in an environment with one agent."""
        agents = dict.fromkeys([*self.totals, *self.unscored, *(turn.agent_id for turn in self.turns)]) or {None: None}
        return {agent: self._return(agent) for agent in agents}

    def _return(self, agent: str | None) -> float | None:
        if self.failed:
            return None
        if self.end in BUDGETS:
            return self.totals.get(agent, self.unfinished_reward)
        return None if agent in self.unscored else self.totals.get(agent)

    @property
    def reward(self) -> float | None:
        """The sum of all rewards; None if the episode failed or its last step was not scored.

        With several agents, the mean of theirs; None if one of them has none.
        """
        found = list(self.returns.values())
        known = [value for value in found if value is not None]
        return fsum(known) / len(known) if known and len(known) == len(found) else None

    @property
    def rewards(self) -> dict[str, float | None]:
        """The sums of the parts of the rewards by name; None for a part that could not be scored."""
        parts: dict[str, float | None] = {}
        for turn in self.turns:
            for name, value in turn.rewards.items():
                before = parts.get(name, 0.0)
                parts[name] = None if value is None or before is None else before + value
        return parts

    @property
    def messages(self) -> list[ChatMessage]:
        """The whole conversation of the only agent, or of the first one."""
        return self.messages_of(self.turns[0].agent_id if self.turns else next(iter(self.last_messages), None))

    def messages_of(self, agent_id: str | None) -> list[ChatMessage]:
        """The whole conversation of an agent."""
        said: list[ChatMessage] = []
        for turn in self.turns:
            if turn.agent_id == agent_id:
                said += [*turn.messages, *([turn.reply.message.to_dict()] if turn.reply else [])]
        return said + self.last_messages.get(agent_id, [])

    @property
    def usage(self) -> Usage:
        """Calls and tokens of all replies."""
        return sum((turn.reply.usage for turn in self.turns if turn.reply is not None), Usage())

    @property
    def versions(self) -> tuple[int | str, ...]:
        """The versions of the policy that drew the replies, in order, each once."""
        drawn = (turn.reply.policy_version for turn in self.turns if turn.reply is not None)
        return tuple(dict.fromkeys(version for version in drawn if version is not None))

    @property
    def model_seconds(self) -> float:
        return fsum(turn.model_seconds for turn in self.turns)

    @property
    def env_seconds(self) -> float:
        """Of the reset and all steps."""
        return self.reset_seconds + fsum(turn.env_seconds for turn in self.turns)

    def samples(self) -> list[Sample]:
        """The token sequences of the episode; empty if the policy gave no tokens.

        Replies are in one sequence as long as each prompt continues what was there, token by token; else a new one
        starts.
        """
        found: list[Sample] = []
        for agent in dict.fromkeys(turn.agent_id for turn in self.turns):
            found += self._samples_of(agent)
        return [sample for sample in found if any(sample.mask)]

    def _samples_of(self, agent: str | None) -> list[Sample]:
        found: list[Sample] = []
        for number, turn in enumerate(self.turns):
            reply = turn.reply
            if turn.agent_id != agent or reply is None or reply.prompt_token_ids is None or reply.token_ids is None:
                continue
            if not found or not found[-1]._is_continued_by(reply):
                found.append(Sample(agent_id=agent, episode=self.number))
            found[-1]._extend(reply, number)
        return found


def drawn_tokens(reply: Reply) -> int:
    """How many tokens a reply has, as far as that is known."""
    return len(reply.token_ids) if reply.token_ids is not None else reply.usage.completion_tokens


def reward_parts(observation: Any) -> dict[str, float | None]:
    """The parts of a reward that a rubric left in the metadata of an observation."""
    metadata = (
        observation.get("metadata") if isinstance(observation, Mapping) else getattr(observation, "metadata", None)
    )
    parts = metadata.get("rewards") if isinstance(metadata, Mapping) else None
    return dict(parts) if isinstance(parts, Mapping) else {}


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what was scored; None if nothing was."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
