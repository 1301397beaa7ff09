"""A plan goes anywhere and is built there."""

import multiprocessing
import pickle
import subprocess
import sys

import pytest

import envweave as ew
from envweave.envs.lineworld import LineWorldEnv
from envweave.errors import EnvNotFoundError, UsageError
from envweave.plan import EnvPlan

PLANS = {
    "a name": lambda: EnvPlan(ew.spec("lineworld"), {"size": 3}),
    "a class": lambda: EnvPlan(ew.spec(LineWorldEnv), {"size": 3}),
    "a place": lambda: EnvPlan(ew.spec("pkg://envweave.envs.lineworld:LineWorldEnv"), {"size": 3}, autoreset=True),
    "limits": lambda: EnvPlan(ew.spec("lineworld?size=3").limited(5.0, 7)),
}


def played(plan):
    """The episode that a plan's environment gives with one seed."""
    backend = plan.open("copy#0")
    said = [backend.call("reset", {"seed": 4, "episode_id": "e"})]
    said += [backend.call("step", {"move": 1}) for _ in range(2)]
    backend.call("close")
    return said


@pytest.mark.parametrize("source", PLANS)
def test_a_plan_that_was_pickled_is_equal_and_builds_an_equal_environment(source):
    plan = PLANS[source]()
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert played(copy) == played(plan)


def test_a_plan_builds_the_same_in_another_process():
    plan = PLANS["a name"]()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(played, (plan,)) == played(plan)


def test_each_build_is_a_new_environment():
    plan = EnvPlan(ew.spec("lineworld"))
    assert plan.build() is not plan.build()


def test_nothing_is_called_before_it_is_built():
    built = []

    def factory(*, size):
        built.append(size)
        return LineWorldEnv(size=size)

    plan = EnvPlan(ew.spec(factory), {"size": 4}).check()
    assert built == []
    plan.build()
    assert built == [4]


def test_nothing_is_imported_before_it_is_checked_or_built():
    script = (
        "import sys, pickle\n"
        "from envweave.core.spec import EnvSpec\n"
        "from envweave.plan import EnvPlan\n"
        "plan = EnvPlan(EnvSpec(id='lineworld', factory='envweave.envs.lineworld:LineWorldEnv'), {'size': 3})\n"
        "plan = pickle.loads(pickle.dumps(plan))\n"
        "assert 'envweave.envs.lineworld' not in sys.modules\n"
        "plan.check()\n"
        "assert 'envweave.envs.lineworld' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_factory_that_is_not_there_is_found_out_when_it_is_needed():
    plan = EnvPlan(ew.EnvSpec(id="gone", factory="envweave.envs.lineworld:Gone"))
    for use in (plan.check, plan.build):
        with pytest.raises((EnvNotFoundError, UsageError), match="Gone"):
            use()


def test_a_wrong_argument_is_refused_by_the_check():
    with pytest.raises(UsageError, match="colour"):
        EnvPlan(ew.spec("lineworld"), {"colour": "red"}).check()
