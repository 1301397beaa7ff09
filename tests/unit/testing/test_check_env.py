"""`check_env` on environments that keep the contract, and on one broken environment for each thing it looks at."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import gymnasium
import numpy as np
import pettingzoo
import pytest
from pettingzoo.utils import parallel_to_aec

import envweave as ew
from envweave.errors import UsageError
from envweave.testing import Finding, Report, check_env

# A sound environment; each broken one below differs from it in one thing.


@dataclass
class Go(ew.Action):
    """Go left or right."""

    way: Literal[-1, 1]


@dataclass
class Place(ew.Observation):
    """Where you are."""

    at: int


class Walk(ew.Environment[Go, Place]):
    """Ten steps from a place that the seed chooses."""

    def __init__(self) -> None:
        self._random = Random()
        self._at = self._time = 0

    def reset(self, *, seed: int | None = None) -> Any:
        if seed is not None:
            self._random.seed(seed)
        self._at, self._time = self._random.randint(0, 9), 0
        return Place(self._at)

    def step(self, action: Go) -> Any:
        self._at += action.way
        self._time += 1
        return Place(self._at, reward=0.5, done=self._time >= 10)


class AsyncWalk(ew.AsyncEnvironment[Go, Place]):
    """The same for those who await."""

    def __init__(self) -> None:
        self._walk = Walk()

    async def reset(self, *, seed: int | None = None) -> Any:
        return self._walk.reset(seed=seed)

    async def step(self, action: Go) -> Any:
        return self._walk.step(action)


class Asking(Walk):
    """Wants a tool run in each step, and goes on with its answer."""

    def step(self, action: Go) -> Any:
        self._due = super().step(action)
        return ew.StepResult(Place(-1), requests=(ew.ToolCall(tool_name="clock"),))

    def respond(self, request_id: str, value: Any) -> Any:
        return self._due


# Life.


class NoStep:
    def reset(self) -> int:
        return 0


class Abstract(ew.Environment[Go, Place]):
    def reset(self, *, seed: int | None = None) -> Any:
        return Place(0)


THE_ONE = Walk()


THE_CART = gymnasium.make("CartPole-v1")


def the_same() -> Walk:
    return THE_ONE


class Unmakeable(Walk):
    def __init__(self) -> None:
        raise OSError("no such machine")


class ExitsWhenMade(Walk):
    def __init__(self) -> None:
        sys.exit(3)


def only_once() -> Callable[[], Walk]:
    made: list[Walk] = []

    def factory() -> Walk:
        if made:
            raise RuntimeError("there can be only one")
        made.append(Walk())
        return made[0]

    return factory


class DoesNotClose(Walk):
    def close(self) -> None:
        raise OSError("still busy")


# Shapes.


class ForgetsToReturn(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=seed)


class ResetFails(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        raise KeyError("board")


class ResetWorksOnce(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        if self._time:
            raise KeyError("board")
        return super().reset(seed=seed)


class NeedsMore(Walk):
    def reset(self, *, level: int, seed: int | None = None) -> Any:
        return super().reset(seed=seed)


class InfoIsNone:
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self) -> Any:
        return 0, None

    def step(self, action: int) -> Any:
        return 1, 0.0, True, False, {}


class WrongType(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=seed)
        return Place("somewhere")  # type: ignore[arg-type]


class OutOfSpace(gymnasium.Env[Any, Any]):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return int(self.np_random.integers(3)), {}

    def step(self, action: Any) -> Any:
        return 7, 0.0, True, False, {}


class Replies(Walk):
    """Returns from `step` whatever the subclass says."""

    def reply(self, place: Place) -> Any: ...

    def step(self, action: Go) -> Any:
        return self.reply(super().step(action))


class ThreeValues(Replies):
    def reply(self, place: Place) -> Any:
        return place, 0.0, {}


class StepFails(Replies):
    def reply(self, place: Place) -> Any:
        return Place(place.at // (3 - self._time))


class StepExits(Replies):
    def reply(self, place: Place) -> Any:
        sys.exit(1)


class TransformFails(Walk):
    def transform(self, observation: Any) -> Any:  # type: ignore[override]
        raise ValueError("no reward model")


class RewardIsNaN(Replies):
    def reply(self, place: Place) -> Any:
        return place, float("nan"), False, self._time >= 10, {}


class RewardIsText(Replies):
    def reply(self, place: Place) -> Any:
        return Place(place.at, reward="much", done=place.done)  # type: ignore[arg-type]


class DoneIsText(Replies):
    def reply(self, place: Place) -> Any:
        return ew.StepResult(place, 0.0, "no", False)  # type: ignore[arg-type]


class DoneIsTextInside(Replies):
    def reply(self, place: Place) -> Any:
        return Place(place.at, done="no")  # type: ignore[arg-type]


class DoneIsNone(Replies):
    def reply(self, place: Place) -> Any:
        return place, 0.0, None, False, {}


# What it says about itself.


class Speechless:
    def __init__(self) -> None:
        self._walk = Walk()

    def reset(self, seed: int | None = None) -> Any:
        return self._walk.reset(seed=seed)

    def step(self, action: Any) -> Any:
        return self._walk.step(action)


class TakesNothing(Walk):
    def step(self, action: Go) -> Any:
        raise ew.InvalidActionError("not that one")


@dataclass
class Undocumented(ew.Observation):
    at: int


class NoDocstring(ew.Environment[Go, Undocumented]):
    def reset(self) -> Any:  # type: ignore[override]
        return Undocumented(0)

    def step(self, action: Go) -> Any:
        return Undocumented(1, done=True)


class Undecorated(ew.Observation):
    """Where you are."""

    at: int = 0


class NoDataclass(ew.Environment[Go, Undecorated]):
    def reset(self) -> Any:  # type: ignore[override]
        return Undecorated()

    def step(self, action: Go) -> Any:
        return Undecorated(done=True)


# Seeds and instances.


class GlobalChance(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=random.randrange(10**6))
        return Place(self._at)


class NumpyChance(Replies):
    def reply(self, place: Place) -> Any:
        return place, float(np.random.rand()), False, self._time >= 10, {}


class Unseeded(Walk):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class Leaks(Replies):
    total = 0

    def reply(self, place: Place) -> Any:
        self.total += 1
        return place, float(self.total), False, self._time >= 10, {}


class TellsTheTime(Replies):
    def reply(self, place: Place) -> Any:
        return place, 0.0, False, self._time >= 10, {"at": time.perf_counter_ns()}


class Numbered(Walk):
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._number = next(self.numbers)

    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=seed)
        return Place(self._at + 100 * self._number)


class IgnoresSeed(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        return super().reset(seed=1)


class RefusesTooLate(Walk):
    def step(self, action: Go) -> Any:
        outcome = super().step(action)
        if action.way == -1:
            raise ew.InvalidActionError("the wall is there")
        return outcome


class Shared(Walk):
    board: dict[str, int] = {}  # noqa: RUF012  (the mistake it is about)

    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=seed)
        self.board["at"] = self._at
        return Place(self._at)

    def step(self, action: Go) -> Any:
        self._time += 1
        self.board["at"] += action.way
        return Place(self.board["at"], done=self._time >= 10)


class SeedsTheWorld(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        random.seed(seed)
        return super().reset(seed=seed)

    def step(self, action: Go) -> Any:
        return super().step(action), random.random(), False, self._time >= 10, {}


# Data.


@dataclass
class Trail(ew.Observation):
    """Where you have been."""

    places: list[int] = field(default_factory=list)


class SameList(ew.Environment[Go, Trail]):
    def __init__(self) -> None:
        self._places: list[int] = []

    def reset(self) -> Any:  # type: ignore[override]
        self._places = [0]
        return Trail(self._places)

    def step(self, action: Go) -> Any:
        self._places.append(action.way)
        return Trail(self._places, done=len(self._places) > 5)


class SameArray(gymnasium.Env[Any, Any]):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-100, 100, (2000,), np.float64)

    def __init__(self) -> None:
        self._array = np.zeros(2000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._array[:] = self.np_random.uniform(size=2000)
        return self._array, {}

    def step(self, action: Any) -> Any:
        self._array[7] += 1
        return self._array, 0.0, bool(self._array[7] > 5), False, {}


class ReturnsTuple(ew.Environment[Go, Trail]):
    def reset(self) -> Any:  # type: ignore[override]
        return Trail((1, 2))  # type: ignore[arg-type]

    def step(self, action: Go) -> Any:
        return Trail([], done=True)


class SetInInfo(Replies):
    def reply(self, place: Place) -> Any:
        return place, 0.0, False, self._time >= 10, {"seen": {"tags": {1, 2}}}


class ObjectInState(Walk):
    @property
    def state(self) -> Any:
        return {"generator": self._random}


class StateFails(Walk):
    def state(self) -> Any:
        raise OSError("no state")


# The course of an episode.


class CannotTakeAnswers(Replies):
    def reply(self, place: Place) -> Any:
        return ew.StepResult(place, requests=(ew.ToolCall(tool_name="clock"),))


class Endless(Walk):
    def step(self, action: Go) -> Any:
        self._time = -1
        return super().step(action)


class BeginsAtTheEnd(Walk):
    def reset(self, *, seed: int | None = None) -> Any:
        super().reset(seed=seed)
        return Place(self._at, done=True)


class CountsOn(Walk):
    count = 0

    @property
    def state(self) -> ew.State:
        return ew.State(step_count=self.count)

    def step(self, action: Go) -> Any:
        self.count += 1
        return super().step(action)


class Undeclared:
    """Two players roll dice by PettingZoo's habits but without its base class: only `reset` names them."""

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None) -> Any:
        self.agents, self._random, self._left = ["a", "b"], Random(seed), 3
        return self._rolled(), {}

    def step(self, actions: Any) -> Any:
        self._left -= 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        return self._rolled(), rewards, dict.fromkeys(actions, self._left == 0), dict.fromkeys(actions, False), {}

    def _rolled(self) -> dict[str, int]:
        return {agent: self._random.randrange(6) for agent in self.agents}


class UndeclaredButTyped(Undeclared):
    action_space = None  # type: ignore[assignment]

    def step(self, actions: dict[str, int]) -> Any:
        return super().step(actions)


class Loose:
    """Turns a class of handle methods into a handle around Walk, as another package might write one."""

    def __new__(cls, **methods: Callable[..., Any]) -> Any:
        inner = ew.adapt(Walk(), id="loose")
        return type("LooseHandle", (type(inner),), {"__slots__": (), **methods})(inner._backend)


def loose_step(self: Any, action: Any) -> Any:
    if not self.pending:
        return ew.StepResult(Place(0), 0.0, True)
    return super(type(self), self).step(action)


def loose_reset(self: Any, *, seed: int | None = None, **options: Any) -> Any:
    return super(type(self), self).reset(seed=seed)


def silent_step(self: Any, action: Any) -> Any:
    result = super(type(self), self).step(action)
    result.requests = ()
    return result


def takes_after_end() -> Any:
    return Loose(step=loose_step)


def swallows_options() -> Any:
    return Loose(reset=loose_reset)


def tells_nothing() -> Any:
    return Loose(step=silent_step)


# Tasks.


class Quiz(Walk):
    """Begins where the task says."""

    tasks: Any = ew.Tasks([{"id": f"from {at}", "at": at} for at in range(12)])

    def reset(self, *, task: ew.Task, seed: int | None = None) -> Any:
        super().reset(seed=seed)
        self._at += task["at"]
        return Place(self._at)


class TakesNoTask(Walk):
    tasks = Quiz.tasks


class AnotherTaskBySeed(ew.Tasks):
    def by_seed(self, seed: int) -> ew.Task:
        return super().by_seed(seed + 1)


class DoesNotAgree(Quiz):
    tasks = AnotherTaskBySeed([{"id": f"from {at}", "at": at} for at in range(12)])


class TwiceTheSameID(Quiz):
    tasks = Quiz.tasks + Quiz.tasks[3:4]


class CountsItsEpisodes(Quiz):
    """In one of the tasks that the other checks do not play."""

    def __init__(self) -> None:
        super().__init__()
        self._played = 0

    def reset(self, *, task: ew.Task, seed: int | None = None) -> Any:
        first = super().reset(task=task, seed=seed)
        self._played += task.id == "from 11"
        return Place(self._played) if task.id == "from 11" else first


BROKEN: list[tuple[str, Any]] = [
    ("environment", NoStep),
    ("environment", NoStep()),
    ("environment", Abstract),
    ("environment", 42),
    ("factory", the_same),
    ("factory", lambda: gymnasium.wrappers.TimeLimit(THE_CART, 9)),
    ("factory", Unmakeable),
    ("factory", ExitsWhenMade),
    ("factory", only_once()),
    ("factory", ew.EnvSpec(id="nowhere", factory=lambda: ew.make("nowhere"))),
    ("agents", Undeclared),
    ("agents", UndeclaredButTyped),
    ("reset", ForgetsToReturn),
    ("reset", ResetFails),
    ("reset", ResetWorksOnce),
    ("reset", NeedsMore),
    ("reset", InfoIsNone),
    ("observation_type", WrongType),
    ("observation_type", OutOfSpace),
    ("step", ThreeValues),
    ("step", StepFails),
    ("step", StepExits),
    ("step", TransformFails),
    ("reward", RewardIsNaN),
    ("reward", RewardIsText),
    ("done_flags", DoneIsText),
    ("done_flags", DoneIsTextInside),
    ("done_flags", DoneIsNone),
    ("action_schema", Speechless),
    ("action_schema", TakesNothing),
    ("docstrings", NoDocstring),
    ("dataclasses", NoDataclass),
    ("seed_repeats", GlobalChance),
    ("seed_repeats", NumpyChance),
    ("seed_repeats", Unseeded),
    ("seed_repeats", Leaks),
    ("seed_repeats", TellsTheTime),
    ("seed_repeats_across_instances", Numbered),
    ("seed_matters", IgnoresSeed),
    ("refused_action", RefusesTooLate),
    ("interleaving", Shared),
    ("interleaving", SeedsTheWorld),
    ("tasks", TakesNoTask),
    ("tasks", DoesNotAgree),
    ("tasks", TwiceTheSameID),
    ("tasks", CountsItsEpisodes),
    ("aliasing", SameList),
    ("aliasing", SameArray),
    ("requests", tells_nothing),
    ("tool_calls", CannotTakeAnswers),
    ("episode_ends", Endless),
    ("step_after_end", takes_after_end),
    ("fresh_episode", BeginsAtTheEnd),
    ("fresh_episode", CountsOn),
    ("json", ReturnsTuple),
    ("json", SetInInfo),
    ("json", ObjectInState),
    ("json", StateFails),
    ("reset_options", swallows_options),
    ("close", DoesNotClose),
]

WARNINGS = [InfoIsNone, TakesNothing, NoDocstring, TellsTheTime, IgnoresSeed, Endless]


def label(value: Any) -> str:
    return value if isinstance(value, str) else str(getattr(value, "__name__", type(value).__name__))


@pytest.mark.parametrize(("check", "broken"), BROKEN, ids=label)
def test_a_broken_environment_gets_exactly_the_finding_it_deserves_and_a_fix(check: str, broken: Any) -> None:
    report = check_env(broken, max_steps=50)

    print(report)
    assert [finding.check for finding in report.findings] == [check]
    (finding,) = report.findings
    assert finding.message
    assert finding.fix
    assert finding.severity == ("warning" if broken in WARNINGS else "error")
    assert report.ok is (broken in WARNINGS)


SOUND = [
    Walk,
    AsyncWalk,
    Asking,
    Quiz,
    lambda: ew.make(Quiz),
    lambda: ew.make("nim"),
    lambda: ew.make("lineworld"),
    lambda: ew.make("nim").aio,
]


@pytest.mark.parametrize("env", SOUND)
def test_a_sound_environment_passes_whatever_its_kind(env: Any) -> None:
    assert check_env(env, max_steps=50).findings == ()


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1"])
def test_a_gymnasium_environment_passes(id: str) -> None:
    assert check_env(gymnasium.make, id=id, episodes=2, max_steps=200).findings == ()


class Duel(pettingzoo.ParallelEnv[str, Any, int]):
    """Two players roll a die that the seed governs, three times."""

    metadata = {"name": "duel", "render_modes": []}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012
    render_mode = None

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(6)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self._left = list(self.possible_agents), 3
        self._random = Random(seed)
        return self._roll(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        self._left -= 1
        seen, over, never = self._roll(), dict.fromkeys(actions, self._left == 0), dict.fromkeys(actions, False)
        self.agents = [] if self._left == 0 else self.agents
        return (
            seen,
            {agent: float(act) for agent, act in actions.items()},
            over,
            never,
            {agent: {} for agent in actions},
        )

    def _roll(self) -> dict[str, int]:
        return {agent: self._random.randrange(6) for agent in self.agents}


@pytest.mark.parametrize("env", [Duel, lambda: parallel_to_aec(Duel())], ids=["parallel", "turn based"])
def test_a_pettingzoo_environment_is_checked_as_one_for_several_agents(env: Any) -> None:
    report = check_env(env, max_steps=50)

    assert report.findings == ()
    assert {"step", "observation_type", "seed_matters", "interleaving", "step_after_end"} <= set(report.passed)


@pytest.mark.parametrize("env", [Undeclared, UndeclaredButTyped])
def test_agents_that_only_reset_names_are_the_one_finding(env: Any) -> None:
    (finding,) = check_env(env, max_steps=50).findings

    assert finding.check == "agents"
    assert "reset sets `agents` to a, b" in finding.message
    assert finding.fix == "declare `possible_agents` or `agents: list[str]` in the class"


class Annotated(Undeclared):
    agents: list[str]


class Possible(Undeclared):
    possible_agents: list[str]


class Computed(Undeclared):
    @property
    def agents(self) -> list[str]:
        return self._named

    @agents.setter
    def agents(self, agents: list[str]) -> None:
        self._named = agents


class Assigned(Undeclared):
    possible_agents = ("a", "b")


@pytest.mark.parametrize("env", [Annotated, Possible, Computed, Assigned])
def test_agents_that_the_class_declares_are_played_for(env: Any) -> None:
    report = check_env(env, max_steps=50)

    assert report.findings == ()
    assert {"agents", "step", "seed_matters"} <= set(report.passed)


class Simulation(Walk):
    """One agent, among others that it simulates."""

    def reset(self, *, seed: int | None = None) -> Any:
        self.agents = ["cat", "dog"]
        return {"at": 1}

    def step(self, action: Go) -> Any:
        return {"at": 2}, 0.0, True, False, {}


def test_an_attribute_of_that_name_is_no_finding_where_observations_are_not_by_agent() -> None:
    report = check_env(Simulation, max_steps=50)

    assert report.skipped["agents"] == "it is for one agent"
    assert "step" in report.passed


def test_what_an_instance_cannot_show_is_skipped_with_a_reason() -> None:
    report = check_env(Walk())

    assert report.findings == ()
    alone = ["factory", "seed_repeats_across_instances", "interleaving"]
    assert [name for name, reason in report.skipped.items() if "second instance" in reason] == alone


def test_an_instance_is_closed_afterwards() -> None:
    handle = ew.make("counter")
    check_env(handle, max_steps=50)

    with pytest.raises(ew.errors.ClosedError):
        handle.reset()


def test_arguments_go_to_the_factory() -> None:
    report = check_env("lineworld", size=9, max_steps=3, episodes=1)

    assert [finding.check for finding in report.findings] == ["episode_ends"]
    assert "within 3 steps" in report.findings[0].message


@pytest.mark.parametrize(
    ("wrong", "kwargs"),
    [("linewrold", {}), ("lineworld", {"sice": 3}), (Walk(), {"size": 3}), ("counter", {"episodes": 0})],
)
def test_a_wrong_call_is_raised_and_not_a_finding(wrong: Any, kwargs: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_env(wrong, **kwargs)


def test_a_module_that_cannot_be_imported_is_a_finding(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_at_import.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    (finding,) = check_env("pkg://broken_at_import:Env").findings
    assert finding.check == "factory"
    assert "ZeroDivisionError" in finding.message


def test_ctrl_c_goes_through() -> None:
    class Interrupted(Walk):
        def step(self, action: Go) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_env(Interrupted)


def test_without_an_action_schema_the_checks_that_need_no_action_still_run() -> None:
    report = check_env(Speechless)

    assert {"reset", "seed_repeats", "seed_matters", "aliasing", "json", "close"} <= set(report.passed)
    assert {"step", "reward", "done_flags", "interleaving", "episode_ends"} <= set(report.skipped)


def test_each_check_is_named_exactly_once_in_a_report_and_has_an_example_here_that_fails_it() -> None:
    report = check_env("nim")
    names = [*report.passed, *report.skipped]
    assert len(names) == len(set(names))
    assert set(names) == {check for check, _ in BROKEN}


def test_the_global_random_generators_are_left_as_they_were() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = random.Random(5).random(), np.random.RandomState(5).rand()

    check_env(SeedsTheWorld, max_steps=50)
    check_env(NumpyChance, max_steps=50)
    assert (random.random(), np.random.rand()) == expected


def test_a_message_names_the_field_that_has_no_json_form() -> None:
    (finding,) = check_env(SetInInfo).findings
    assert "info.seen.tags is a set" in finding.message


def test_a_forgotten_decorator_on_an_action_is_found_before_anything_else_that_follows_from_it() -> None:
    class Jump(ew.Action):
        """Jump."""

        far: int

    class Jumping(ew.Environment[Jump, Place]):
        def reset(self) -> Any:  # type: ignore[override]
            return Place(0)

        def step(self, action: Jump) -> Any:
            return Place(action.far, done=True)

    findings = {finding.check: finding for finding in check_env(Jumping).findings}
    assert "@dataclass" in findings["dataclasses"].fix


def test_a_report_is_json_and_says_what_failed() -> None:
    report = check_env(RewardIsNaN, max_steps=50)

    data = json.loads(json.dumps(report.to_data()))
    assert data["ok"] is False
    assert data["findings"][0]["check"] == "reward"
    assert data["passed"] == list(report.passed)
    assert data["skipped"] == report.skipped
    with pytest.raises(ew.EnvError, match="reward is nan"):
        report.raise_if_failed()
    check_env("lineworld", episodes=1).raise_if_failed()


def test_warnings_alone_do_not_fail() -> None:
    report = Report("x", (Finding("docstrings", "warning", "none", "write one"),))
    assert report.ok
    report.raise_if_failed()


def test_the_checker_loads_neither_numpy_nor_pydantic_by_being_imported() -> None:
    code = "import sys, envweave.testing; print([m for m in ('numpy', 'pydantic', 'asyncio') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
