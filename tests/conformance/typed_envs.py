"""Environments for the suite of types. Their observations and states have every kind of field that crosses a wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict

from pydantic import BaseModel

import envweave as ew


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(int, Enum):
    SMALL = 1
    LARGE = 2


@dataclass
class Item:
    """Something that lies about."""

    name: str
    weight: float | None = None
    parts: list[Item] = field(default_factory=list)


@dataclass
class Move(ew.Action):
    """Go to the next place."""

    by: int = 1


@dataclass
class Scene(ew.Observation):
    """All that can be seen."""

    at: tuple[int, int]
    path: tuple[int, ...]
    colour: Colour
    size: Size
    best: Item
    items: list[Item]
    hidden: Item | None
    found: Item | None
    by_name: dict[str, Item]
    notes: dict[str, Any]


@dataclass
class SceneState(ew.State):
    """All that there is."""

    steps_left: int
    last: Item | None


def scene(step: int, **rest: Any) -> Scene:
    """What is seen after so many steps."""
    lamp = Item("lamp", 1.5, [Item("bulb")])
    return Scene(
        at=(step, -step),
        path=tuple(range(step)),
        colour=Colour.BLUE,
        size=Size.LARGE,
        best=lamp,
        items=[lamp, Item("rug")],
        hidden=None,
        found=Item("key", 0.1),
        by_name={"lamp": lamp},
        notes={"free": {"form": [1, None, "x"]}},
        **rest,
    )


class SceneEnv(ew.Environment[Move, Scene]):
    """Two steps, then the end."""

    def __init__(self) -> None:
        self._step = 0

    def reset(self) -> Scene:
        self._step = 0
        return scene(0)

    def step(self, action: Move) -> Scene:
        self._step += action.by
        return scene(self._step, reward=0.5, done=self._step >= 2)

    @property
    def state(self) -> SceneState:
        return SceneState(steps_left=2 - self._step, last=Item("lamp", 1.5))


def scene_env() -> SceneEnv:
    """A factory that says what it makes."""
    return SceneEnv()


# Observations that are not dataclasses.


class Card(BaseModel):
    """A pydantic model."""

    suit: Colour
    value: int = 0


class Hand(BaseModel):
    """A pydantic model with others in it."""

    cards: list[Card]
    best: Card | None = None


class Seen(TypedDict):
    """A dict with known keys."""

    items: list[Item]
    count: int


def values(kind: str) -> Any:
    """The observation of each kind."""
    return {
        "model": Hand(cards=[Card(suit=Colour.RED, value=3)], best=Card(suit=Colour.BLUE)),
        "typed_dict": Seen(items=[Item("lamp")], count=1),
        "dict": {"title": "lamp", "items": [{"name": "x"}]},
        "text": "no Scene",
        "missing": {"at": [0, 0]},
        "list": [Item("lamp"), Item("rug", 2.0)],
    }[kind]


class _Shows:
    """Shows one value at each step."""

    kind = ""

    def reset(self) -> Any:
        return values(self.kind)

    def step(self, action: Any) -> Any:
        return ew.StepResult(values(self.kind), 1.0)


class ShowsModel(_Shows, ew.Environment[Any, Hand]):
    kind = "model"


class ShowsTypedDict(_Shows, ew.Environment[Any, Seen]):
    kind = "typed_dict"


class ShowsDict(_Shows):
    kind = "dict"
    state = {"title": "plain", "nested": {"a": [1]}}  # noqa: RUF012


class ShowsList(_Shows, ew.Environment[Any, list[Item]]):
    kind = "list"


class ShowsText(_Shows, ew.Environment[Any, Scene]):
    """Declares another type than it shows."""

    kind = "text"


class ShowsTooLittle(_Shows, ew.Environment[Any, Scene]):
    kind = "missing"


# Several agents.


class Duel(ew.Environment[dict[str, Move], dict[str, Scene]]):
    """Two agents; its types are those of the whole dicts."""

    def __init__(self) -> None:
        self.agents = ["ann", "bob"]

    def reset(self) -> dict[str, Scene]:
        return {agent: scene(0) for agent in self.agents}

    def step(self, actions: dict[str, Move]) -> ew.StepResult[dict[str, Scene], dict[str, float], dict[str, bool]]:
        seen = {agent: scene(action.by) for agent, action in actions.items()}
        return ew.StepResult(seen, dict.fromkeys(seen, 1.0), {"__all__": True}, {"__all__": False})
