"""Language models: what is sent, what is read, who gets which secret. No network."""

import asyncio
import copy
import json
import pickle
import sys
from email.utils import formatdate

import pytest

from envweave.errors import (
    ClosedError,
    LanguageModelError,
    ModelUnavailableError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from envweave.lm import LanguageModel
from envweave.lm.address import checked_url, is_loopback
from envweave.lm.answer import Answer, Raw, read_answer
from envweave.lm.body import body_for, check_extra
from envweave.lm.pause import LONGEST_PAUSE, pause_before
from envweave.lm.pool import loop
from envweave.lm.secret import Secret
from envweave.lm.variables import DEFAULT_MODEL, HF_ROUTER, settings_from
from envweave.wire.faults import fault_from_data, fault_to_data

TOKEN = "hf_AbCdEfGhIjKlMnOp/+42"
URL = "http://127.0.0.1:1/v1"


def read(body, status=200, *, whole=True, headers=None, token=TOKEN):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(Raw(status, headers or {}, data, whole), model="m", url=URL, secret=Secret(token))


def message(**fields):
    return {"choices": [{"message": fields, "finish_reason": "length"}]}


# what an endpoint answers


def test_an_answer_is_its_text_and_what_it_cost():
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    assert read({**message(content="hi"), "usage": usage}) == Answer("hi", 3, 4)
    assert read(message(content="")) == Answer("")


def test_a_content_in_parts_is_joined_and_parts_without_text_are_passed_over():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, "b", 7]
    assert read(message(content=parts)) == Answer("ab")


def test_a_lone_surrogate_in_an_answer_does_not_break_who_prints_it():
    answer = read(b'{"choices": [{"message": {"content": "a\\ud800b \\ud83d\\ude00"}}]}')
    assert answer.text.encode().decode().startswith("a")
    assert answer.text.endswith("b 😀")


@pytest.mark.parametrize("usage", [None, 7, [], {"prompt_tokens": "9"}, {"prompt_tokens": True}, {"prompt_tokens": -5}])
def test_counts_that_make_no_sense_count_nothing(usage):
    assert read({**message(content="hi"), "usage": usage}) == Answer("hi")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("content", [None, "", []])
def test_an_answer_of_reasoning_only_says_how_to_get_text(field, content):
    error = read(message(**{field: "hmm", "content": content}))
    assert "reasoning only" in error.message
    assert "max_tokens" in error.hint


def test_a_refusal_or_a_filter_is_named():
    assert "I will not" in read(message(content=None, refusal="I will not")).message
    assert "length" in read(message(content=None)).message


NOT_JSON = [b"", b"<html>", b"\xff\xfe", b"[]", b"7", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000]
NO_CHOICE = [{}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": {"0": 1}}, {"choices": [{}]}]
NO_TEXT = [{"choices": [{"message": []}]}, message(), message(content=7), message(content=[{"text": None}])]


@pytest.mark.parametrize("body", [*NOT_JSON, *NO_CHOICE, *NO_TEXT])
def test_nonsense_is_an_error_that_is_not_worth_a_second_try(body):
    error = read(body)
    assert type(error) is LanguageModelError
    assert len(str(error)) < 600


def test_an_answer_that_is_too_long_or_compressed_is_refused():
    assert "longer than" in read(message(content="hi"), whole=False).message
    assert "compresses" in read(b"\x1f\x8b", headers={"content-encoding": "gzip"}).message


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_worth_a_second_try(status):
    assert type(read({"error": {"message": "slow down"}}, status)) is ModelUnavailableError


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 413, 422])
def test_what_will_stay_is_not(status):
    assert type(read({"error": {"message": "no"}}, status)) is LanguageModelError


def test_the_reason_of_a_refusal_is_found_in_the_forms_that_are_in_use():
    usual = [{"error": {"message": "too long"}}, {"error": "too long"}, {"message": "too long"}, {"detail": "too long"}]
    for body in [*usual, {"detail": [{"msg": "too long"}]}, {"error": {"code": 7, "x": "too long"}}, b"too long"]:
        assert "too long" in read(body, 400).message


def test_an_error_in_a_successful_response_is_an_error():
    assert type(read({"error": {"message": "upstream", "code": 502}})) is ModelUnavailableError
    assert type(read({"error": "upstream"})) is LanguageModelError


def test_a_long_reason_is_shortened_and_made_one_line():
    error = read({"error": {"message": "a\nb\x00" + "x" * 10_000}}, 400)
    assert "a b x" in error.message
    assert len(error.message) < 400


# the token


SHAPES = [
    "@",
    "Bearer @",
    '{"error": "@"}',
    '{"error": {"message": "bad @"}}',
    '{"x": "@"}',
    "@" * 500,
    "a" * 290 + "@",
]
REFUSAL = '{"choices": [{"message": {"content": null, "refusal": "@"}}]}'


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 500])
@pytest.mark.parametrize("shape", [*SHAPES, REFUSAL, "a" * 2_390 + "@"])
def test_a_token_that_an_endpoint_repeats_is_in_no_error(status, shape):
    for form in (TOKEN, TOKEN.lower(), TOKEN.replace("/", "%2F").replace("+", "%2B"), TOKEN[:12], TOKEN[5:]):
        error = str(read(shape.replace("@", form).encode(), status))
        assert not any(piece in error for piece in (form[:8], form[4:12], form[-8:]))


def test_hiding_leaves_the_rest_of_a_text_as_it_was():
    assert Secret(TOKEN).hide(f"İ key {TOKEN}, ßo") == "İ key [token], ßo"
    assert Secret("EMPTY").hide("an EMPTY box") == "an [token] box"
    assert Secret("").hide("nothing") == "nothing"


@pytest.mark.parametrize("wrong", ["@\n", "@\r\nx: y", "@ ", "ключ@", "@\x00", "\ud800@"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(wrong):
    token = wrong.replace("@", TOKEN)
    with pytest.raises(UsageError) as caught:
        LanguageModel("m", base_url=URL, token=token)
    assert TOKEN not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_model_shows_no_token_and_is_not_pickled_or_copied():
    model = LanguageModel("m", base_url=URL, token=TOKEN)
    assert TOKEN not in f"{model!r} {model} {vars(model)} {model.aio!r} {vars(model.aio)}"
    for way in (pickle.dumps, copy.deepcopy):
        for thing in (model, model.aio, vars(model)["_secret"], {"nested": [model]}):
            with pytest.raises(UnsupportedError) as caught:
                way(thing)
            assert TOKEN not in str(caught.value)
    with pytest.raises(UnsupportedError):
        copy.copy(model)


@pytest.mark.parametrize("url", [f"http://me:{TOKEN}@host/v1", f"http://host/v1?key={TOKEN}", f"http://host/#{TOKEN}"])
def test_a_base_url_with_a_secret_in_it_is_refused_and_not_shown(url):
    with pytest.raises(UsageError) as caught:
        LanguageModel("m", base_url=url)
    assert TOKEN not in str(caught.value)
    assert TOKEN.lower() not in str(caught.value)


# which URL gets which secret

OPERATOR = {
    "LLM_BASE_URL": "http://llm.local/v1",
    "LLM_API_KEY": "key-of-llm",
    "OPENAI_BASE_URL": "http://openai.local/v1",
    "OPENAI_API_KEY": "key-of-openai",
    "HF_TOKEN": "key-of-hf",
}


def place(hf_token=None, without=(), **more):
    environ = {key: value for key, value in {**OPERATOR, **more}.items() if key not in without}
    settings = settings_from(None, hf_token, environ)
    return settings and (settings["base_url"], settings["token"])


def test_a_callers_token_goes_to_hugging_face_alone_whatever_the_operator_has():
    assert place(hf_token="mine") == (HF_ROUTER, "mine")
    assert place(hf_token="mine", HF_INFERENCE_URL="https://hf.example/v1/") == ("https://hf.example/v1", "mine")


def test_a_key_goes_to_the_url_of_its_own_name():
    assert place() == ("http://llm.local/v1", "key-of-llm")
    assert place(without=["LLM_API_KEY"]) == ("http://llm.local/v1", None)
    assert place(without=["LLM_BASE_URL"]) == ("http://openai.local/v1", "key-of-openai")
    assert place(without=["LLM_BASE_URL", "OPENAI_API_KEY"]) == ("http://openai.local/v1", None)
    assert place(without=["LLM_BASE_URL", "OPENAI_BASE_URL"]) == (HF_ROUTER, "key-of-hf")
    assert place(without=["LLM_BASE_URL", "OPENAI_BASE_URL", "HF_TOKEN"]) is None
    assert place(hf_token="", LLM_BASE_URL="") == ("http://openai.local/v1", "key-of-openai")


def test_a_hugging_face_token_does_not_go_over_plain_http_to_another_machine():
    with pytest.raises(UsageError, match="plain http"):
        place(hf_token="mine", HF_INFERENCE_URL="http://hf.example/v1")
    assert place(hf_token="mine", HF_INFERENCE_URL=URL) == (URL, "mine")


def test_the_model_is_the_callers_else_the_operators_else_a_default():
    assert settings_from("a", None, {**OPERATOR, "LLM_MODEL": "b"})["model"] == "a"
    assert settings_from(None, None, {**OPERATOR, "LLM_MODEL": "b"})["model"] == "b"
    assert LanguageModel.from_environment(environ=OPERATOR).model == DEFAULT_MODEL
    assert LanguageModel.from_environment(environ={}) is None


def test_sampling_is_openenvs_at_hugging_face_and_the_operators_elsewhere():
    assert settings_from(None, "mine", {})["extra"] == {"top_p": 0.95}
    assert settings_from(None, None, OPERATOR)["extra"] == {}
    assert settings_from(None, "mine", {"LLM_EXTRA": '{"top_k": 5}'})["extra"]["top_k"] == 5
    for wrong in ("[]", "{", "7"):
        with pytest.raises(UsageError, match="LLM_EXTRA"):
            settings_from(None, "mine", {"LLM_EXTRA": wrong})


# what is sent


def test_the_body_has_the_fields_that_are_set_and_those_of_extra_body():
    fields = {"max_tokens": None, "temperature": 0.5, **check_extra({"top_p": 1, "extra_body": {"top_k": 3}})}
    body = json.loads(body_for([{"role": "user", "content": "é\ud800"}], "m", fields))
    user = [{"role": "user", "content": "é\ud800"}]
    assert body == {"model": "m", "messages": user, "temperature": 0.5, "top_p": 1, "top_k": 3}


@pytest.mark.parametrize("extra", [{"stream": True}, {"extra_body": {"messages": []}}, {"x": {1}}, {"x": float("nan")}])
def test_extra_fields_that_would_break_a_call_are_refused(extra):
    with pytest.raises(UsageError):
        LanguageModel("m", base_url=URL, extra=extra)


def test_what_is_not_a_conversation_is_refused_before_anything_is_sent():
    model = LanguageModel("m", base_url=URL)
    for wrong in ("hello", {"role": "user"}, ["hello"], [{"role": "user", "content": object()}]):
        with pytest.raises(UsageError):
            model.chat(wrong)
    for call in (lambda: model.query(7), lambda: model.query_batched("abc"), lambda: model.query_batched([None])):
        with pytest.raises(UsageError):
            call()
    assert model.usage.calls == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 0),
        ("timeout", float("nan")),
        ("timeout", "x"),
        ("at_once", 0),
        ("at_once", "x"),
        ("at_once", 1.5),
        ("retries", -1),
        ("retries", None),
        ("retries", True),
        ("max_tokens", "5"),
        ("max_tokens", 0),
        ("temperature", "hot"),
    ],
)
def test_settings_that_no_call_fits_are_refused(name, value):
    with pytest.raises(UsageError) as caught:
        LanguageModel("m", base_url=URL, **{name: value})
    assert caught.value.message == f"{name} is {value!r}"
    assert caught.value.hint


@pytest.mark.parametrize(
    "url", ["", "host/v1", "ftp://host", "http://", "http://h:x/", "http://h\n/v1", "http://[::1", 7]
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(UsageError):
        checked_url(url)


def test_loopback_is_told_from_what_only_looks_like_it():
    assert all(
        map(is_loopback, ["http://localhost:1/v1", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]:80/v1"])
    )
    assert not any(map(is_loopback, ["http://localhost.evil.com", "http://10.0.0.1", "http://127.0.0.1.nip.io"]))


# pauses, the wire, the extra


def test_a_pause_doubles_and_is_never_longer_than_the_bound():
    assert [pause_before(attempt, {}, chance=lambda: 0.0) for attempt in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert pause_before(1, {}, chance=lambda: 1.0) == 0.25
    assert pause_before(10_000, {}, chance=lambda: 0.0) == LONGEST_PAUSE


@pytest.mark.parametrize(
    ("asked", "pause"),
    [("7", 7.0), ("2.5", 2.5), ("999999", LONGEST_PAUSE), (formatdate(4e9, usegmt=True), LONGEST_PAUSE)]
    + [(wrong, 0.5) for wrong in ("-3", "nan", "inf", "soon", "9" * 5_000, "0", "", "٣", formatdate(0, usegmt=True))],
)
def test_the_server_may_ask_for_a_longer_pause(asked, pause):
    assert pause_before(1, {"retry-after": asked}, chance=lambda: 0.0) == pause


@pytest.mark.parametrize("cls", [LanguageModelError, ModelUnavailableError])
def test_its_errors_cross_the_wire(cls):
    error = fault_from_data(fault_to_data(cls("it broke", "mend it")))
    assert type(error) is cls
    assert str(error) == "it broke\nhint: mend it"


def test_without_httpx_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "envweave.lm.endpoint", raising=False)
    with pytest.raises(UnavailableError, match=r"envweave\[client\]"):
        LanguageModel("m", base_url=URL)


def test_a_pool_that_is_made_while_its_model_is_closed_is_closed_too():
    made = []

    class Late(LanguageModel):
        def _new_pool(self):
            self.close()
            made.append(super()._new_pool())
            return made[0]

    with pytest.raises(ClosedError):
        Late("m", base_url=URL).query("hello")
    loop().run(asyncio.sleep(0))
    assert made[0].closed
