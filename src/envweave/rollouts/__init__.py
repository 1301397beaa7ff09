"""Rollouts: episodes in groups and trees, with exact tokens. `ew.rollout` runs them."""

from envweave.rollouts.base import Conversation, Policy
from envweave.rollouts.episodes import Episode, Failure, Sample, Turn
from envweave.rollouts.groups import Group
from envweave.rollouts.iterator import AsyncRollout, Rollout
from envweave.rollouts.limits import Limits
from envweave.rollouts.policies import ModelPolicy, RandomPolicy, ScriptedPolicy
from envweave.rollouts.summary import Summary
from envweave.rollouts.tokens import TokenPolicy
from envweave.rollouts.trees import Branch

__all__ = [
    "AsyncRollout",
    "Branch",
    "Conversation",
    "Episode",
    "Failure",
    "Group",
    "Limits",
    "ModelPolicy",
    "Policy",
    "RandomPolicy",
    "Rollout",
    "Sample",
    "ScriptedPolicy",
    "Summary",
    "TokenPolicy",
    "Turn",
]
