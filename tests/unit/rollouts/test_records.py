"""`record=…` of `ew.rollout`."""

import pytest

import envweave as ew
from envweave.errors import UsageError
from envweave.lm.messages import Message
from envweave.lm.reply import Reply, Usage
from envweave.record import Record
from envweave.rollouts.records import recorded_episodes


class Talk(ew.Environment):
    """Three turns, each worth half a point; the resets of odd seeds fail if asked."""

    def __init__(self, fragile: bool = False) -> None:
        self.fragile = fragile

    def reset(self, *, seed: int | None = None):
        if self.fragile and (seed or 0) % 2:
            raise RuntimeError("no reset")
        self.turn = 0
        return f"hello {seed}"

    def step(self, action: str):
        self.turn += 1
        return f"turn {self.turn}", 0.5, self.turn == 3, False, {"rewards": {"form": 0.25, "content": 0.25}}


class Model:
    """Says the same, and which tokens it drew."""

    calls = 0

    async def reply(self, conversation):
        self.calls += 1
        return Reply(
            Message("assistant", "yes"), "stop", Usage(1, 0, 3, 1), (1, 2, 3), (4,), (-0.5,), model="m",
            policy_version=7,
        )  # fmt: skip


def play(path, *, model=None, **options):
    return list(ew.rollout(Talk, model or Model(), 3, group_size=2, record=path, **options))


def test_episodes_of_a_rollout_have_replies_tokens_rewards_and_versions(tmp_path):
    play(tmp_path)
    record = Record(tmp_path)
    assert len(record) == 6
    assert {(e.header["group"], e.header["sample"], e.header["seed"]) for e in record} == {
        (group, sample, group) for group in range(3) for sample in range(2)
    }
    events = record[0].events
    assert [event["kind"] for event in events] == ["episode", "reset", *["model", "step"] * 3, "end"]
    assert events[2]["tokens"] == {"prompt_ids": [1, 2, 3], "completion_ids": [4], "logprobs": [-0.5]}
    assert (events[2]["policy_version"], events[2]["usage"]["prompt"]) == (7, 3)
    assert events[3]["rewards"] == {"form": 0.25, "content": 0.25}
    assert (events[-1]["return"], events[-1]["reason"]) == ({"agent": 1.5}, "terminated")
    assert events[-1]["usage"]["prompt_tokens"] == 9
    assert record[0].header["policy"] == {"name": "Model"}


def test_failures_are_recorded_by_name_and_played_again(tmp_path):
    groups = play(tmp_path, env_options={"fragile": True}, retries=1, max_dead_groups=None)
    failed = [episode for group in groups for episode in group if episode.failed]
    assert len(failed) == 2
    ends = [(e.header["group"], e.header["attempt"], e.end["reason"], e.returns) for e in Record(tmp_path)]
    assert ends.count((1, 1, failed[0].end, {})) == ends.count((1, 2, failed[0].end, {})) == 2
    errors = [e.end["error"] for e in Record(tmp_path) if "error" in e.end]
    assert all("no reset" in error["message"] and error["stage"] == "reset" for error in errors)
    model = Model()
    again = play(tmp_path, resume=True, model=model)
    assert [len(group) for group in again] == [2, 2, 2]
    assert model.calls == 2 * 3  # only what had failed
    assert all(episode.reward == 1.5 for group in again for episode in group)


def test_an_episode_that_is_read_again_is_the_same(tmp_path):
    played = {(e.group, e.number): e for group in play(tmp_path) for e in group}
    read = recorded_episodes(tmp_path)
    assert sorted(read) == sorted(played)
    for key, episode in played.items():
        twin = read[key]
        assert [turn.reply for turn in twin.turns] == [turn.reply for turn in episode.turns]
        assert [turn.reward for turn in twin.turns] == [turn.reward for turn in episode.turns]
        assert [turn.rewards for turn in twin.turns] == [turn.rewards for turn in episode.turns]
        assert (twin.end, twin.seed, twin.reward, twin.usage) == (episode.end, episode.seed, 1.5, episode.usage)
        assert [s.tokens for s in twin.samples()] == [s.tokens for s in episode.samples()]


def test_branches_of_a_tree_have_their_parents(tmp_path):
    list(ew.rollout(Talk, Model(), 1, group_size=1, tree=ew.Branch(at=(1, 2), width=(2, 2)), record=tmp_path))
    record = Record(tmp_path)
    assert len(record) == 4
    (root,) = [episode for episode in record if "parent" not in episode.header]
    points = sorted(e.header["parent"]["n"] for e in record if "parent" in e.header)
    assert points == [1, 2, 2]
    for episode in record:
        before = episode.header.get("parent", {"n": 0})["n"]
        assert [step["n"] for step in episode.steps] == list(range(before + 1, 4))
        assert episode.returns == {"agent": 1.5}
    assert len(root.steps) == 3


def test_a_group_that_starts_with_forks_is_recorded_from_the_reset(tmp_path):
    play(tmp_path, start="fork")
    record = Record(tmp_path)
    assert len(record) == 6
    assert all([event["kind"] for event in e.events][:2] == ["episode", "reset"] for e in record)


def test_resume_without_a_folder_is_refused():
    with pytest.raises(UsageError, match="resume needs record="):
        list(ew.rollout(Talk, Model(), 1, resume=True))
