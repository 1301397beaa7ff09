"""Checks of what an environment says about itself: the schema of its actions, its classes and their docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from envweave.errors import InvalidActionError
from envweave.requests import NeedAction
from envweave.testing.report import Problem, Problems, SkippedError, attempt, problem_of
from envweave.testing.trial import Trial, by_agent
from envweave.types import Action, Observation, State

_ANNOTATE = "annotate it: class MyEnv(ew.Environment[MyAction, MyObservation]), or set action_type or action_space"


def check_agents(trial: Trial) -> Problems:
    """Agents that `reset` names and that observations are keyed by are declared before the reset.

    Without a declaration an environment is played for one agent, and everything else that could be found is wrong.
    """
    episode = trial.played[0]
    if trial.first.several:
        return
    observation = episode.frames[0].result.observation if episode.frames else None
    is_by_agent = isinstance(observation, Mapping) and bool(observation) and set(observation) <= set(episode.agents)
    if not is_by_agent:
        raise SkippedError("it is for one agent")
    named = ", ".join(map(str, episode.agents))
    message = f"reset sets `agents` to {named} without declaring it, so the environment is taken to be for one agent"
    yield Problem(message, "declare `possible_agents` or `agents: list[str]` in the class")


def check_action_schema(trial: Trial) -> Problems:
    """Whoever must act is told what an action looks like, and random actions can be drawn from that."""
    asked = [request for frame in trial.frames for request in frame.pending if isinstance(request, NeedAction)]
    mute = sorted({request.agent_id for request in asked if request.action_schema is None})
    if mute:
        yield Problem(f"there is no schema for the actions of {', '.join(mute)}", _ANNOTATE)
        return
    for episode in trial.episodes:
        if episode.speechless is not None:
            fix = "say more exactly what an action is, by a dataclass with typed fields"
            problem = problem_of(episode.speechless, fix, what="drawing an action from the schema")
            legal = isinstance(episode.speechless, InvalidActionError)
            doubt = "" if legal else ", so that no step is checked"
            yield Problem(problem.message + doubt, problem.fix, "warning")
            return


def check_docstrings(trial: Trial) -> Problems:
    """The classes of actions and observations say what they mean; that text reaches the agent."""
    for cls in _classes(trial):
        text = cls.__dict__.get("__doc__") or ""
        if not text.strip() or text.startswith(f"{cls.__name__}("):  # what @dataclass writes where there is none
            fix = f"write one sentence for the agent as the docstring of {cls.__name__}"
            yield Problem(f"{cls.__name__} has no docstring", fix, "warning")


def check_dataclasses(trial: Trial) -> Problems:
    """A subclass of `Action`, `Observation` or `State` with fields of its own is a dataclass of its own."""
    state, _ = attempt(trial.first.handle.state)  # what it raises is a matter of `json`
    bases = {base: None for cls in [*_classes(trial), type(state)] for base in cls.__mro__}
    for cls in bases:
        if issubclass(cls, Action | Observation | State) and "__dataclass_fields__" not in cls.__dict__:
            fields = _own_fields(cls)
            if fields:
                message = f"{cls.__name__} declares {', '.join(fields)} but is no dataclass: they are not fields"
                yield Problem(message, f"put @dataclass over class {cls.__name__}")


def _own_fields(cls: type) -> list[str]:
    try:
        annotations = inspect.get_annotations(cls)
    except NameError:  # from Python 3.14 on they are evaluated here, and a name may be unknown
        return []
    return [name for name, hint in annotations.items() if "ClassVar" not in str(hint) and hint is not ClassVar]


def _classes(trial: Trial) -> list[type]:
    """The author's classes of actions and observations: those declared and those seen."""
    found = {cls: None for declared in trial.types for cls in _within(declared)}
    for frame in trial.frames:
        found |= {type(part): None for _, _, part in by_agent(trial.first, frame.result.observation)}
    return [cls for cls in found if _speaks(cls)]


def _within(declared: Any) -> Iterator[type]:
    """The classes in a type: `Move | None` has Move, `dict[str, Move]` too."""
    if isinstance(declared, Mapping):
        for part in declared.values():
            yield from _within(part)
    elif typing.get_origin(declared) is not None:
        if typing.get_origin(declared) is not Literal:
            for part in typing.get_args(declared):
                yield from _within(part)
    elif isinstance(declared, type):
        yield declared


def _speaks(cls: type) -> bool:
    """True for a class whose docstring becomes part of a schema."""
    return dataclasses.is_dataclass(cls) or typing.is_typeddict(cls) or hasattr(cls, "model_json_schema")
