"""`ew.rollout` on environments of this process."""

import asyncio
import gc
import math
import os
import random
import signal
import threading
import weakref

import pytest

import envweave as ew
from envweave.errors import EnvNotFoundError, LanguageModelError, RolloutError, UsageError
from envweave.lm.messages import Message
from envweave.lm.reply import Reply, Usage
from envweave.rollouts import ScriptedPolicy

COUNTING = threading.Lock()


class Guess(ew.Environment[int, int]):
    """Say the number that you are told."""

    open_now = 0
    made = 0

    def __init__(self, length: int = 1) -> None:
        self.length = length
        with COUNTING:
            type(self).open_now += 1
            type(self).made += 1

    def reset(self, *, seed: int | None = None) -> int:
        self.number, self.left = (seed or 0) % 10, self.length
        return self.number

    def step(self, action: int):
        self.left -= 1
        return self.number, float(action == self.number), self.left == 0, False, {}

    def close(self) -> None:
        with COUNTING:
            type(self).open_now -= 1


@pytest.fixture
def guess():
    """A class of its own, so that each test counts its own environments."""
    return type("Guess", (Guess,), {"open_now": 0, "made": 0})


class Quiz(ew.Environment[int, int]):
    """An environment with tasks."""

    tasks = ew.Tasks([{"id": name, "prompt": f"say {name}", "answer": n} for n, name in enumerate("abcdef")])

    def reset(self, *, task: ew.Task, seed: int | None = None) -> int:
        self.task = task
        return 0

    def step(self, action: int):
        return 0, float(action == self.task["answer"]), True, False, {}


def right(observation):
    return observation


def test_groups_are_complete_and_members_begin_alike(guess):
    played = ew.rollout(guess, right, 5, group_size=4, seed=7)
    groups = sorted(played, key=lambda group: group.number)
    assert [len(group) for group in groups] == [4] * 5
    assert [group.seed for group in groups] == [7, 8, 9, 10, 11]
    assert all(group.same_start and group.rewards == [1.0] * 4 for group in groups)
    assert [episode.number for episode in groups[0]] == [0, 1, 2, 3]
    assert (guess.open_now, played.summary.episodes, played.summary.scored, played.summary.running) == (0, 20, 20, 0)


def test_environments_are_used_again_and_at_most_at_once_exist(guess):
    list(ew.rollout(guess, right, 30, group_size=2, at_once=3))
    assert guess.made <= 3


def test_the_tasks_of_the_environment_are_played_in_order_or_shuffled_by_the_seed():
    def order(**options):
        groups = ew.rollout(Quiz, lambda _: 0, group_size=1, at_once=1, **options)
        return "".join(group.task_id for group in groups)

    assert order() == "abcdef"
    assert order(tasks=["c", 0]) == "ca"
    assert order(tasks=8) == "abcdefab"
    assert order(tasks=["a"], epochs=3) == "aaa"
    assert order(shuffle=True, seed=1) == order(shuffle=True, seed=1) != order(shuffle=True, seed=2)
    assert sorted(order(shuffle=True, seed=1)) == list("abcdef")


def test_environments_without_tasks_take_seeds_and_options(guess):
    groups = list(ew.rollout(guess, right, [3, {"seed": 5}], group_size=1, at_once=1))
    assert [group.episodes[0].turns[0].observation for group in groups] == [3, 5]
    with pytest.raises(UsageError, match="cannot begin with 'x'"):
        list(ew.rollout(guess, right, ["x"]))


def test_an_open_handle_is_used_one_episode_at_a_time_and_stays_open(guess):
    with ew.make(guess) as env:
        (group,) = ew.rollout(env, right, group_size=3)
        assert group.rewards == [1.0] * 3
        assert env.reset(seed=4).obs == 4


def test_functions_that_return_a_handle_or_an_environment_are_called(guess):
    for function in (guess, lambda: guess(length=2), lambda: ew.make(guess, length=2)):
        (group,) = ew.rollout(function, right, group_size=2)
        assert group.mean >= 1.0
    assert guess.open_now == 0
    (group,) = ew.rollout(guess, right, group_size=2, env_options={"length": 3})
    assert group.mean == 3.0


def test_a_failed_attempt_is_repeated_on_a_fresh_environment(guess):
    class Fails(guess):
        failures = 0

        def step(self, action):
            if type(self).failures < 1:
                type(self).failures += 1
                raise OSError("broken")
            return super().step(action)

    (group,) = ew.rollout(Fails, right, group_size=1)
    (episode,) = group
    assert (episode.reward, episode.attempts, episode.end) == (1.0, 2, "terminated")
    assert [failure.cause for failure in episode.failures] == ["step: env"]
    assert "broken" in episode.failures[0].message
    assert (Fails.made, Fails.open_now) == (2, 0)


def test_an_episode_that_keeps_failing_has_no_reward_and_is_in_no_mean(guess):
    class Odd(guess):
        def step(self, action):
            if self.number % 2:
                raise OSError("odd")
            return super().step(action)

    played = ew.rollout(Odd, right, [1, 2], group_size=2, retries=2)
    bad, good = sorted(played, key=lambda group: group.seed)
    assert (bad.rewards, bad.mean, good.mean) == ([None, None], None, 1.0)
    assert {(episode.end, episode.attempts) for episode in bad} == {("infra_error", 3)}
    assert bad.episodes[0].error.cause == "step: env"
    assert (played.summary.failures["step: env"], played.summary.mean_reward) == (6, 1.0)


def test_every_episode_is_accounted_for_if_resets_steps_and_the_model_fail(guess):
    draws = random.Random(5)
    lock = threading.Lock()

    def unlucky(share):
        with lock:
            return draws.random() < share

    class Faulty(guess):
        def reset(self, *, seed=None):
            if unlucky(0.03):
                raise OSError("reset")
            return super().reset(seed=seed)

        def step(self, action):
            if unlucky(0.05):
                raise OSError("step")
            return super().step(action)

    def policy(observation):
        if unlucky(0.02):
            raise LanguageModelError("overloaded")
        return observation if observation % 2 else random.Random(observation).randrange(10)

    played = ew.rollout(Faulty, policy, 64, group_size=8)
    groups = list(played)
    episodes = [episode for group in groups for episode in group]
    assert len(episodes) == 512
    assert len({(episode.group, episode.number) for episode in episodes}) == 512
    scored = [episode for episode in episodes if episode.reward is not None]
    assert len(scored) >= 0.95 * 512
    assert all(episode.error is not None for episode in episodes if episode.reward is None)
    for group in groups:
        for kind in ("mean", "grpo", "rloo"):
            assert abs(math.fsum(value or 0.0 for value in group.advantages(kind))) <= 1e-9
    assert sum(played.summary.failures.values()) == sum(len(episode.failures) for episode in episodes)
    assert Faulty.open_now == 0


def test_groups_with_too_few_scored_episodes_are_left_out_and_counted(guess):
    class Odd(guess):
        def step(self, action):
            if self.number % 2:
                raise OSError("odd")
            return super().step(action)

    played = ew.rollout(Odd, right, [1, 2, 3, 4], group_size=2, min_group=2)
    assert sorted(group.seed for group in played) == [2, 4]
    assert (played.summary.groups, played.summary.dropped_groups) == (4, 2)


def test_a_rollout_of_which_nothing_succeeds_stops_and_says_why(guess):
    def lost(observation):
        raise KeyError("lost")

    with pytest.raises(RolloutError, match=r"first 4 groups.*policy: KeyError.*lost"):
        list(ew.rollout(guess, lost, 1000, group_size=2))
    assert guess.made < 300
    assert guess.open_now == 0
    played = ew.rollout(guess, lost, 6, group_size=1, max_dead_groups=None)
    assert len(list(played)) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"group_size": 0},
        {"at_once": 0},
        {"at_once": 1.5},
        {"retries": -1},
        {"start": "spoon"},
        {"max_turns": 0},
        {"episode_timeout": -1.0},
        {"epochs": 0},
        {"min_group": -1},
    ],
)
def test_wrong_options_are_refused_at_once(guess, options):
    with pytest.raises(UsageError):
        ew.rollout(guess, right, 1, **options)


def test_mistakes_of_the_caller_are_raised():
    with pytest.raises(EnvNotFoundError):
        list(ew.rollout("no-such-environment", "random"))
    with pytest.raises(UsageError, match="colour"):
        list(ew.rollout("counter", "random", env_options={"colour": "red"}))
    with pytest.raises(UsageError, match="not a policy"):
        ew.rollout("counter", 3)
    with pytest.raises(UsageError, match="is missing"):
        ew.values([None], "random")


def test_an_episode_ends_at_max_turns_with_what_it_earned(guess):
    (group,) = ew.rollout(guess, right, group_size=1, max_turns=2, env_options={"length": 5})
    assert (group.episodes[0].end, group.episodes[0].reward, group.episodes[0].steps) == ("max_turns", 2.0, 2)


class Unscored(Guess):
    """Scored at its end only."""

    def step(self, action: int):
        self.left -= 1
        done = self.left == 0
        return self.number, 1.0 if done else None, done, False, {}


def test_rewards_at_the_end_are_the_reward_of_the_episode_and_a_limit_before_it_gives_the_unfinished_reward():
    (group,) = ew.rollout(lambda: Unscored(3), right, group_size=1)
    assert group.rewards == [1.0]
    (group,) = ew.rollout(lambda: Unscored(3), right, group_size=1, max_turns=2)
    assert group.rewards == [0.0]
    (group,) = ew.rollout(lambda: Unscored(3), right, group_size=1, max_turns=2, unfinished_reward=None)
    assert group.rewards == [None]


def test_an_episode_whose_last_step_was_not_scored_has_no_reward():
    class Lost(Guess):
        def step(self, action: int):
            self.left -= 1
            return self.number, None if self.left == 0 else 0.5, self.left == 0, False, {}

    (group,) = ew.rollout(lambda: Lost(2), right, group_size=1)
    assert (group.rewards, group.episodes[0].end) == ([None], "terminated")


def test_a_step_that_hangs_fails_by_its_timeout_and_the_next_attempt_succeeds(guess):
    released = threading.Event()

    class Hangs(guess):
        hung = False

        def step(self, action):
            if not type(self).hung:
                type(self).hung = True
                released.wait()
            return super().step(action)

    (group,) = ew.rollout(Hangs, right, group_size=1, step_timeout=0.2)
    released.set()
    (episode,) = group
    assert (episode.reward, [failure.stage for failure in episode.failures]) == (1.0, ["step"])


def test_an_episode_that_takes_too_long_is_not_scored_and_not_repeated(guess):
    async def forever(observation, request):
        await asyncio.Event().wait()

    (group,) = ew.rollout(guess, forever, group_size=2, episode_timeout=0.1, max_dead_groups=None)
    assert [(episode.end, episode.attempts, episode.reward) for episode in group] == [("wall_time", 1, None)] * 2


def talking(reply="```json\n1\n```", tokens=5):
    async def policy(conversation):
        policy.limits.append(conversation.max_tokens)
        return Reply(Message("assistant", reply), usage=Usage(calls=1, completion_tokens=tokens))

    policy.limits = []
    return policy


def test_token_budgets_bound_replies_and_episodes(guess):
    policy = talking()
    (group,) = ew.rollout(guess, policy, group_size=1, max_tokens=8, max_episode_tokens=12, env_options={"length": 50})
    assert policy.limits == [8, 7, 2]
    assert group.episodes[0].end == "max_tokens"
    assert group.episodes[0].usage.completion_tokens == 15


def test_a_conversation_that_is_too_long_for_the_model_ends_the_episode_as_the_model_caused_it(guess):
    async def policy(conversation):
        raise ew.errors.ContextOverflowError("too long")

    (group,) = ew.rollout(guess, policy, group_size=1)
    assert (group.episodes[0].end, group.rewards, group.episodes[0].attempts) == ("context_overflow", [0.0], 1)


def test_a_chat_policy_is_given_the_conversation_and_the_episode_keeps_it():
    seen = []

    async def policy(conversation):
        seen.append(([message["role"] for message in conversation.messages], len(conversation.new)))
        return ScriptedPolicy(['{"move": 1}']) and "right"

    (group,) = ew.rollout("lineworld", policy, group_size=1, max_turns=2)
    (episode,) = group
    roles = [message["role"] for message in episode.messages]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert seen[0][1] == len(seen[0][0])
    assert seen[1][1] == 1
    assert episode.turns[1].messages == [episode.messages[-3]]


def test_agents_have_policies_rewards_and_turns_of_their_own():
    def take(observation):
        heap = next(number for number, left in enumerate(observation.heaps) if left)
        return {"heap": heap, "count": 1}

    (group,) = ew.rollout("nim", {"alice": take, "bob": take}, group_size=2)
    episode = group.episodes[0]
    assert set(episode.returns) == {"alice", "bob"}
    assert sorted(episode.returns.values()) == [-1.0, 1.0]
    assert {turn.agent_id for turn in episode.turns} == {"alice", "bob"}
    with pytest.raises(UsageError, match="no policy for the agent"):
        list(ew.rollout("nim", {"carol": len, "dave": len}))


def test_groups_that_do_not_begin_alike_are_named(guess):
    class Unequal(guess):
        def reset(self, *, seed=None):
            super().reset(seed=seed)
            return id(object()) + next(counter)

    counter = iter(range(0, 10_000, 100))
    played = ew.rollout(Unequal, lambda _: 1, group_size=4)
    assert [group.same_start for group in played] == [False]
    assert played.summary.unequal_groups == 1


def test_the_version_of_the_policy_is_recorded_for_each_draw(guess):
    versions = iter([1, 1, 2])

    async def policy(conversation):
        return Reply(Message("assistant", "```json\n1\n```"), policy_version=next(versions))

    (group,) = ew.rollout(guess, policy, group_size=1, max_turns=3, env_options={"length": 5})
    assert group.episodes[0].versions == (1, 2)


def test_episodes_wait_for_a_slow_caller(guess):
    played = ew.rollout(guess, right, 10_000, group_size=1, at_once=4)
    next(played)
    for _ in range(200):
        next(played)
    assert played.summary.groups <= 201 + 4 + 4
    played.close()
    assert guess.open_now == 0


def test_memory_is_bounded_over_many_episodes(guess):
    alive = weakref.WeakSet()
    most = 0
    for group in ew.rollout(guess, right, 500, group_size=4, at_once=16):
        alive.update(group.episodes)
        del group
        most = max(most, len(alive))
    gc.collect()
    assert most < 200
    assert len(alive) <= 4


def test_closing_or_dropping_a_rollout_leaves_nothing_running(guess):
    with ew.rollout(guess, right, 1000, group_size=2) as played:
        next(played)
    assert guess.open_now == 0
    assert len(list(played)) < 1000
    never = ew.rollout(guess, right, 5)
    never.close()
    assert list(never) == []
    dropped = ew.rollout(guess, right, 1000, group_size=2)
    next(dropped)
    runner = dropped._runner
    del dropped
    gc.collect()
    runner.join()
    assert guess.open_now == 0


def test_ctrl_c_keeps_complete_groups_and_leaves_nothing_running(guess):
    ready = threading.Event()
    hold = threading.Event()

    def policy(observation):
        if observation >= 3:
            ready.set()
            hold.wait(30)
        return observation

    def interrupt():
        ready.wait()
        hold.set()
        os.kill(os.getpid(), signal.SIGINT)

    class Endless(guess):
        def step(self, action):
            return self.number, 1.0, action < 3, False, {}

    played = ew.rollout(Endless, policy, 8, group_size=1, at_once=1)
    threading.Thread(target=interrupt).start()
    got = []
    with pytest.raises(KeyboardInterrupt):
        got.extend(iter(played))
    got.extend(played)
    assert sorted(group.seed for group in got) == [0, 1, 2]
    assert (Endless.open_now, played.summary.running) == (0, 0)


def test_the_awaited_form_gives_the_same_groups(guess):
    async def main():
        played = ew.aio.rollout(guess, right, 3, group_size=2)
        groups = [group async for group in played]
        assert played.summary.groups == 3
        async with ew.aio.rollout(guess, right, 100, group_size=2) as some:
            await anext(some)
        return groups

    groups = asyncio.run(main())
    assert sorted(group.seed for group in groups) == [0, 1, 2]
    assert guess.open_now == 0


def test_the_summary_is_a_table_of_what_was_done(guess):
    played = ew.rollout(guess, right, 2, group_size=2)
    list(played)
    text = str(played.summary)
    assert "episodes     4 done, 4 scored" in text
    assert "mean reward  1" in text
    assert "4 terminated" in text


def test_of_two_rollouts_at_once_one_shows_a_table(guess, capsys):
    first = ew.rollout(guess, right, 3, group_size=2, progress=True)
    second = ew.rollout(guess, right, 3, group_size=2, progress=True)
    next(first), next(second)
    list(second), list(first)
    assert capsys.readouterr().err.count("6 done, 6 scored") == 1
    list(ew.rollout(guess, right, 3, group_size=2, progress=True))
    assert "6 done, 6 scored" in capsys.readouterr().err
