"""Rewards computed from observations: rubrics over steps and trajectories, transforms, and the grader of answers."""

from envweave.rewards.grader import Grade, grade
from envweave.rewards.rubric import CompositeTransform, RewardTransform, Rubric, Transform
from envweave.rewards.scores import Score, Scores
from envweave.rewards.transforms import (
    DANGEROUS_PATTERNS,
    CodeQualityTransform,
    CodeSafetyTransform,
    MathProblemTransform,
    create_math_env_transform,
    create_safe_env_transform,
)

__all__ = [
    "DANGEROUS_PATTERNS",
    "CodeQualityTransform",
    "CodeSafetyTransform",
    "CompositeTransform",
    "Grade",
    "MathProblemTransform",
    "RewardTransform",
    "Rubric",
    "Score",
    "Scores",
    "Transform",
    "create_math_env_transform",
    "create_safe_env_transform",
    "grade",
]
