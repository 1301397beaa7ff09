"""Handles with a clock of the test's own."""

from typing import Any

from envweave.core.handle import EnvHandle
from envweave.core.local import open_local
from envweave.core.spec import EnvSpec
from envweave.plan import InstancePlan, prepared


def adapt(
    env: Any, *, clock: Any, id: str = "", autoreset: bool = False, **limits: Any
) -> EnvHandle[Any, Any, Any, Any]:
    """`ew.adapt`, with deadlines that count by `clock`."""
    spec = EnvSpec(id=id or type(env).__name__, **limits)
    plan = InstancePlan(spec, autoreset=autoreset, clock=clock, instances=[prepared(env, "this is")])
    return EnvHandle(open_local(plan, spec.id), spec)
