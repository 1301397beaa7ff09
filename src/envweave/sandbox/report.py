"""Which walls stand around a session, which do not, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Layer:
    """One wall."""

    name: str
    on: bool
    why: str = ""
    """What it does if it is on, why it is missing if it is not."""


@dataclass(frozen=True, slots=True)
class Report:
    """What holds the code of a sandbox."""

    isolation: str
    """`namespace`, `landlock`, `process`, `container` or `unsafe`."""
    why: str
    layers: tuple[Layer, ...]

    def layer(self, name: str) -> Layer:
        return next(layer for layer in self.layers if layer.name == name)

    def to_data(self) -> dict[str, Any]:
        layers = {layer.name: {"on": layer.on, "why": layer.why} for layer in self.layers}
        return {"isolation": self.isolation, "why": self.why, "layers": layers}

    def __str__(self) -> str:
        width = max(len(layer.name) for layer in self.layers)
        lines = [f"{'on ' if layer.on else 'off'} {layer.name:{width}}  {layer.why}" for layer in self.layers]
        return "\n".join([f"isolation: {self.isolation} ({self.why})", *lines])
