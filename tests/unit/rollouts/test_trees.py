"""`ew.rollout` with forks: trees, groups from one prepared state, values; what is left open."""

import asyncio
import threading

import pytest

import envweave as ew
from envweave.errors import UnsupportedError
from envweave.lm.messages import Message
from envweave.lm.reply import Reply

COUNTING = threading.Lock()


class Walk(ew.Environment[int, int]):
    """Four steps, each pays its action. Counts its instances, forks included."""

    open_now = 0
    most_forks = 1000

    def __init__(self) -> None:
        self.steps = 0
        with COUNTING:
            type(self).open_now += 1

    def reset(self, *, seed: int | None = None) -> int:
        self.steps = 0
        return 0

    def step(self, action: int):
        self.steps += 1
        return self.steps, float(action), self.steps == 4, False, {}

    def fork(self) -> "Walk":
        if type(self).open_now > type(self).most_forks:
            raise UnsupportedError("no more forks")
        twin = type(self)()
        twin.steps = self.steps
        return twin

    def close(self) -> None:
        with COUNTING:
            type(self).open_now -= 1


@pytest.fixture
def walk():
    """A class of its own, so that each test counts its own instances."""
    return type("Walk", (Walk,), {"open_now": 0})


def one(observation):
    return 1


@pytest.mark.parametrize("at_once", [1, 2, 3, 64])
def test_trees_finish_with_any_number_of_slots(walk, at_once):
    groups = list(ew.rollout(walk, one, 6, group_size=2, tree=ew.Branch(at=(1, 2), width=(3, 2)), at_once=at_once))
    assert [len(group.scored) for group in groups] == [12] * 6
    assert [[episode.tree for episode in group] for group in groups] == [[0] * 6 + [1] * 6] * 6
    assert walk.open_now == 0


def test_a_slot_is_held_by_what_is_played_only(walk):
    playing, most = 0, 0

    async def policy(observation, request):
        nonlocal playing, most
        playing += 1
        most = max(most, playing)
        await asyncio.sleep(0)
        playing -= 1
        return 1

    list(ew.rollout(walk, policy, 4, tree=ew.Branch(at=1, width=8), at_once=3))
    assert most <= 3


def test_a_tree_may_branch_at_its_root_and_at_each_step(walk):
    (group,) = ew.rollout(walk, one, 1, tree=ew.Branch(at=(0, 1, 2, 3), width=(2, 2, 2, 2)))
    assert group.rewards == [4.0] * 16
    assert len({id(turn) for episode in group for turn in episode.turns}) == 2 + 4 + 8 + 16


def test_a_branch_that_fails_is_one_failed_leaf_and_the_others_are_scored(walk):
    class Breaks(walk):
        def step(self, action: int):
            if self.steps == 3 and action == 7:
                raise OSError("broken")
            return super().step(action)

    draws = iter([1, 1] + [7] + [1] * 100)
    lock = threading.Lock()

    def policy(observation):
        with lock:
            return next(draws) if observation != 3 else (7 if next(sevens) == 1 else 1)

    sevens = iter(range(100))
    (group,) = ew.rollout(Breaks, policy, 1, tree=ew.Branch(at=2, width=4), retries=0)
    assert sorted(episode.end for episode in group) == ["infra_error"] + ["terminated"] * 3
    assert [len(row) for row in group.advantages("tree")] == [len(episode.turns) for episode in group]
    assert Breaks.open_now == 0


def test_a_refused_fork_is_named_and_the_tree_continues(walk):
    walk.most_forks = 3
    played = ew.rollout(walk, one, 1, tree=ew.Branch(at=1, width=8))
    (group,) = played
    assert 2 <= len(group.scored) <= 4
    assert played.summary.refused_forks == {"usage.unsupported": 8 - len(group)}
    assert walk.open_now == 0


def test_a_tree_whose_first_path_takes_too_long_keeps_the_leaves_that_ended(walk):
    async def policy(observation, request):
        if observation >= 2 and asyncio.current_task() is root[0]:
            await asyncio.Event().wait()
        root.append(asyncio.current_task())
        return 1

    root = []
    (group,) = ew.rollout(walk, policy, 1, tree=ew.Branch(at=2, width=4), episode_timeout=0.5, max_dead_groups=None)
    assert [episode.end for episode in group] == ["wall_time"] + ["terminated"] * 3
    assert walk.open_now == 0


def test_forks_of_a_borrowed_handle_are_closed_and_the_handle_stays_open(walk):
    for options in ({"group_size": 3, "start": "fork"}, {"tree": ew.Branch(at=2, width=3)}):
        with ew.make(walk) as env:
            groups = list(ew.rollout(env, one, 3, **options))
            assert [group.rewards for group in groups] == [[4.0] * 3] * 3
            assert walk.open_now == 1
            env.reset()
    assert walk.open_now == 0


def test_members_wait_for_room_if_a_limit_of_forks_is_reached(walk):
    walk.most_forks = 3
    played = ew.rollout(walk, one, 2, group_size=9, start="fork", at_once=9)
    assert [group.rewards for group in played] == [[4.0] * 9] * 2
    assert not played.summary.failures


def test_a_prepared_state_that_fails_is_prepared_again(walk):
    class Fails(walk):
        resets = 0

        def reset(self, *, seed: int | None = None) -> int:
            type(self).resets += 1
            if type(self).resets == 1:
                raise OSError("not yet")
            return super().reset(seed=seed)

    (group,) = ew.rollout(Fails, one, 1, group_size=4, start="fork")
    assert group.rewards == [4.0] * 4
    assert (Fails.resets, Fails.open_now) == (2, 0)
    assert {episode.attempts for episode in group} == {2}


def test_a_prepared_state_that_never_comes_is_given_up(walk):
    released = threading.Event()

    class Hangs(walk):
        def reset(self, *, seed: int | None = None) -> int:
            released.wait()
            return 0

    (group,) = ew.rollout(Hangs, one, 1, group_size=3, start="fork", episode_timeout=0.1, max_dead_groups=None)
    released.set()
    assert [episode.end for episode in group] == ["wall_time"] * 3


def test_the_policies_of_branches_are_asked_while_the_environment_is_forked(walk):
    asked = threading.Event()

    class Slow(walk):
        def fork(self):
            assert asked.wait(30)
            return super().fork()

    async def policy(observation, request):
        if observation == 1:
            calls.append(1)
            if len(calls) == 4:
                asked.set()  # all branches are asked before the first fork is made
        return 1

    calls = []
    (group,) = ew.rollout(Slow, policy, 1, tree=ew.Branch(at=1, width=4))
    assert group.rewards == [4.0] * 4


def test_states_of_attempts_that_failed_and_of_groups_left_out_are_closed(walk):
    class Fails(walk):
        failures = 0

        def step(self, action: int):
            if self.steps == 2 and type(self).failures < 1:
                type(self).failures += 1
                raise OSError("broken")
            return super().step(action)

    (group,) = ew.rollout(Fails, one, 1, group_size=1, keep_states=True)
    assert (len(group.states), Fails.open_now) == (4, 4)
    assert ew.values(group.states, one, k=2) == [4.0, 3.0, 2.0, 1.0]
    group.close()
    assert Fails.open_now == 0
    assert list(ew.rollout(walk, one, 2, group_size=1, keep_states=True, min_group=2)) == []
    assert walk.open_now == 0


def test_values_wait_for_room_if_a_limit_of_forks_is_reached(walk):
    (group,) = ew.rollout(walk, one, 1, group_size=1, keep_states=True)
    walk.most_forks = 5
    assert ew.values(group.states, one, k=8) == [4.0, 3.0, 2.0, 1.0]
    group.close()
    assert walk.open_now == 0


def test_values_leave_out_continuations_that_fail(walk):
    class Breaks(walk):
        def step(self, action: int):
            if action < 0:
                raise OSError("broken")
            return super().step(action)

    (group,) = ew.rollout(Breaks, one, 1, group_size=1, keep_states=True)
    moves = iter([-1, 1, 1, 1, -1])
    assert ew.values(group.states[3:], lambda _: next(moves), k=4, at_once=1) == [1.0]
    assert ew.values(group.states[3:], lambda _: -1, k=2) == [None]
    group.close()


class Duel(ew.Environment):
    """Two agents act together; each is paid its action, three times."""

    agents = ("a", "b")

    def reset(self, *, seed: int | None = None):
        self.steps = 0
        return {"a": 0, "b": 0}, {}

    def step(self, actions):
        self.steps += 1
        over = self.steps == 3
        paid = {agent: float(action) for agent, action in actions.items()}
        return {"a": self.steps, "b": self.steps}, paid, {"__all__": over}, {"__all__": False}, {}


def test_values_of_several_agents_are_means_like_their_reward():
    policies = {"a": lambda _: 1, "b": lambda _: 3}
    (group,) = ew.rollout(Duel, policies, 1, group_size=1, keep_states=True)
    assert group.rewards == [6.0]
    assert ew.values([turn.state for turn in group.episodes[0].turns if turn.state], policies, k=2) == [6.0, 4.0, 2.0]
    group.close()


def test_the_other_agents_are_asked_for_nothing_more_when_one_fails():
    cancelled = []

    async def waits(observation, request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    async def fails(observation, request):
        raise OSError("broken")

    (group,) = ew.rollout(Duel, {"a": waits, "b": fails}, 1, group_size=1, max_dead_groups=None)
    assert (group.episodes[0].end, cancelled) == ("policy_error", [1, 1])


def test_each_drawn_token_of_a_live_tree_is_trained_once(walk):
    drawn = iter(range(1000, 100_000))
    lock = threading.Lock()

    async def policy(conversation):
        last = conversation.last
        prompt = (*last.prompt_token_ids, *last.token_ids, 5) if last else (1, 2)
        with lock:
            ids = (next(drawn), next(drawn))
        return Reply(Message("assistant", "```json\n1\n```"), prompt_token_ids=prompt, token_ids=ids, logprobs=(-1, -2))

    (group,) = ew.rollout(walk, policy, 1, tree=ew.Branch(at=(2, 3), width=(4, 2)))
    for kind in ("tree", "tree-grpo", "mean"):
        samples = group.samples(kind)
        trained = [t for sample in samples for t, mask in zip(sample.tokens, sample.mask, strict=True) if mask]
        assert len(trained) == len(set(trained)) == 2 * (2 + 4 + 8)
        for sample in samples:
            lengths = {len(sample.tokens), len(sample.mask), len(sample.logprobs), len(sample.advantages)}
            assert lengths == {len(sample.turns)}
            assert all(p == 0.0 for p, mask in zip(sample.logprobs, sample.mask, strict=True) if not mask)
