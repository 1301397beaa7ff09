"""Transforms put together for what most people want."""

from __future__ import annotations

from typing import Any

from envweave.rewards.composite import CompositeTransform
from envweave.rewards.math_problem import MathProblemTransform
from envweave.rewards.quality import CodeQualityTransform
from envweave.rewards.safety import CodeSafetyTransform


def create_math_env_transform(expected_answer: Any = 42, *, tolerance: float | None = None) -> CompositeTransform:
    """1.0 for the right answer, plus what the form of the code earns (+0.1 if short, -0.2 if not Python)."""
    return CompositeTransform([MathProblemTransform(expected_answer, tolerance=tolerance), CodeQualityTransform()])


def create_safe_env_transform(*, penalty: float = -1.0) -> CompositeTransform:
    """The penalty for dangerous code, plus what the form of the code earns (+0.1 if short, -0.2 if not Python)."""
    return CompositeTransform([CodeSafetyTransform(penalty), CodeQualityTransform()])
