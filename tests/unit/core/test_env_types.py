"""A bare base class in an annotation says nothing about the fields of an action or an observation."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pytest
from openenv.core.env_server.interfaces import Environment as OpenEnvEnvironment
from openenv.core.env_server.types import Action as OpenEnvAction
from openenv.core.env_server.types import Observation as OpenEnvObservation
from openenv.core.env_server.types import State as OpenEnvState

import envweave as ew
from envweave.core.actions import ANYTHING, rule_for_type
from envweave.core.env_types import EnvTypes, types_made_by, types_of
from envweave.testing import check_env
from envweave.types import State

BASES = [(ew.Action, ew.Observation, State), (OpenEnvAction, OpenEnvObservation, OpenEnvState)]


@dataclass
class Move(ew.Action):
    """Move so far."""

    distance: int


@pytest.mark.parametrize(("action", "observation", "state"), BASES)
def test_a_bare_base_class_is_not_a_declaration(action, observation, state):
    class Hinted:
        def step(self, action: action) -> observation: ...

    class ByAgent:
        def step(self, actions: dict[str, action]) -> ew.StepResult[dict[str, observation]]: ...

    class Attributes:
        action_type, observation_type = action, observation

    class Derived(ew.Environment[action, observation]): ...

    for cls in (Hinted, ByAgent, Attributes, Derived):
        assert types_of(cls) == EnvTypes(None, None), cls
    for base in (action, observation, state):
        assert rule_for_type(base) is ANYTHING


def test_a_base_class_given_with_the_environment_takes_anything_too():
    ew.register("bare", lambda: Played(), action_type=ew.Action, overwrite=True)
    with ew.make("bare") as env:
        env.reset()
        assert env.step(Move(3)).observation.position == 3
    ew.unregister("bare")


def test_a_class_of_the_same_name_and_a_subclass_are_declarations():
    @dataclass
    class Action:
        """Somebody else's."""

        distance: int

    class Hinted:
        def step(self, action: Action) -> dict[str, Any]: ...

    class Derived:
        def step(self, action: Move): ...

    assert types_of(Hinted) == EnvTypes(Action, dict[str, Any])
    assert types_of(Derived).action is Move


@dataclass
class Position(ew.Observation):
    """Where the walker is."""

    position: int = 0


class Played:
    """Played by subclasses of what its annotations name."""

    def reset(self) -> ew.Observation:
        self.position = 0
        return Position()

    def step(self, action: ew.Action) -> ew.Observation:
        self.position += action.distance
        return Position(position=self.position, reward=1.0, done=self.position > 5)


class OpenEnvMove(OpenEnvAction):
    """Move so far."""

    distance: int


class OpenEnvPosition(OpenEnvObservation):
    """Where the walker is."""

    position: int = 0


class OpenEnvPlayed(OpenEnvEnvironment):
    def reset(self, seed=None, episode_id=None, **kwargs: Any) -> OpenEnvObservation:
        self.position = 0
        return OpenEnvPosition()

    def step(self, action: OpenEnvAction, timeout_s: float | None = None, **kwargs: Any) -> OpenEnvObservation:
        self.position += action.distance
        return OpenEnvPosition(position=self.position, reward=1.0, done=self.position > 5)

    @property
    def state(self) -> OpenEnvState:
        return OpenEnvState()


@pytest.mark.parametrize(("kind", "move"), [(Played, Move), (OpenEnvPlayed, OpenEnvMove)])
def test_an_environment_whose_step_names_the_base_class_takes_its_subclasses(kind, move):
    with ew.adapt(kind()) as env:
        env.reset()
        assert env.action_schema() is None
        assert env.step(move(distance=3)).observation.position == 3


@pytest.mark.parametrize(("kind", "move"), [(Played, Move), (OpenEnvPlayed, OpenEnvMove)])
def test_an_observation_of_a_subclass_is_no_finding(kind, move):
    spec = ew.EnvSpec(id="played", factory=kind, action_type=move)
    report = check_env(spec, max_steps=200)
    assert {finding.check for finding in report.errors} == set(), str(report)
    assert "observation_type" in report.skipped


@dataclass
class Place(ew.Observation):
    at: int


ActT, ObsT = TypeVar("ActT"), TypeVar("ObsT")


class Line(ew.Environment[Move, Place]):
    def reset(self):
        return Place(0)

    def step(self, action):
        return Place(action.distance)


class Between(ew.Environment[ActT, ObsT], Generic[ObsT, ActT]):
    """A generic class in between, with its parameters in another order."""


class Half(Between[ObsT, Move]):
    pass


class Whole(Half[Place]):
    pass


class Team(Between[dict[str, ObsT], Move]):
    pass


class TeamOfPlaces(Team[Place]):
    pass


def test_type_arguments_reach_through_generic_classes():
    assert types_of(Whole)[:2] == (Move, Place)
    assert types_of(Half)[:2] == (Move, None)
    assert types_of(TeamOfPlaces)[:2] == (Move, dict[str, Place])


def makes_line(size: int = 1) -> Line:
    return Line()


def makes_some() -> ew.Environment[Move, Place]:
    return Line()


def makes_generic() -> Half[Place]:
    raise NotImplementedError


def does_not_say():
    return Line()


def says_nonsense() -> "Unknown":  # noqa: F821
    return Line()


@pytest.mark.parametrize("factory", [Line, makes_line, partial(makes_line, size=2), partial(Line), makes_some])
def test_a_factory_that_says_what_it_makes_declares_its_types(factory):
    assert types_made_by(factory)[:2] == (Move, Place)


def test_the_arguments_of_a_generic_class_that_a_factory_names_are_its_types():
    assert types_made_by(makes_generic)[:2] == (Move, Place)


@pytest.mark.parametrize("factory", [does_not_say, says_nonsense, lambda: Line(), len])
def test_a_factory_that_does_not_say_what_it_makes_declares_nothing(factory):
    assert types_made_by(factory) == EnvTypes()


@dataclass
class Where(State):
    place: str = ""


def test_the_type_of_the_state_is_read_off_a_property_a_method_or_an_attribute():
    class Property:
        @property
        def state(self) -> Where: ...

    class Method:
        async def state(self) -> Where: ...

    class Attribute:
        state: Where

    class Untyped:
        state = {"a": 1}  # noqa: RUF012

    assert [types_of(each).state for each in (Property, Method, Attribute, Untyped)] == [Where, Where, Where, None]
