"""Checks of what crosses a boundary: it stays as it was given out, and it has a JSON form."""

from __future__ import annotations

import json
import typing
from typing import Any

from envweave.core.jsonable import to_json
from envweave.requests import NeedAction
from envweave.testing.prints import fingerprint, observed
from envweave.testing.report import Problem, Problems, attempt, problem_of
from envweave.testing.shapes import observation_type
from envweave.testing.trial import Trial, by_agent

_PLAIN = "use dicts with text as keys, lists, text, finite numbers, booleans and None"


def check_aliasing(trial: Trial) -> Problems:
    """An observation that was given out does not change any more."""
    for frame in trial.frames:
        now, _ = observed(frame.result.observation)
        if now != frame.observation:
            message = f"the observation of a {frame.call} was changed later: first {frame.observation}, now {now}"
            yield Problem(message, "give out a copy: list(…), array.copy(), dataclasses.replace(…)")
            return


def check_json(trial: Trial) -> Problems:
    """Observations, infos, the state and the schema of actions have a JSON form."""
    yield from _observations(trial)
    yield from _infos(trial)
    yield from _state(trial)
    for frame in trial.frames[:1]:
        for request in frame.pending:
            if isinstance(request, NeedAction):
                yield from _crossing(request.action_schema, "action_schema")


def _observations(trial: Trial) -> Problems:
    """The first that cannot cross, or comes back as something else; one of wrong types was found before."""
    fits = not any(trial.failed(name) for name in ("observation_type", "reward", "done_flags"))
    for frame in trial.frames:
        for where, agent, value in by_agent(trial.first, frame.result.observation):
            problems = list(_crossing(value, where))
            if fits and not problems:
                problems = list(_coming_back(value, observation_type(trial, agent), where))
            if problems:
                yield from problems
                return


def _infos(trial: Trial) -> Problems:
    for frame in trial.frames:
        problems = list(_crossing(frame.result.info, "info"))
        if problems:
            yield from problems
            return


def _state(trial: Trial) -> Problems:
    """As it is in the middle or at the end of an episode, and at the beginning of one."""
    played = trial.episodes[0]
    for actions in ([], played.actions):
        trial.first.replay(played.seed, actions, max_steps=trial.max_steps)
        state, error = attempt(trial.first.handle.state)
        if isinstance(error, NotImplementedError):
            return  # PettingZoo's way to say that there is none
        if error is not None:
            yield problem_of(error, "see that state can be read at any time", what="state")
            return
        problems = list(_crossing(state, "state"))
        if problems:
            yield from problems
            return


def _crossing(value: Any, where: str) -> Problems:
    _, error = attempt(lambda: json.dumps(to_json(value, where=where), allow_nan=False))
    if error is not None:
        yield problem_of(error, _PLAIN, what=f"making JSON of {where}")


def _coming_back(value: Any, declared: Any, where: str) -> Problems:
    """A value of a declared type is equal to what is read back from its JSON."""
    from envweave.core.schema import adapter, explain, json_schema  # pydantic, for those who declare a type

    if declared is None or json_schema(declared) is None:
        return
    if isinstance(declared, type) and not typing.is_typeddict(declared):
        if not isinstance(value, declared):
            return  # plain data in place of an instance
        declared = type(value)
    try:
        data = json.loads(json.dumps(to_json(value)))
        back = adapter(declared).validate_python(data, by_name=True, by_alias=True)
    except ValueError as error:
        yield Problem(
            f"{where} cannot be read back from its JSON: {explain(error)}", "give its fields the types they have"
        )
        return
    if not _equal(back, value):
        message = f"{where} comes back from JSON as {_short(back)}, not as {_short(value)}"
        yield Problem(message, "give its fields the types they have")


def _equal(one: Any, other: Any) -> bool:
    equal, error = attempt(lambda: bool(one == other))
    return equal is True if error is None else fingerprint(one) == fingerprint(other)  # arrays have no single answer


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"
