"""Values that environments return, and what becomes of them in a record."""

import json
from collections.abc import Mapping

import numpy as np
import pytest

from envweave.record import Record, Recorder
from envweave.record.encoding import decode, encode
from envweave.record.redaction import Redactor
from envweave.results import StepResult


class BadMapping(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")

    def __len__(self):
        return 1


class BadModel:
    def model_dump(self):
        raise RuntimeError("no")


class Itself:
    def tolist(self):
        return self


class BadKey:
    def __str__(self):
        raise RuntimeError("no")


def cycle():
    found = {}
    found["a"] = found["b"] = [found]
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (BadMapping(), {"not_json": f"{__name__}.BadMapping"}),
        (BadModel(), {"not_json": f"{__name__}.BadModel"}),
        (Itself(), {"not_json": f"{__name__}.Itself"}),
        ({BadKey(): 1}, {f"{__name__}.BadKey": 1}),
        (cycle(), {"a": [{"not_json": "contains itself"}], "b": [{"not_json": "contains itself"}]}),
        (np.array([[1.5, float("nan")]]), [[1.5, None]]),
        (np.float32(0.5), 0.5),
        (np.array([object()]), [{"not_json": "builtins.object"}]),
        ([float("inf"), -float("inf")], [None, None]),
        (frozenset({1}), [1]),
        (b"\xff", "/w=="),
        ({"\ud800": "\udfff"}, {"\\ud800": "\\udfff"}),
        (-(2**70), -(2**70)),
        (range(3), [0, 1, 2]),
    ],
)
def test_no_value_breaks_the_line_that_it_is_in(value, expected):
    assert decode(encode({"obs": value})) == {"obs": expected}


def test_a_value_that_is_there_twice_does_not_contain_itself():
    one = {"\ud800": 1}
    assert decode(encode([one, one])) == [{"\\ud800": 1}, {"\\ud800": 1}]


def test_a_value_that_is_nested_deeply_is_cut():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert b"nested too deeply" in encode(deep)


def test_a_large_observation_is_a_file_and_is_read_again(tmp_path):
    large = {"image": "x" * 100_000_000, "text": "small"}
    with Recorder(tmp_path) as run:
        log = run.episode(env="x")
        log.step(1, StepResult(large, 1.0))
        log.step(2, StepResult(None, 1.0))
        log.end("terminated")
    (segment,) = tmp_path.glob("ep-*.jsonl")
    assert segment.stat().st_size < 2_000
    assert Record(tmp_path)[0].steps[0]["obs"] == large


@pytest.mark.parametrize("secret", ["12345678", '":{"obs":', "12.345678", 'true,"reward'])
def test_a_line_stays_json_whatever_the_secret_is(secret):
    line = encode({"kind": "step", "obs": {"n": 1234567890, "x": 12.345678, "t": f"a {secret} b"}, "reward": 1.0})
    found = Redactor([secret], {}).redact(line)
    assert secret not in json.dumps(decode(found)["obs"])
    assert decode(found)["reward"] == 1.0
    assert decode(found)["obs"]["t"].startswith("a «redacted:")


def test_arguments_that_are_named_like_secrets_are_not_recorded(tmp_path):
    with Recorder(tmp_path) as run:
        log = run.episode(env="x", args={"api_key": "value-one", "model": {"Authorization": "value-two"}, "size": 3})
        log.step("value-one", StepResult("value-two", 1.0))
        log.end("terminated", error="cannot log in with value-one")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"value-one" not in written
    assert b"value-two" not in written
    assert Record(tmp_path)[0].header["args"]["size"] == 3


def test_a_token_of_a_language_and_a_secret_of_a_game_are_no_secrets(tmp_path):
    args = {"eos_token": "<|endoftext|>", "secret": "elephants", "max_tokens": 30}
    with Recorder(tmp_path) as run:
        run.episode(env="x", args=args).end("closed")
    assert Record(tmp_path)[0].header["args"] == args


def test_options_of_the_command_that_are_named_like_secrets_are_hidden():
    words = ["envweave", "run", "--token", "abc", "--arg", "api_key=def", "--token=ghi", "-a", "size=3"]
    found = Redactor([], {}).redact_command(words)
    assert [word for word in found if "redacted" not in word] == ["envweave", "run", "--token", "--arg", "-a", "size=3"]
    assert not any(secret in word for word in found for secret in ("abc", "def", "ghi"))


@pytest.mark.parametrize("end", ['"quoted"', "\\", ""])
def test_a_private_key_that_is_cut_leaves_json(end):
    line = encode({"text": f"-----BEGIN RSA PRIVATE KEY-----\nabc{end}", "next": 1})
    found = decode(Redactor([], {}).redact(line))
    assert "abc" not in found["text"]
    assert found["next"] == 1


def test_passwords_in_urls_are_not_recorded(tmp_path):
    with Recorder(tmp_path) as run:
        run.episode(env="wss://me:hunter22@example.com/?token=abcdef12&size=3").end("closed")
    (episode,) = Record(tmp_path)
    assert "hunter22" not in episode.header["env"]
    assert "abcdef12" not in episode.header["env"]
    assert episode.header["env"].endswith("&size=3")
    assert "hunter22" not in (tmp_path / "run.json").read_text()
