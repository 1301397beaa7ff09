"""`rollout` and `values`: from the name of an environment to groups of episodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, cycle, islice, repeat
from os import PathLike
from random import Random
from typing import Any, Literal

from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.selection import TaskList
from envweave.core.spec import EnvSpec
from envweave.core.threads import run_in_thread
from envweave.core.threads import start as start_thread
from envweave.errors import UnsupportedError, UsageError
from envweave.plan import adapt
from envweave.record import Recorder
from envweave.record.header import header_of
from envweave.registry.backends import SharedServer
from envweave.registry.make import RecordTarget, is_instance, prepare, spec
from envweave.registry.recording import made_header, open_recorder
from envweave.rollouts.attempts import RolloutPlan, Start
from envweave.rollouts.episodes import Episode
from envweave.rollouts.iterator import AsyncRollout, Rollout
from envweave.rollouts.limits import Limits
from envweave.rollouts.live import Rules
from envweave.rollouts.policies import policies_of, policy_name
from envweave.rollouts.records import EpisodeRecords, has_record, recorded_episodes
from envweave.rollouts.scheduler import Scheduler
from envweave.rollouts.trees import Branch


def rollout(env: Any, policy: Any, tasks: Any = None, **options: Any) -> Rollout:
    """Play episodes in groups; iterating gives each group when it is complete.

        for group in ew.rollout("codeact?tasks=programming", model, group_size=8, max_turns=8):
            for sample in group.samples("grpo"):
                …

    `env` is what `ew.make` takes (an ID, a URL, a class), a function that returns a handle, or one handle, which stays
    open. `policy` is described in `envweave.rollouts.base`: a `LanguageModel`, an async function of a conversation, a
    plain function of an observation. `tasks` are those to play: indexes, IDs, rows, `ew.Tasks`, or the name of a split;
    all of the environment's unless given. In an environment without tasks they are seeds or options of `reset`, and a
    number is how many groups to play.

        group_size=8            episodes of one task, which begin alike; with `tree`, trees (1)
        at_once=64              episodes that run at the same time
        seed=0                  decides the seeds of all resets; with `shuffle`, also the order of the tasks
        epochs=1                how often all tasks are played
        start="reset"           "fork": reset once for a group and fork its members from there
        tree=None               `ew.Branch(at=(2, 4), width=(4, 2))` forks episodes under way
        retries=1               how often an episode is repeated, on a fresh environment, if the machinery failed
        min_group=0             groups with fewer scored episodes are counted and left out
        max_dead_groups=4       stop with `RolloutError` if that many groups in a row failed, or the first ones have no
                                reward; None: never
        unfinished_reward=0.0   the reward of an episode that a limit ends before anything was scored
        keep_states=False       keep the state before each turn, for `ew.values`
        max_turns, max_tokens, max_episode_tokens, step_timeout, episode_timeout
                                limits; see `envweave.rollouts.Limits`
        record="runs/x"         write all attempts to a record, see `envweave.record`; or an `envweave.record.Recorder`
        resume=False            read what the record has already, and play the rest
        env_options={}          further options of `ew.make`: `token`, `backend`, arguments of the environment
        progress=None           show a live table on standard error; None: if that is a terminal

    An episode that failed has no reward and is in no mean; `episode.failures` says why. A mistake of the caller raises
    `UsageError`.
    """
    progress = options.pop("progress", None)
    return Rollout(prepared(env, policy, tasks, **options), progress=progress)


def async_rollout(env: Any, policy: Any, tasks: Any = None, **options: Any) -> AsyncRollout:
    """`rollout` for `async for`; the policy and async environments run on the caller's event loop."""
    progress = options.pop("progress", None)
    return AsyncRollout(prepared(env, policy, tasks, **options), progress=progress)


def prepared(
    env: Any,
    policy: Any,
    tasks: Any = None,
    *,
    group_size: int | None = None,
    at_once: int = 64,
    seed: int = 0,
    shuffle: bool = False,
    epochs: int | None = None,
    start: Literal["reset", "fork"] = "reset",
    tree: Branch | None = None,
    retries: int = 1,
    min_group: int = 0,
    max_dead_groups: int | None = 4,
    unfinished_reward: float | None = 0.0,
    keep_states: bool = False,
    max_turns: int | None = None,
    max_tokens: int | None = None,
    max_episode_tokens: int | None = None,
    step_timeout: float | None = None,
    episode_timeout: float | None = None,
    env_options: Mapping[str, Any] | None = None,
    record: RecordTarget | None = None,
    resume: bool = False,
) -> Callable[[], Scheduler]:
    """Check the options and return what makes the scheduler, on the event loop that it is to use."""
    limits = Limits(
        max_turns=max_turns,
        max_tokens=max_tokens,
        max_episode_tokens=max_episode_tokens,
        step_timeout=step_timeout,
        episode_timeout=episode_timeout,
    )
    rules = Rules(policies_of(policy), limits, keep_states)
    size = group_size if group_size is not None else 1 if tree is not None else 8
    _check_whole(group_size=size, at_once=at_once, epochs=1 if epochs is None else epochs)
    _check_whole(least=0, retries=retries, min_group=min_group)
    if start not in ("reset", "fork"):
        raise UsageError(f"start is {start!r}", "'reset', or 'fork' to fork all members of a group from one reset")
    source = EnvFactory(env, dict(env_options or {}), chat=not rules.is_plain)
    plan = RolloutPlan(
        group_size=size,
        at_once=1 if source.is_shared else at_once,
        fork=start == "fork",
        tree=tree,
        retries=retries,
        min_group=min_group,
        max_dead_groups=max_dead_groups,
        unfinished_reward=unfinished_reward,
        owns_envs=not source.is_shared,
    )
    order = TaskOrder(tasks, seed=seed, shuffle=shuffle, epochs=epochs)
    resumed: dict[tuple[int, int], Episode] = {}
    if resume:
        if tree is not None or record is None or isinstance(record, Recorder):
            raise UsageError("resume needs record=, the folder of the run, and no tree", "record='runs/x', resume=True")
        resumed = recorded_episodes(record) if has_record(record) else {}

    def scheduler() -> Scheduler:
        records = None if record is None else source.records(record, policy)
        return Scheduler(source, rules, order.starts, plan, records, resumed)

    return scheduler


class EnvFactory:
    """Opens the environments of a rollout, all alike."""

    def __init__(self, env: Any, options: dict[str, Any], *, chat: bool) -> None:
        self.is_shared = isinstance(env, EnvHandle | AsyncEnvHandle)
        if self.is_shared and options:
            raise UsageError("env_options for a handle that is open already", "pass its ID instead")
        self._env = env
        self._options = {**options, "chat": True} if chat else options
        self._servers = SharedServer()

    def records(self, record: RecordTarget, policy: Any) -> EpisodeRecords:
        """What writes the episodes. Raises `RecordError` if the folder cannot be written."""
        recorder, owned = open_recorder(record, self._options)
        if self.is_shared:
            found = self._env.spec
            header = header_of(found or self._env.id, found, {})
        else:
            is_named = isinstance(self._env, str | PathLike | EnvSpec | type)
            header = made_header(self._env, spec(self._env) if is_named else None, self._options)
        return EpisodeRecords(recorder, {**header, "policy": {"name": policy_name(policy)}}, owned=owned)

    async def __call__(self) -> AsyncEnvHandle[Any, Any, Any, Any]:
        """Open one, in a thread. If the caller is cancelled, nothing stays open."""
        if self.is_shared:
            return self._env if isinstance(self._env, AsyncEnvHandle) else self._env.aio
        made = await run_in_thread(self._make, _close)
        if inspect.isawaitable(made):
            made = await made
        return await (made if isinstance(made, AsyncEnvHandle) else made.aio).__aenter__()

    async def close(self) -> None:
        """Stop the server, if one was started for the environments."""
        await self._servers.release()

    def _make(self) -> Any:
        if not inspect.isroutine(self._env) and not isinstance(self._env, partial):
            options = self._options if is_instance(self._env) else {**self._options, "servers": self._servers}
            return prepare(self._env, **options)
        made = self._env()
        is_handle = isinstance(made, EnvHandle | AsyncEnvHandle) or inspect.isawaitable(made)
        return made if is_handle else adapt(made, **self._options)


@dataclass(slots=True, kw_only=True)
class TaskOrder:
    """How the groups of a rollout begin, in an order that the seed decides."""

    tasks: Any = field(kw_only=False)
    seed: int
    shuffle: bool
    epochs: int | None

    async def starts(self, env: AsyncEnvHandle[Any, Any, Any, Any]) -> Iterator[Start]:
        """Ask the environment for its tasks, and order those to play."""
        known = await _fetched(env)
        return self._numbered(self._choices(known), has_tasks=known is not None)

    def _choices(self, known: TaskList | None) -> Iterable[Any]:
        tasks = self.tasks
        if isinstance(tasks, str):
            if known is None:
                raise UsageError(f"no tasks in the split {tasks!r}", "the environment has no tasks")
            tasks = known.split(tasks).ids
        number = 1 if tasks is None and known is None else tasks if isinstance(tasks, int) else None
        if tasks is None or isinstance(tasks, int):
            tasks = range(self.seed, self.seed + (number or 0)) if known is None else known.ids
        if self.shuffle:
            tasks = list(tasks)
            Random(self.seed).shuffle(tasks)
        if known is not None and number is not None:
            tasks = islice(cycle(tasks), number)
        if self.epochs not in (None, 1):
            tasks = chain.from_iterable(repeat(list(tasks), self.epochs))
        return tasks  # type: ignore[no-any-return]

    def _numbered(self, choices: Iterable[Any], *, has_tasks: bool) -> Iterator[Start]:
        for number, choice in enumerate(choices):
            seed = self.seed + number
            if has_tasks:
                yield Start(number, seed, {"seed": seed, "task": choice})
            elif isinstance(choice, int):
                yield Start(number, choice, {"seed": choice})
            elif isinstance(choice, Mapping):
                yield Start(number, choice.get("seed", seed), {"seed": seed, **choice})
            else:
                hint = "it has no tasks: use numbers, which are seeds, or dicts, which are options of reset"
                raise UsageError(f"the environment cannot begin with {choice!r:.100}", hint)


async def _fetched(env: AsyncEnvHandle[Any, Any, Any, Any]) -> TaskList | None:
    try:
        return None if env.tasks is None else await env.tasks.fetch()
    except UnsupportedError:
        return None


def _check_whole(least: int = 1, **numbers: Any) -> None:
    for name, number in numbers.items():
        if type(number) is not int or number < least:
            raise UsageError(f"{name} is {number!r}", f"use a whole number from {least}")


def _close(made: Any) -> None:
    if isinstance(made, EnvHandle):
        start_thread(made.close)
