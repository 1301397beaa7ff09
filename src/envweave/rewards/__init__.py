"""Rewards computed from observations: transforms, and rubrics over steps and trajectories."""

from envweave.rewards.base import RewardTransform, Transform
from envweave.rewards.composite import CompositeTransform
from envweave.rewards.math_problem import MathProblemTransform
from envweave.rewards.presets import create_math_env_transform, create_safe_env_transform
from envweave.rewards.quality import CodeQualityTransform
from envweave.rewards.rubric import Rubric
from envweave.rewards.safety import DANGEROUS_PATTERNS, CodeSafetyTransform
from envweave.rewards.scores import Score, Scores

__all__ = [
    "DANGEROUS_PATTERNS",
    "CodeQualityTransform",
    "CodeSafetyTransform",
    "CompositeTransform",
    "MathProblemTransform",
    "RewardTransform",
    "Rubric",
    "Score",
    "Scores",
    "Transform",
    "create_math_env_transform",
    "create_safe_env_transform",
]
