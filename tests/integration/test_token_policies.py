"""Token policies with a real model, and with the real Tinker SDK on a server of its API."""

import asyncio
import importlib.util
import json
import math
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import envweave as ew
from envweave.errors import ContextOverflowError, UsageError
from envweave.rollouts import Sample, TokenPolicy
from support.need import need
from support.until import until

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    need("transformers", "torch or transformers is not installed")

import torch

from envweave.adapters.transformers import TransformersSampler
from support.tiny_model import tiny_model, tiny_tokenizer

WORDS = "pkg://envweave.examples.word_game:WordGame"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def model(tokenizer):
    return tiny_model(tokenizer)


def trainer_logprobs(model, tokens):
    """The logarithm of the probability of each token but the first, in one pass without a cache."""
    with torch.no_grad():
        scores = model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
    return [0.0, *scores.gather(-1, torch.tensor(tokens[1:]).unsqueeze(-1)).squeeze(-1).tolist()]


def differences(model, sample):
    found = trainer_logprobs(model, sample.tokens)
    return [abs(a - b) for a, b, own in zip(found, sample.logprobs, sample.mask, strict=True) if own]


# A local model.


def test_log_probabilities_of_a_local_model_are_those_of_a_trainer(model, tokenizer):
    policy = TokenPolicy(TransformersSampler(model), tokenizer, max_tokens=20)
    episodes = [episode for group in ew.rollout(WORDS, policy, 4, group_size=8, max_turns=5) for episode in group]
    samples = [sample for episode in episodes for sample in episode.samples()]
    assert len(episodes) == len(samples) == 32
    found = [value for sample in samples for value in differences(model, sample)]
    assert len(found) >= 900
    assert max(found) <= 1e-5
    assert all(len(episode.turns) > 1 for episode in episodes)


def test_defaults_of_the_model_do_not_change_what_is_drawn(model, tokenizer):
    model.generation_config.update(repetition_penalty=1.8, top_k=2, temperature=0.1, no_repeat_ngram_size=2, min_p=0.5)
    sampler = TransformersSampler(model)
    drawn = asyncio.run(sampler.sample([5, 6, 7], max_tokens=200, stop=[]))
    assert len(set(drawn.token_ids)) > 20
    pairs = list(zip(drawn.token_ids, drawn.token_ids[1:], strict=False))
    sample = Sample([5, 6, 7, *drawn.token_ids], [0] * 3 + [1] * 200, [0.0] * 3 + list(drawn.logprobs))
    assert max(differences(model, sample)) <= 1e-5
    assert len(pairs) == 199


def test_episodes_that_wait_are_drawn_in_one_batch_with_limits_of_their_own(model):
    sampler = TransformersSampler(model)
    sizes = []
    generate = model.generate

    def counting(**options):
        sizes.append(len(options["input_ids"]))
        return generate(**options)

    model.generate = counting

    async def draw():
        return await asyncio.gather(*(sampler.sample(range(2, 3 + n), max_tokens=n, stop=[]) for n in range(1, 21)))

    drawn = asyncio.run(draw())
    assert [len(one.token_ids) for one in drawn] == list(range(1, 21))
    assert sizes == [20]
    for n, one in enumerate(drawn, 1):
        sample = Sample([*range(2, 3 + n), *one.token_ids], [0] * (n + 1) + [1] * n, [0.0] * (n + 1) + [*one.logprobs])
        assert max(differences(model, sample)) <= 1e-5


def test_a_reply_ends_at_its_own_stop_token(model):
    sampler = TransformersSampler(model, temperature=0)
    plain = asyncio.run(sampler.sample([5, 6], max_tokens=30, stop=[]))
    stop = plain.token_ids[4]
    ended = asyncio.run(sampler.sample([5, 6], max_tokens=30, stop=[stop]))
    assert ended.token_ids == plain.token_ids[: plain.token_ids.index(stop) + 1]
    assert len(ended.logprobs) == len(ended.token_ids)


def test_the_model_is_not_trained_while_it_draws_and_each_draw_has_its_version(model):
    sampler = TransformersSampler(model, version=1)
    began, go_on = threading.Event(), threading.Event()
    generate = model.generate

    def slow(**options):
        began.set()
        go_on.wait(30)
        return generate(**options)

    model.generate = slow
    updated = []

    def train():
        began.wait(30)
        with sampler.updating(2):
            updated.append(go_on.is_set())

    trainer = threading.Thread(target=train)
    trainer.start()

    async def draw():
        first = asyncio.ensure_future(sampler.sample([5, 6], max_tokens=3, stop=[]))
        await asyncio.to_thread(began.wait, 30)
        assert not updated
        go_on.set()
        drawn = await first
        await asyncio.to_thread(trainer.join, 30)
        return drawn, await sampler.sample([5, 6], max_tokens=3, stop=[])

    first, second = asyncio.run(draw())
    assert updated == [True]
    assert (first.policy_version, second.policy_version) == (1, 2)
    assert not model.eval().training


def test_a_prompt_beyond_the_context_ends_the_episode_by_name(tokenizer):
    model = tiny_model(tokenizer, context=150)
    policy = TokenPolicy(TransformersSampler(model), tokenizer, max_tokens=40)
    (group,) = ew.rollout(WORDS, policy, [4], group_size=2)
    assert {episode.end for episode in group} == {"context_overflow"}
    assert [episode.reward for episode in group] == [0.0, 0.0]
    with pytest.raises(ContextOverflowError, match="200 tokens, the context of the model 150"):
        asyncio.run(TransformersSampler(model).sample([5] * 200, max_tokens=1, stop=[]))


def test_a_model_that_fails_fails_the_attempts_and_the_next_draw_works(model, tokenizer):
    sampler = TransformersSampler(model)
    generate, failures = model.generate, []

    def failing(**options):
        failures.append(1)
        if len(failures) == 1:
            raise RuntimeError("out of memory")
        return generate(**options)

    model.generate = failing
    rollout = ew.rollout(WORDS, TokenPolicy(sampler, tokenizer, max_tokens=4), [4], group_size=3, max_turns=2)
    (group,) = rollout
    assert [episode.reward for episode in group] == [0.0] * 3
    assert {failure.message for episode in group for failure in episode.failures} == {"RuntimeError: out of memory"}


def test_a_caller_that_gives_up_does_not_disturb_the_others(model):
    sampler = TransformersSampler(model)

    async def draw():
        given_up = asyncio.ensure_future(sampler.sample([5], max_tokens=5, stop=[]))
        other = asyncio.ensure_future(sampler.sample([6], max_tokens=5, stop=[]))
        await asyncio.sleep(0)
        given_up.cancel()
        return await other

    assert len(asyncio.run(draw()).token_ids) == 5
    assert len(asyncio.run(sampler.sample([6], max_tokens=5, stop=[])).token_ids) == 5  # on another loop


def test_options_out_of_range_are_refused(model):
    for options in ({"temperature": -1}, {"top_p": 0}, {"top_k": -1}, {"max_batch": 0}):
        with pytest.raises(UsageError, match="not in range"):
            TransformersSampler(model, **options)


# Tinker.

SERVER = Path(__file__).parents[3] / "shared/prototypes/tinker/mini_tinker_server.py"


@pytest.fixture(scope="module")
def tinker_url(tokenizer, tmp_path_factory):
    for package in ("tinker", "peft", "fastapi"):
        if importlib.util.find_spec(package) is None:
            need("tinker", f"{package} is not installed")
    if not SERVER.exists():
        need("tinker", "there is no server of Tinker's API beside this checkout")
    folder = tmp_path_factory.mktemp("model")
    tiny_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), str(folder), str(port)], env={"THREADS": "1"})
    try:
        until(lambda: process.poll() is not None or answers(port), 60)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}", str(folder)
    finally:
        process.kill()
        process.wait()


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_with_tinker_each_episode_is_one_sequence_whose_probabilities_the_trainer_confirms(tinker_url):
    script = Path(__file__).with_name("tinker_client.py")
    url, model = tinker_url
    run = subprocess.run([sys.executable, str(script), url, model, WORDS], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["failures"] == []
    assert found["sequences"] == [1] * 18
    assert found["drawn"] >= 900
    assert found["difference"] <= 1e-5
    assert found["difference_of_unshifted_targets"] > 0.1
    assert found["versions_after_training"] == [1]
    assert found["difference_after_training"] <= 1e-5
    assert found["difference_to_weights_before"] > 1e-3


def test_samples_without_probabilities_or_advantages_are_not_trained_on():
    if importlib.util.find_spec("tinker") is None:
        need("tinker", "tinker is not installed")
    from envweave.adapters.tinker import to_datum

    with pytest.raises(UsageError, match="no advantages"):
        to_datum(Sample([1, 2], [0, 1], [0.0, -1.0]))
    with pytest.raises(UsageError, match="without log-probabilities"):
        to_datum(Sample([1, 2], [0, 1], [0.0, math.nan], advantages=[0.0, 1.0]))
