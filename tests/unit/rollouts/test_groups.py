"""Advantages, and the token sequences of groups and trees."""

import math

import pytest

from envweave.errors import UsageError
from envweave.lm.messages import Message
from envweave.lm.reply import Reply
from envweave.rollouts import Branch, Episode, Group, Turn


def episode(reward, number=0, turns=None, tree=0, end="terminated"):
    found = Episode(number=number, end=end, tree=tree)
    found.turns = turns if turns is not None else [Turn(None, 0)]
    if reward is not None:
        found.totals[None] = reward
    return found


def group(*rewards):
    return Group(0, None, 0, [episode(reward, number) for number, reward in enumerate(rewards)])


def drawn(prompt, ids, logprob=-0.5):
    message = Message("assistant", "x")
    return Reply(message, prompt_token_ids=tuple(prompt), token_ids=tuple(ids), logprobs=(logprob,) * len(ids))


def turn(prompt, ids, number=0):
    return Turn(None, number, reply=drawn(prompt, ids))


@pytest.mark.parametrize("kind", ["mean", "grpo", "rloo"])
def test_advantages_sum_to_zero_and_leave_out_what_was_not_scored(kind):
    found = group(1.0, None, 0.0, 0.25, None, 1e6).advantages(kind)
    assert [value is None for value in found] == [False, True, False, False, True, False]
    assert abs(math.fsum(value for value in found if value is not None)) <= 1e-9


def test_advantages_are_those_of_the_papers():
    some = group(1.0, 0.0, 0.5)
    assert some.advantages("mean") == [0.5, -0.5, 0.0]
    assert some.advantages("rloo") == [0.75, -0.75, 0.0]
    assert some.advantages("grpo") == [0.5 / 0.5001, -0.5 / 0.5001, 0.0]
    assert group(2.0, 2.0).advantages("grpo") == [0.0, 0.0]


@pytest.mark.parametrize("rewards", [(), (1.0,), (1.0, None), (None, None)])
@pytest.mark.parametrize("kind", ["mean", "grpo", "rloo"])
def test_fewer_than_two_scored_episodes_have_no_advantages(kind, rewards):
    assert group(*rewards).advantages(kind) == [None] * len(rewards)


def test_an_unknown_kind_of_advantages_is_refused():
    with pytest.raises(UsageError, match="no advantages named 'ppo'"):
        group(1.0, 0.0).advantages("ppo")


def test_the_mean_of_a_group_leaves_out_what_was_not_scored():
    assert group(1.0, None, 0.0).mean == 0.5
    assert group(None).mean is None


def test_advantages_of_one_agent_compare_its_rewards():
    first, second = Episode(end="terminated"), Episode(end="terminated")
    first.totals, second.totals = {"a": 1.0, "b": 3.0}, {"a": 0.0, "b": 5.0}
    some = Group(0, None, 0, [first, second])
    assert some.advantages(agent_id="a") == [0.5, -0.5]
    assert some.advantages(agent_id="b") == [-1.0, 1.0]
    assert some.advantages() == [-0.25, 0.25]


def test_turns_whose_prompts_continue_are_one_sequence():
    one = episode(1.0, turns=[turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5], [6])])
    (sample,) = one.samples()
    assert sample.tokens == [1, 2, 3, 4, 5, 6]
    assert sample.mask == [0, 0, 1, 1, 0, 1]
    assert sample.logprobs == [0, 0, -0.5, -0.5, 0, -0.5]
    assert sample.turns == [-1, -1, 0, 0, -1, 1]


def test_a_prompt_that_rewrites_history_starts_a_new_sequence():
    one = episode(1.0, turns=[turn([1, 2], [3, 4]), turn([1, 2, 3, 9, 5], [6])])
    assert [sample.tokens for sample in one.samples()] == [[1, 2, 3, 4], [1, 2, 3, 9, 5, 6]]


def test_a_prompt_that_is_shorter_than_what_was_drawn_starts_a_new_sequence():
    one = episode(1.0, turns=[turn([1, 2], [3, 4]), turn([1, 2], [5])])
    assert [sample.tokens for sample in one.samples()] == [[1, 2, 3, 4], [1, 2, 5]]


def test_replies_without_tokens_give_no_samples_and_without_logprobs_nan():
    message = Message("assistant", "x")
    assert episode(1.0, turns=[Turn(None, 0, reply=Reply(message))]).samples() == []
    (sample,) = episode(
        1.0, turns=[Turn(None, 0, reply=Reply(message, prompt_token_ids=(1,), token_ids=(2,)))]
    ).samples()
    assert sample.tokens == [1, 2]
    assert math.isnan(sample.logprobs[1])


def test_samples_carry_the_advantage_of_their_episode_where_the_mask_is_one():
    some = Group(0, None, 0, [episode(1.0, 0, [turn([1], [2])]), episode(0.0, 1, [turn([1], [3, 4])])])
    first, second = some.samples("mean")
    assert (first.advantages, second.advantages) == ([0, 0.5], [0, -0.5, -0.5])
    assert [first.episode, second.episode] == [0, 1]


def test_episodes_without_advantages_give_no_samples():
    some = Group(0, None, 0, [episode(1.0, 0, [turn([1], [2])]), episode(None, 1, [turn([1], [3])], end="infra_error")])
    assert some.samples() == []


def tree(rewards=(1.0, 0.0, 0.0, 0.0)):
    """Two turns in common, then two branches of two leaves each; one token for each turn."""
    root = [turn([1], [2], 0), turn([1, 2, 3], [4], 1)]
    left, right = turn([1, 2, 3, 4, 5], [6], 2), turn([1, 2, 3, 4, 5], [7], 2)
    leaves = [
        [*root, middle, turn([*middle.reply.prompt_token_ids, *middle.reply.token_ids, 8], [9 + place], 3)]
        for place, middle in enumerate((left, left, right, right))
    ]
    return Group(0, None, 0, [episode(reward, n, leaves[n]) for n, reward in enumerate(rewards)])


def test_tree_advantages_compare_a_turn_with_the_root_and_its_parent():
    found = tree().advantages("tree")
    assert found[0] == [0.0, 0.0, 0.5, 1.25]  # V = 0.25, 0.25, 0.5, 1.0
    assert found[1] == [0.0, 0.0, 0.5, -0.75]  # … 0.0
    assert found[2] == [0.0, 0.0, -0.5, -0.25]


def test_a_failed_leaf_is_in_no_mean_and_a_parent_with_one_leaf_gives_no_local_term():
    some = tree((1.0, None, 0.0, 0.0))
    some.episodes[1].end = "infra_error"
    found = some.advantages("tree")
    third = 1 / 3
    assert found[1] == [None] * 4
    assert found[0][2] == pytest.approx(2 * (1 - third))
    assert found[0][3] == pytest.approx(2 * (1 - third))  # the same leaves below as the turn before
    assert found[2][3] == pytest.approx(-third)


def test_each_drawn_token_of_a_tree_is_trained_once():
    samples = tree().samples("tree")
    trained = [token for sample in samples for token, mask in zip(sample.tokens, sample.mask, strict=True) if mask]
    assert sorted(trained) == [2, 4, 6, 7, 9, 10, 11, 12]
    assert len(samples) == 4
    everything = [token for one in tree() for sample in one.samples() for token in sample.tokens]
    assert len(everything) > len(trained)


def test_tree_grpo_normalizes_within_and_over_trees():
    some = tree()
    found = some.advantages("tree-grpo")
    assert abs(math.fsum(advantages[-1] for advantages in found)) < 1e-9
    assert found[0][0] == pytest.approx(0.0)  # all leaves are below it
    assert found[0][-1] > found[0][2] > 0 > found[1][-1]


def test_branches_are_checked():
    assert Branch(at=(2, 4), width=(4, 2)).leaves == 8
    assert Branch(at=2, width=4) == Branch(at=(2,), width=(4,))
    for at, width in (((1, 2), (2,)), ((), ()), ((2, 1), (2, 2)), ((-1,), (2,)), ((1,), (0,)), ((1.5,), (2,))):
        with pytest.raises(UsageError):
            Branch(at=at, width=width)


def test_tree_grpo_by_hand_for_two_trees_with_a_failed_leaf():
    first, second = Turn(None, 0), Turn(None, 0)
    leaves = [
        episode(1.0, 0, [first, Turn(None, 1)], tree=0),
        episode(0.0, 1, [first, Turn(None, 1)], tree=0),
        episode(None, 2, [first, Turn(None, 1)], tree=0, end="infra_error"),
        episode(0.0, 3, [second, Turn(None, 1)], tree=1),
        episode(0.0, 4, [second, Turn(None, 1)], tree=1),
    ]
    found = Group(0, None, 0, leaves).advantages("tree-grpo")
    within, over = math.sqrt(0.5) + 1e-4, 0.5 + 1e-4  # deviations of (1, 0) and of (1, 0, 0, 0)
    win, loss, other = 0.5 / within + 0.75 / over, -0.5 / within - 0.25 / over, -0.25 / over
    assert found[0] == pytest.approx([(win + loss) / 2, win])
    assert found[1] == pytest.approx([(win + loss) / 2, loss])
    assert found[2] == [None, None]
    assert found[3] == found[4] == pytest.approx([other, other])


def test_a_turn_that_leaves_share_has_the_mean_of_their_advantages_with_kinds_that_are_not_for_trees():
    samples = tree((1.0, 0.0, 0.0, 1.0)).samples("mean")
    assert samples[0].advantages == [0, 0.0, 0, 0.0, 0, 0.0, 0, 0.5]
    assert samples[1].advantages[-1] == -0.5
    assert [sum(sample.mask) for sample in samples] == [4, 1, 2, 1]
