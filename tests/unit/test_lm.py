"""Language models: what is sent, what is refused, who gets which secret. No network."""

import asyncio
import copy
import pickle
import subprocess
import sys

import pytest

from envweave.errors import (
    ClosedError,
    ContextOverflowError,
    IncompleteStreamError,
    InvalidReplyError,
    LanguageModelError,
    ModelAuthenticationError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from envweave.lm import FunctionCall, LanguageModel, Message, Reply, ReplyDelta, Usage
from envweave.lm.address import checked_url, is_loopback
from envweave.lm.calls import loop
from envweave.lm.chunks import StreamedChoice
from envweave.lm.limits import RateLimit
from envweave.lm.messages import messages_to_data
from envweave.lm.options import make_request
from envweave.lm.secrets import Secret
from envweave.lm.variables import DEFAULT_MODEL, HF_ROUTER, settings_from
from envweave.wire.faults import fault_from_data, fault_to_data

TOKEN = "hf_AbCdEfGhIjKlMnOp/+42"
URL = "http://127.0.0.1:1/v1"
USER = [{"role": "user", "content": "x"}]


# the token


def test_hiding_leaves_the_rest_of_a_text_as_it_was():
    assert Secret(TOKEN).hide(f"İ key {TOKEN}, ßo") == "İ key [token], ßo"
    assert Secret("EMPTY").hide("an EMPTY box") == "an [token] box"
    assert Secret("").hide("nothing") == "nothing"


@pytest.mark.parametrize("wrong", ["@\n", "@\r\nx: y", "@ ", "ключ@", "@\x00", "\ud800@"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(wrong):
    token = wrong.replace("@", TOKEN)
    with pytest.raises(UsageError) as caught:
        LanguageModel("m", base_url=URL, api_key=token)
    assert TOKEN not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_model_shows_no_token_and_is_not_pickled_or_copied():
    model = LanguageModel("m", base_url=URL, api_key=TOKEN)
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
    return settings and (settings["base_url"], settings["api_key"])


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
    assert settings_from(None, "mine", {})["extra_body"] == {"top_p": 0.95}
    assert settings_from(None, None, OPERATOR)["extra_body"] == {}
    assert settings_from(None, "mine", {"LLM_EXTRA": '{"top_k": 5}'})["extra_body"]["top_k"] == 5
    nested = {"LLM_EXTRA": '{"top_k": 5, "extra_body": {"min_p": 0.1}}'}
    assert settings_from(None, "mine", nested)["extra_body"] == {"top_p": 0.95, "top_k": 5, "min_p": 0.1}
    for wrong in ("[]", "{", "7", '{"extra_body": 7}'):
        with pytest.raises(UsageError, match="LLM_EXTRA"):
            settings_from(None, "mine", {"LLM_EXTRA": wrong})


# what is sent


def body(messages=USER, defaults=(), n=1, stream=False, **options):
    return make_request("m", messages, {"timeout": 1.0, **dict(defaults)}, options, n=n, stream=stream).body


def test_the_body_has_the_fields_that_are_set_and_those_of_extra_body():
    defaults = {"max_tokens": None, "temperature": 0.5, "extra_body": {"top_k": 1, "min_p": 0.1}}
    sent = body(defaults=defaults, top_p=1, extra_body={"top_k": 3, "min_p": None})
    assert sent == {"model": "m", "messages": USER, "temperature": 0.5, "top_p": 1, "top_k": 3}


def test_options_of_a_call_replace_those_of_the_model():
    defaults = {"temperature": 1.0, "max_tokens": 100, "stop": "a", "seed": 1}
    sent = body(defaults=defaults, temperature=0, max_tokens=5, stop=["b"], seed=None)
    assert sent == {"model": "m", "messages": USER, "temperature": 0, "max_tokens": 5, "stop": ["b"]}


def test_a_stream_asks_for_its_usage_unless_told_not_to():
    assert body(stream=True)["stream_options"] == {"include_usage": True}
    assert body(stream=True, extra_body={"stream_options": None}) == {"model": "m", "messages": USER, "stream": True}


def test_what_cannot_be_written_in_utf8_is_replaced_before_it_is_sent():
    sent = body([{"role": "user", "content": "é\ud800!"}])["messages"][0]["content"]
    assert sent.encode().decode()[0] == "é"
    assert sent[-1] == "!"


def test_messages_that_are_changed_after_the_call_began_are_sent_as_they_were():
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    sent = body(messages)
    messages[0]["content"][0]["text"] = "b"
    assert sent["messages"][0]["content"][0]["text"] == "a"


def test_an_unknown_option_is_refused_with_the_nearest_one():
    with pytest.raises(UsageError, match="'temprature'") as caught:
        body(temprature=1)
    assert "temperature" in caught.value.hint
    with pytest.raises(UsageError, match="no option 'n'") as caught:
        LanguageModel("m", base_url=URL).reply(USER, n=2)
    assert "replies" in caught.value.hint
    with pytest.raises(UsageError, match="no option 'zzz'") as caught:
        LanguageModel("m", base_url=URL, zzz=1)
    assert "extra_body" in caught.value.hint


WRONG_EXTRA = [{"stream": True}, {"n": 2}, {"messages": []}, {"x": {1}}, {"x": float("nan")}]


@pytest.mark.parametrize("extra", WRONG_EXTRA)
def test_extra_fields_that_would_break_a_call_are_refused(extra):
    with pytest.raises(UsageError):
        LanguageModel("m", base_url=URL, extra_body=extra)


def test_a_message_is_written_in_openais_form_and_fields_that_are_not_set_are_left_out():
    call = FunctionCall("c1", "add", '{"a": 1}')
    written = messages_to_data(
        [
            Message("user", [{"type": "text", "text": "hi"}], name="ann"),
            Message("assistant", tool_calls=(call,), reasoning="hm"),
            Message("tool", "1", tool_call_id="c1"),
            {"role": "developer", "content": "as it is"},
        ]
    )
    function = {"name": "add", "arguments": '{"a": 1}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    assert written == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "hm"},
        {"role": "tool", "content": "1", "tool_call_id": "c1"},
        {"role": "developer", "content": "as it is"},
    ]


def test_arguments_of_a_tool_call_are_parsed_or_refused_by_name():
    assert FunctionCall("1", "add", '{"a": 1}').parse() == {"a": 1}
    assert FunctionCall("1", "now", "").parse() == {}
    for wrong in ("{", "[]", "7", "null", "{" * 100_000, '{"a":' * 100_000):
        with pytest.raises(InvalidReplyError, match="'add'"):
            FunctionCall("1", "add", wrong).parse()


def test_what_is_not_a_conversation_is_refused_before_anything_is_sent():
    model = LanguageModel("m", base_url=URL)
    for wrong in (
        "hello",
        {"role": "user"},
        ["hello"],
        [],
        [{"content": "x"}],
        [{"role": "user", "content": object()}],
    ):
        for ask in (model.chat, model.reply, model.stream):
            with pytest.raises(UsageError):
                ask(wrong)
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
        ("max_concurrency", 0),
        ("max_concurrency", "x"),
        ("max_concurrency", 1.5),
        ("max_retries", -1),
        ("max_retries", None),
        ("max_retries", True),
        ("requests_per_minute", 0),
        ("tokens_per_minute", "many"),
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


# replies


def test_a_reply_without_text_is_a_reply_and_only_chat_refuses_it():
    for reply, said in {
        Reply(Message("assistant", None, tool_calls=(FunctionCall("1", "f", ""),))): "tool calls",
        Reply(Message("assistant", "", reasoning="hmm")): "reasoning",
        Reply(Message("assistant", None), refusal="I will not"): "I will not",
        Reply(Message("assistant", None), "content_filter"): "content_filter",
    }.items():
        assert reply.text == ""
        with pytest.raises(LanguageModelError, match=said):
            reply.require_text()
    assert Reply(Message("assistant", "")).require_text() == ""


def test_only_a_reply_that_was_cut_off_is_truncated():
    assert Reply(Message("assistant", "x"), "length").truncated
    assert not any(Reply(Message("assistant", "x"), reason).truncated for reason in ("stop", "tool_calls", None))


def test_a_reply_is_pickled_and_copied_as_it_is():
    reply = Reply(
        Message("assistant", "x", tool_calls=(FunctionCall("1", "f", "{}"),)), "stop", Usage(1), (1,), (2,), (0.5,)
    )
    assert pickle.loads(pickle.dumps(reply)) == copy.deepcopy(reply) == reply


def test_usage_can_be_added():
    assert Usage(1, 0, 2, 3, 4, 5) + Usage(calls=1, cached_tokens=1) == Usage(2, 0, 2, 3, 5, 5)


def streamed(*deltas, token="", reason="stop"):
    pieces = []
    choice = StreamedChoice(Secret(token), pieces.append)
    for delta in deltas:
        choice.add({"choices": [{"index": 0, "delta": delta}]})
    choice.add({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    whole = choice.completion()
    return pieces, whole and whole["choices"][0]["message"]


def test_the_pieces_of_a_stream_make_the_whole():
    first = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}
    second = {"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}
    pieces, whole = streamed(
        {"role": "assistant", "content": ""},
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": "a"},
        {"tool_calls": [first, second]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    )
    assert [piece.reasoning for piece in pieces[:2]] == ["h", "m"]
    assert pieces[2] == ReplyDelta("a")
    assert pieces[3] == ReplyDelta(tool_call=0, id="c1")
    assert pieces[-1] == ReplyDelta(tool_call=0, arguments="1}")
    assert whole == {
        "content": "a",
        "reasoning": "hm",
        "tool_calls": [
            {"id": "c1", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "c2", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_tool_calls_are_told_apart_in_the_ways_that_endpoints_number_them():
    def call(id, name, arguments, **index):
        return {"tool_calls": [{**index, "id": id, "function": {"name": name, "arguments": arguments}}]}

    whole = [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
    whole += [{"id": "c2", "function": {"name": "f", "arguments": "[]"}}]
    same_index = [call("c1", "f", "{}", index=0), call("c2", "f", "[]", index=0)]
    repeated = [call("c1", "f", "{", index=3), call("c1", "f", "}", index=3), call("c2", "f", "[]", index=5)]
    no_index = [{"tool_calls": [{"id": "c1", **whole[0]}, {"id": "c2", **whole[1]}]}]
    for deltas in (same_index, repeated, no_index):
        pieces, message = streamed(*deltas)
        assert message["tool_calls"] == whole
        assert {piece.tool_call for piece in pieces} == {0, 1}


def test_thoughts_that_come_under_two_names_are_passed_on_once_and_a_refusal_is_no_text():
    pieces, whole = streamed({"reasoning": "hm", "reasoning_content": "hm"}, {"reasoning": "!"}, {"refusal": "no"})
    assert pieces == [ReplyDelta(reasoning="hm"), ReplyDelta(reasoning="!")]
    assert whole == {"reasoning": "hm!", "refusal": "no", "tool_calls": []}


def test_a_stream_without_a_finish_reason_is_not_a_whole():
    assert streamed({"content": "a"}, reason=None)[1] is None


@pytest.mark.parametrize("cut", range(1, len(TOKEN)))
def test_a_token_that_comes_in_two_pieces_is_in_no_piece_of_a_stream(cut):
    pieces, _ = streamed(
        {"content": f"it is {TOKEN[:cut]}"}, {"content": f"{TOKEN[cut:]}, or {TOKEN[:5]}"}, token=TOKEN
    )
    assert "".join(piece.text for piece in pieces) == f"it is [token], or {TOKEN[:5]}"


GARBAGE = [None, 7, [], {}, {"choices": None}, {"choices": [{"delta": {"tool_calls": [7]}}]}]


@pytest.mark.parametrize("chunk", [*GARBAGE, {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": 7}]}}]}])
def test_a_chunk_that_cannot_be_read_is_an_error(chunk):
    with pytest.raises(InvalidReplyError):
        StreamedChoice(Secret(""), lambda delta: None).add(chunk)


# limits


class Clock:
    """A clock that sleeping advances."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def granted(per_minute, *amounts):
    """When each amount is granted, if all are asked for at once."""
    clock = Clock()

    async def ask():
        limit = RateLimit(per_minute, clock=lambda: clock.now, sleep=clock.sleep)
        return [(await limit.take(amount)).when for amount in amounts]

    return asyncio.run(ask())


def test_a_rate_limit_is_for_any_minute():
    assert granted(2, 1, 1, 1, 1, 1) == [0.0, 0.0, 60.0, 60.0, 120.0]
    assert granted(10, 5, 4, 2, 8) == [0.0, 0.0, 60.0, 60.0]
    assert granted(None, 1, 1, 1) == [0.0] * 3


def test_a_call_that_is_larger_than_the_limit_waits_until_it_is_alone():
    assert granted(10, 3, 50, 1) == [0.0, 60.0, 120.0]


def test_tokens_that_were_reserved_and_not_used_are_given_back():
    clock = Clock()

    async def ask():
        limit = RateLimit(10, clock=lambda: clock.now, sleep=clock.sleep)
        (await limit.take(10)).amount = 2
        await limit.take(8)
        assert clock.pauses == []
        await limit.take(1)
        assert clock.pauses == [60.0]

    asyncio.run(ask())


# the wire, the extra


PERMANENT = [LanguageModelError, ContextOverflowError, ModelAuthenticationError, InvalidReplyError]
PASSING = [ModelUnavailableError, RateLimitError, ModelTimeoutError, IncompleteStreamError]


@pytest.mark.parametrize("cls", [*PERMANENT, *PASSING])
def test_its_errors_cross_the_wire_and_are_pickled(cls):
    error = cls("it broke", "mend it")
    for other in (fault_from_data(fault_to_data(error)), pickle.loads(pickle.dumps(error))):
        assert type(other) is cls
        assert str(other) == "it broke\nhint: mend it"
        assert other.retryable == (cls in PASSING)
    assert isinstance(error, LanguageModelError)
    assert isinstance(error, ModelUnavailableError) == (cls in PASSING)


def test_without_openai_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "envweave.lm.client", raising=False)
    with pytest.raises(UnavailableError, match=r"envweave\[lm\]"):
        LanguageModel("m", base_url=URL)


def test_a_model_that_was_not_asked_has_loaded_neither_openai_nor_an_http_library():
    code = f"import sys, envweave.lm; model = envweave.lm.LanguageModel('m', base_url={URL!r})\n"
    code += "print([name for name in ('openai', 'httpx', 'httpx2', 'pydantic') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_calls_that_begin_while_their_model_is_closed_are_ended():
    class Late(LanguageModel):
        def _new_client(self):
            self.close()
            return super()._new_client()

    model = Late("m", base_url=URL)
    with pytest.raises(ClosedError):
        model.query("hello")
    loop().run(asyncio.sleep(0))
    assert model._calls.closed
