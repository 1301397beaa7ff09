"""Rollouts on environments that run code: forks, trees, values, servers."""

import os
import re
from pathlib import Path

import pytest

import envweave as ew
from envweave.errors import UnsupportedError
from envweave.lm import LanguageModel
from envweave.rollouts import ScriptedPolicy
from envweave.testing import scripted_model
from envweave.testing.serving import running_server

PREPARE = """
import os, time, uuid, random, tempfile
token, noise, clock = uuid.uuid4().hex, os.urandom(8).hex(), time.time_ns()
generator = iter(range(100)); next(generator)
draws = random.Random(token)
file = open(os.path.join(tempfile.mkdtemp(), "notes"), "w+"); file.write("first"); file.flush()
"""
LOOK = "file.seek(0); print(token, noise, clock, next(generator), draws.random(), file.read())"


def code(text):
    return f"```python\n{text}\n```"


@pytest.fixture(scope="module")
def server():
    with running_server("codeact", "--allow-branching") as served:
        yield served.url


@pytest.fixture(params=["local", "remote"])
def codeact(request):
    return "codeact" if request.param == "local" else request.getfixturevalue("server")


def last_output(episode):
    return episode.messages[-1]["content"]


def test_branches_of_a_tree_are_exact_copies_of_the_live_episode(codeact):
    policy = ScriptedPolicy([code(PREPARE), code(LOOK)])
    (group,) = ew.rollout(codeact, policy, 1, tree=ew.Branch(at=1, width=8), max_turns=2)
    outputs = [last_output(episode) for episode in group]
    assert len(outputs) == 8
    assert len(set(outputs)) == 1
    assert re.search(r"[0-9a-f]{32} [0-9a-f]{16} \d+ 1 0\.\d+ first", outputs[0])


def test_a_tree_shares_turns_and_calls_the_model_once_for_each(codeact):
    calls = []

    async def policy(conversation):
        calls.append(len(conversation.messages))
        return code(f"print({len(calls)})")

    (group,) = ew.rollout(codeact, policy, 1, tree=ew.Branch(at=(2, 4), width=(4, 2)), max_turns=5)
    assert [episode.number for episode in group] == list(range(8))
    assert {len(episode.turns) for episode in group} == {5}
    assert len(calls) == 18  # 2 + 4 * 2 + 8; chains would take 40
    assert len({id(turn) for episode in group for turn in episode.turns}) == 18
    assert group.episodes[0].turns[:2] == group.episodes[7].turns[:2]
    assert [episode.parent for episode in group] == [
        None, (0, 4), (0, 2), (2, 4), (0, 2), (4, 4), (0, 2), (6, 4)
    ]  # fmt: skip
    assert len(group.advantages("tree")) == 8


def test_members_of_a_group_can_be_forks_of_one_reset(codeact):
    played = ew.rollout(codeact, ScriptedPolicy([code("print(1 + 1)")]), 3, group_size=8, start="fork", max_turns=1)
    groups = list(played)
    assert [len(group.scored) for group in groups] == [8, 8, 8]
    assert not played.summary.failures


PREPARED = f"""
from envweave.envs.codeact import CodeAction, CodeActEnvironment

class Prepared(CodeActEnvironment):
    def reset(self, *, seed: int | None = None, episode_id: str | None = None):
        observation = super().reset(seed=seed, episode_id=episode_id)
        self.step(CodeAction(code={PREPARE!r}))
        return observation
"""


@pytest.mark.parametrize("place", ["local", "remote"])
def test_members_that_are_forked_equal_their_parent_in_what_no_seed_decides(place, tmp_path):
    file = tmp_path / "prepared.py"
    file.write_text(PREPARED)

    def outputs(env, start):
        (group,) = ew.rollout(env, ScriptedPolicy([code(LOOK)]), 1, group_size=8, start=start, max_turns=1)
        assert len(group.scored) == 8
        return [last_output(episode) for episode in group]

    def check(env):
        forked = outputs(env, "fork")
        assert len(set(forked)) == 1
        assert re.search(r"[0-9a-f]{32} [0-9a-f]{16} \d+ 1 0\.\d+ first", forked[0])
        assert len(set(outputs(env, "reset"))) == 8

    if place == "local":
        check(f"{file}:Prepared")
    else:
        with running_server(f"{file}:Prepared", "--allow-branching") as server:
            check(server.url)


def test_a_group_of_more_members_than_a_family_may_have_forks_waits_for_room():
    played = ew.rollout("codeact", ScriptedPolicy([code("1")]), 1, group_size=80, at_once=80, start="fork", max_turns=1)
    (group,) = played
    assert len(group.scored) == 80
    assert not played.summary.failures


def test_more_leaves_than_a_family_may_have_forks_are_refused_by_name(codeact):
    played = ew.rollout(codeact, ScriptedPolicy([code("1")]), 1, tree=ew.Branch(at=1, width=70), max_turns=2)
    (group,) = played
    refused = played.summary.refused_forks["usage.unsupported"]
    assert refused >= 5  # 64 and the parent
    assert len(group.scored) + refused == 70


def test_a_limit_of_forks_is_a_named_refusal_and_the_tree_continues():
    options = {"limits": {"forks": 3}}
    played = ew.rollout(
        "codeact", ScriptedPolicy([code("1")]), 1, tree=ew.Branch(at=1, width=8), max_turns=2, env_options=options
    )
    (group,) = played
    assert len(group.scored) == 4
    assert played.summary.refused_forks == {"usage.unsupported": 4}
    assert "refused forks" in str(played.summary)


def test_an_environment_that_cannot_fork_is_refused_by_name(server):
    class Stuck(ew.Environment[int, int]):
        def reset(self, *, seed: int | None = None) -> int:
            self.lock = __import__("threading").Lock()  # cannot be copied
            return 0

        def step(self, action: int):
            return 0, 1.0, False, False, {}

    with pytest.raises(UnsupportedError):
        list(ew.rollout(Stuck, lambda _: 1, 1, start="fork"))
    played = ew.rollout(Stuck, lambda _: 1, 1, tree=ew.Branch(at=1, width=4), max_turns=2)
    assert [len(group) for group in played] == [1]
    assert sum(played.summary.refused_forks.values()) == 3


class Walk(ew.Environment[int, int]):
    """Right pays 1 at the end, if all steps were right; 0.25 for each step."""

    def reset(self, *, seed: int | None = None) -> int:
        self.steps, self.good = 0, True
        return 0

    def step(self, action: int):
        self.steps += 1
        self.good = self.good and action == 1
        done = self.steps == 4
        return self.steps, 0.25 + (1.0 if done and self.good else 0.0), done, False, {}


def test_values_are_the_mean_of_what_is_earned_from_a_state_on():
    moves = iter([1, 1, 0, 0])
    (group,) = ew.rollout(Walk, lambda _: next(moves), 1, group_size=1, keep_states=True)
    states = [turn.state for turn in group.episodes[0].turns]
    assert ew.values(states, lambda _: 1, k=3) == [2.0, 1.75, 1.5, 0.25]
    assert ew.values(states[:1], lambda _: 0, k=1) == [1.0]
    group.close()


def test_a_hosted_model_plays_and_its_usage_is_counted():
    with scripted_model(lambda messages, model: code("print(6 * 7)")) as served:
        model = LanguageModel("tiny", base_url=served.url, max_concurrency=8)
        with model:
            played = ew.rollout("codeact", model, 2, group_size=4, max_turns=2)
            groups = list(played)
    assert sum(episode.usage.calls for group in groups for episode in group) == 16
    assert "42" in last_output(groups[0].episodes[0])


def test_all_environments_of_a_rollout_share_the_server_that_is_started_for_it():
    before = server_processes()
    groups, most = [], 0
    for group in ew.rollout("lineworld", "random", 6, group_size=4, at_once=16, env_options={"backend": "subprocess"}):
        groups.append(group)
        most = max(most, len(server_processes() - before))
    assert [episode.failures for group in groups for episode in group] == [[]] * 24
    assert most == 1
    assert server_processes() == before


def server_processes():
    """The servers that this process has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (path / "stat").read_text(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(status.rpartition(")")[2].split()[1]) == os.getpid() and b"serve" in command:
            found.add(path.name)
    return found
