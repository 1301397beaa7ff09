"""Several transforms, one after the other, each with its own contribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from envweave.errors import BadResultError, UsageError
from envweave.rewards.account import ENV, continued, credited, failed, settled
from envweave.rewards.base import RewardTransform, Transform, checked_name, snake_case
from envweave.rewards.observation import changed, metadata_of
from envweave.rewards.rubric import Rubric
from envweave.rewards.scores import Scores

Member = Callable[[Any], Any]


class CompositeTransform(Transform):
    """Apply transforms in order; the reward is the sum of what they contribute.

    A member is a `RewardTransform`, a `Rubric`, or any callable from observation to observation; what such a one
    changes of the reward is its contribution. Names come from the members, or are given: `{"bonus": add_bonus}`. A
    member that raises leaves no trace but a contribution of None with the reason; the others still run, and the total
    is None.
    """

    def __init__(self, transforms: Iterable[Member] | Mapping[str, Member]) -> None:
        """Raises `UsageError` for a member that cannot be called, and for two of one name."""
        if isinstance(transforms, Mapping):
            members = [_under(name, member) for name, member in transforms.items()]
        elif isinstance(transforms, Iterable):
            members = [(_name_of(member), member) for member in transforms]
        else:
            raise UsageError(f"{transforms!r} is not a list of transforms", "write CompositeTransform([first, second])")
        taken = {ENV}
        for name, member in members:
            if not callable(member) or isinstance(member, type):
                raise UsageError(f"transform {name!r} is {member!r}", "give an object that takes an observation")
            if isinstance(member, CompositeTransform | Rubric):
                continue  # its parts have names of their own
            if checked_name(name) in taken:
                raise UsageError(f"the name {name!r} is taken", "give the transforms as a dict by name")
            taken.add(name)
        self.transforms: tuple[Member, ...] = tuple(member for _, member in members)
        self._members = tuple(members)

    def __call__(self, observation: Any) -> Any:
        observation = settled(observation, ENV)
        for name, member in self._members:
            if isinstance(member, RewardTransform) and type(member).__call__ is RewardTransform.__call__:
                scores = Scores()
                scores.add(name, member.score, observation)
                observation = credited(observation, scores)
            else:
                observation = _followed(member, name, observation)
        return observation


def _followed(member: Member, name: str, observation: Any) -> Any:
    """What a member made of a copy: one that changes what it is given changes nothing of ours."""
    try:
        found = member(changed(observation, metadata=metadata_of(observation)))
        if found is None:
            raise BadResultError("it returned None", "return the observation")
        return settled(continued(found, observation), name)
    except Exception as error:  # somebody's code: its failure is data
        return failed(observation, name, error)


def _under(name: str, member: Member) -> tuple[str, Member]:
    if isinstance(member, CompositeTransform):
        raise UsageError(
            f"{name!r} is a CompositeTransform, whose members have names", "put it in a list, or use a Rubric"
        )
    return name, Rubric({name: member}) if isinstance(member, Rubric) else member


def _name_of(member: Any) -> str:
    if isinstance(member, Transform):
        return member.name
    name = getattr(member, "__name__", type(member).__name__)
    return snake_case(name.strip("<>"))
