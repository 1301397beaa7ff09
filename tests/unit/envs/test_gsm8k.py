"""GSM8K as free text and as multiple choice."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import envweave as ew
from envweave.envs.gsm8k.mcq import choice_tasks
from envweave.errors import InvalidActionError, UsageError
from support.need import need

DATA = Path(__file__).parents[4] / "shared/data/gsm8k"


@pytest.fixture(scope="module")
def data():
    """The whole data set, which is not part of the project."""
    if not DATA.is_dir():
        need("gsm8k", "the data set is not beside this checkout")
    return str(DATA)


def problems(tmp_path, *answers, split="train"):
    rows = [{"question": f"question {n}", "answer": f"so it is\n#### {value}"} for n, value in enumerate(answers)]
    path = tmp_path / f"{split}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


# Free text.


@pytest.mark.parametrize(
    ("text", "expected", "verdict"),
    [
        ("#### 1,234", "1,234", "right"),
        ("That makes 1234.\n#### 1234", "1,234", "right"),
        ("#### $1,234.00", "1,234", "right"),
        ("\\boxed{1{,}234}", "1,234", "right"),
        ("He pays $1,234.", "1,234", "right"),
        ("First 17, then 1234 eggs are left.", "1,234", "right"),
        ("First 1234, then 17 eggs are left.", "1,234", "wrong"),
        ("The answer is 1234. I checked it 3 times.", "1,234", "right"),
        ("it is −5 degrees", "-5", "right"),
        ("it is 5 degrees", "-5", "wrong"),
        ("25%", "25", "right"),
        ("so 3/4", "0.75", "right"),
        ("so 0.75", "3/4", "right"),
        (".5", "0.5", "right"),
        ("#### 12345", "1,234", "wrong"),
        ("#### 1,234.5", "1,234", "wrong"),
        ("#### about", "1,234", "invalid"),
        ("I do not know.", "1,234", "invalid"),
        ("", "1,234", "invalid"),
        ("9" * 30_000, "1,234", "wrong"),
        ("#### " + "(" * 30_000, "1,234", "invalid"),
    ],
)
def test_answers_are_read_and_compared_by_value(tmp_path, text, expected, verdict):
    with ew.make("gsm8k", dataset_path=problems(tmp_path, expected), format_reward=0, invalid_reward=-1) as env:
        env.reset()
        result = env.step({"text": text})
        assert result.reward == {"right": 1.0, "wrong": 0.0, "invalid": -1.0}[verdict]
        assert result.info["invalid_answer"] == (verdict == "invalid")
        assert result.terminated


@pytest.mark.parametrize(
    ("text", "form"),
    [("#### 5", 0.1), ("so\n\\boxed{5}.", 0.1), ("#### 5\nor so", 0.0), ("it is 5", 0.0), ("####", 0.0)],
)
def test_the_form_of_an_answer_is_a_named_part_of_the_reward(tmp_path, text, form):
    with ew.make("gsm8k", dataset_path=problems(tmp_path, 7)) as env:
        env.reset()
        result = env.step({"text": text})
        assert result.info["rewards"] == {"correct": 0.0, "format": form}
        assert result.reward == form


def test_gold_earns_all_and_the_prompt_has_no_answer(data):
    with ew.make("gsm8k", dataset_path=data, split="test", format_reward=0) as env:
        assert len(env.tasks) == 1319
        for index in range(0, 1319, 13):
            result = env.reset(task=index)
            assert "####" not in result.obs.prompt
            assert env.step(env.unwrapped.gold()).reward == 1.0


def test_every_answer_of_the_data_set_can_be_compared(data):
    from envweave.envs.gsm8k.problems import gsm8k_tasks
    from envweave.rewards.grader import grade

    for split, size in {"train": 7473, "test": 1319}.items():
        tasks = gsm8k_tasks(data, split)
        assert [grade(task["answer"], task["answer"]).verdict for task in tasks] == ["right"] * size


def test_the_sample_that_ships_needs_no_download():
    with ew.make("gsm8k", dataset_path="sample", chat=True) as env:
        told = env.reset(task="sample-0").obs.messages
        assert [message["role"] for message in told] == ["system", "user"]
        assert env.tasks.splits == {"train": 32}
        result = env.step(env.unwrapped.env.gold().text)
        assert (result.reward, result.info["task_id"]) == (1.1, "sample-0")


def test_order_and_number_of_problems_follow_from_the_seed(tmp_path):
    folder = problems(tmp_path, *range(20))

    def ids(**options):
        with ew.make("gsm8k", dataset_path=folder, **options) as env:
            return env.tasks.ids

    assert ids(seed=1) == ids(seed=1) != ids(seed=2)
    assert ids(seed=1, max_examples=5) == ids(seed=1)[:5]
    for bad in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="max_examples"):
            ids(max_examples=bad)


def test_a_missing_file_and_an_unknown_split_are_named(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        ew.make("gsm8k", dataset_path=tmp_path / "nothing.jsonl").reset()
    with pytest.raises(UsageError, match="no tasks in the split 'dev'"):
        ew.make("gsm8k", dataset_path="sample", split="dev").reset()


def test_offline_the_error_says_what_to_do(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(ew.errors.UnavailableError, match="cannot be loaded") as caught:
        ew.make("gsm8k").reset()
    assert "dataset_path='sample'" in caught.value.hint


# Multiple choice.


def test_four_problems_share_their_options_and_have_an_answer_each(data):
    for split in ("train", "test"):
        tasks = list(choice_tasks(data, split, 0))
        sets = [tasks[place : place + 4] for place in range(0, len(tasks), 4)]
        for members in sets:
            assert len({task["set"] for task in members}) == 1
            assert len({tuple(sorted(task["options"])) for task in members}) == 1
            assert len({task["options"]["ABCD".index(task["answer"])] for task in members}) == 4
            assert all(task.split == split for task in members)
        assert len({task.id for task in tasks}) == len(tasks) >= (7400 if split == "train" else 1300)
        assert max(Counter(task["answer"] for task in tasks).values()) < 0.27 * len(tasks)


def features(options):
    """What can be seen of options: rank, size, gaps, roundness."""
    numbers = np.array([float(option) for option in options])
    logs = np.sign(numbers) * np.log1p(np.abs(numbers))
    ranks = np.eye(4)[np.argsort(np.argsort(numbers))]
    rows = np.sort(logs)
    context = np.tile(np.concatenate([rows, np.diff(rows)]), (4, 1))
    own = np.stack([logs, numbers % 10 == 0, numbers % 5 == 0, numbers % 2 == 0, logs - logs.mean()], axis=1)
    cross = (ranks[:, :, None] * np.diff(rows)[None, None, :]).reshape(4, -1)
    return np.concatenate([ranks, own, context * ranks[:, :1], cross], axis=1)


def guesser_accuracy(train, test):
    """Of a softmax regression on what can be seen of the options."""

    def table(rows):
        return np.array([features(options) for options, _ in rows]), np.array([place for _, place in rows])

    seen, right = table(train)
    mean, scale = seen.mean((0, 1)), seen.std((0, 1)) + 1e-6
    seen = (seen - mean) / scale
    weights = np.zeros(seen.shape[-1])
    for _ in range(300):
        scores = seen @ weights
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        gradient = (seen * (np.eye(4)[right] - chances)[..., None]).sum(1).mean(0)
        weights += 0.5 * gradient
    seen, right = table(test)
    return float((((seen - mean) / scale @ weights).argmax(1) == right).mean())


def test_a_trained_guesser_that_sees_only_the_options_is_right_once_in_four(data):
    def rows(split):
        return [(task["options"], "ABCD".index(task["answer"])) for task in choice_tasks(data, split, 0)]

    def naive(split):
        """Options as they are usually made: the answer and three numbers near it."""
        draw = np.random.default_rng(0)
        made = []
        for task in choice_tasks(data, split, 0):
            answer = float(task["options"]["ABCD".index(task["answer"])])
            options = [answer, *(answer + draw.choice(np.r_[-15:0, 1:16], 3, replace=False))]
            place = int(draw.integers(4))
            options[0], options[place] = options[place], options[0]
            made.append((options, place))
        return made

    assert guesser_accuracy(rows("train"), rows("test")) <= 0.27
    assert guesser_accuracy(naive("train"), naive("test")) > 0.4  # it is able to learn


def test_choices_are_read_from_replies():
    cases = {
        "Answer: B": 1.0,
        "The answer is (b).": 1.0,
        "A is wrong, so the answer is **B**": 1.0,
        "I first thought answer: A.\nAnswer: B": 1.0,
        "\\boxed{B}": 1.0,
        "B": 1.0,
        "Some thoughts.\n\n(B)": 1.0,
        "Answer: A": 0.0,
    }
    task = {"prompt": "?", "options": ["1", "2", "3", "4"], "answer": "B"}
    with ew.make("gsm8k-mcq", dataset_path="sample", chat={"nudges": 0}) as env:
        for reply, reward in cases.items():
            env.reset(task=task)
            assert (reply, env.step(reply).reward) == (reply, reward)
        for reply in ("", "no idea", "E", "Answer: 2", "It can't be a good answer."):
            env.reset(task=task)
            result = env.step(reply)
            assert (reply, result.reward, result.info.get("unreadable")) == (reply, 0.0, "the reply has no letter")


def test_only_letters_are_choices():
    with ew.make("gsm8k-mcq", dataset_path="sample") as env:
        env.reset()
        for bad in ("E", "b", 1, None):
            with pytest.raises(InvalidActionError):
                env.step({"choice": bad})
        assert env.step(env.unwrapped.gold()).reward == 1.0


def test_sets_are_never_cut(tmp_path):
    with ew.make("gsm8k-mcq", dataset_path="sample", max_examples=11) as env:
        assert len(env.tasks) == 8
    with pytest.raises(UsageError, match="a set has four"):
        ew.make("gsm8k-mcq", dataset_path="sample", max_examples=3).reset()
    with pytest.raises(UsageError, match="no four problems with different answers"):
        ew.make("gsm8k-mcq", dataset_path=problems(tmp_path, 1, 2, 3, 3)).reset()
