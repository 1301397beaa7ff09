"""What endpoints answer, over real sockets: replies, refusals and nonsense."""

import json

import pytest

from envweave.errors import (
    ContextOverflowError,
    InvalidReplyError,
    LanguageModelError,
    ModelAuthenticationError,
    ModelUnavailableError,
    RateLimitError,
)
from envweave.lm import FunctionCall, LanguageModel, Message, Reply, Usage
from envweave.testing import scripted_model
from envweave.testing.misbehaviour import Failure

TOKEN = "hf_AbCdEfGhIjKlMnOp/+42"
USER = [{"role": "user", "content": "a b c"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


def model_at(server, **options):
    return LanguageModel("m", base_url=server.url, **{"api_key": TOKEN, "max_retries": 0, **options})


def heard(answer, status=200, headers=None, **options):
    """The reply, or the error that was raised instead."""
    data = answer if isinstance(answer, str | bytes) else json.dumps(answer)
    with scripted_model([Failure(status, data, headers or {})]) as server, model_at(server) as model:
        try:
            return model.reply(USER, **options)
        except LanguageModelError as error:
            return error


def choice(**message):
    return {"choices": [{"message": message, "finish_reason": "length"}]}


# replies


def test_a_reply_is_its_text_its_end_and_what_it_cost():
    used = Usage(1, 0, 7, 5, 3, 2)
    said = Reply(Message("assistant", "hi there", reasoning="greet"), "length", used, model="served")
    with scripted_model([said]) as server, model_at(server) as model:
        reply = model.reply(USER)
    assert reply == said
    assert (reply.text, reply.reasoning, reply.truncated, reply.tool_calls) == ("hi there", "greet", True, ())
    assert model.usage == used


def test_a_reply_of_tool_calls_only_is_a_reply_and_can_be_sent_back():
    calls = (FunctionCall("c1", "add", '{"a": 1, "b": 2}'), FunctionCall("c2", "add", "{oops"))
    said = Reply(Message("assistant", None, tool_calls=calls), "tool_calls")
    with scripted_model([said, "3"]) as server, model_at(server) as model:
        reply = model.reply(USER, tools=TOOLS, tool_choice="auto")
        assert (reply.tool_calls, reply.text, reply.finish_reason) == (calls, "", "tool_calls")
        assert reply.tool_calls[0].parse() == {"a": 1, "b": 2}
        answers = [Message("tool", "3", tool_call_id=call.id) for call in reply.tool_calls]
        assert model.chat([*USER, reply.message, *answers]) == "3"
    first, second = server.requests
    assert (first.body["tools"], first.body["tool_choice"]) == (TOOLS, "auto")
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool", "tool"]
    assert second.messages[1]["tool_calls"][1] == calls[1].to_dict()
    assert second.messages[3]["tool_call_id"] == "c2"


def test_tokens_and_log_probabilities_are_given_where_they_were_asked_for_and_else_none():
    said = Reply(Message("assistant", "hi"), "stop", prompt_token_ids=(5, 6), token_ids=(7, 8), logprobs=(-0.5, -1.0))
    with scripted_model([said] * 2) as server, model_at(server) as model:
        reply = model.reply(USER, return_token_ids=True, logprobs=True)
        bare = model.reply(USER)
    assert (reply.prompt_token_ids, reply.token_ids, reply.logprobs) == ((5, 6), (7, 8), (-0.5, -1.0))
    assert (bare.prompt_token_ids, bare.token_ids, bare.logprobs) == (None, None, None)
    assert server.requests[0].body["return_token_ids"] is True


def test_several_replies_come_from_one_call_and_its_usage_is_counted_once():
    with scripted_model([["a", "b b", "c"]]) as server, model_at(server) as model:
        replies = model.replies(USER, 3, temperature=1.0)
    assert [reply.text for reply in replies] == ["a", "b b", "c"]
    assert server.requests[0].body["n"] == 3
    assert sum((reply.usage for reply in replies), Usage()) == model.usage == Usage(1, 0, 3, 4)


def test_fewer_replies_than_were_asked_for_are_an_error():
    match = "asked for 3 replies and gives 1"
    with (
        scripted_model([["only one"]]) as server,
        model_at(server) as model,
        pytest.raises(InvalidReplyError, match=match),
    ):
        model.replies(USER, 3)
    assert model.usage.failures == 1


def test_options_of_one_call_do_not_change_the_next():
    with scripted_model(["a", "b"]) as server, model_at(server, temperature=1.0, seed=1) as model:
        model.reply(USER, temperature=0, max_tokens=5, stop="\n", seed=None, top_p=0.5, extra_body={"top_k": 2})
        model.reply(USER)
    first, second = (request.body for request in server.requests)
    assert (first["temperature"], first["max_tokens"], first["stop"], first["top_k"]) == (0, 5, "\n", 2)
    assert "seed" not in first
    assert (second["temperature"], second["max_tokens"], second["seed"]) == (1.0, 2048, 1)
    assert not {"stop", "top_p", "top_k"} & set(second)


def test_variables_of_openai_send_nothing_to_an_endpoint(monkeypatch):
    names = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET")
    for name in names:
        monkeypatch.setenv(name, "very-private")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-mine: very-private")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with scripted_model(["hi", "hi"]) as server:
        with model_at(server, api_key=None) as model:
            assert model.query("x") == "hi"
        with model_at(server) as model:
            assert model.query("x") == "hi"
    assert "very-private" not in repr([request.headers for request in server.requests])
    assert [request.authorization for request in server.requests] == [None, f"Bearer {TOKEN}"]


def test_a_content_in_parts_is_joined_and_parts_without_text_are_passed_over():
    assert heard(choice(content=[{"type": "text", "text": "a"}, {"type": "image_url"}, "b", 7])).text == "ab"


def test_a_lone_surrogate_in_an_answer_does_not_break_who_prints_it():
    text = heard(b'{"choices": [{"message": {"content": "a\\ud800b \\ud83d\\ude00"}}]}').text
    assert text.encode().decode().startswith("a")
    assert text.endswith("b 😀")


def test_json_that_is_called_something_else_is_read():
    assert heard(choice(content="hi"), headers={"content-type": "text/plain"}).text == "hi"


@pytest.mark.parametrize("usage", [None, 7, [], {"prompt_tokens": "9"}, {"prompt_tokens": True}, {"prompt_tokens": -5}])
def test_counts_that_make_no_sense_count_nothing(usage):
    assert heard({**choice(content="hi"), "usage": usage}).usage == Usage(calls=1)


@pytest.mark.parametrize("ids", [7, "x", [1.5], [None], [True], {"0": 1}])
def test_tokens_that_make_no_sense_are_none(ids):
    answer = {"choices": [{"message": {"content": "x"}, "token_ids": ids, "logprobs": {"content": ids}}]}
    reply = heard({**answer, "prompt_token_ids": ids})
    assert (reply.token_ids, reply.prompt_token_ids, reply.logprobs) == (None, None, None)


def test_arguments_that_an_endpoint_has_parsed_already_are_json_again():
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    assert heard(choice(content=None, tool_calls=[call])).tool_calls == (FunctionCall("", "add", '{"a": 1}'),)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("content", [None, "", []])
def test_an_answer_of_reasoning_only_is_a_reply_and_chat_says_how_to_get_text(field, content):
    answer = Failure(200, json.dumps(choice(**{field: "hmm", "content": content})))
    with scripted_model([answer, answer]) as server, model_at(server) as model:
        reply = model.reply(USER)
        with pytest.raises(LanguageModelError, match="reasoning") as caught:
            model.chat(USER)
    assert (reply.text, reply.reasoning, reply.truncated) == ("", "hmm", True)
    assert "max_tokens" in caught.value.hint


def test_a_very_large_reply_is_read_whole():
    text = "0123456789" * 1_000_000
    with scripted_model([text]) as server, model_at(server) as model:
        assert model.reply(USER).text == text


# nonsense

NOT_JSON = [b"", b"<html>", b"\xff\xfe", b"[]", b"7", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000]
NO_CHOICE = [{}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": {"0": 1}}, {"choices": [{}]}]
NO_MESSAGE = [{"choices": [{"message": []}]}, choice(content=7), choice(tool_calls=7), choice(tool_calls=[{}])]


@pytest.mark.parametrize("body", [*NOT_JSON, *NO_CHOICE, *NO_MESSAGE, choice(tool_calls=[{"function": {"name": 7}}])])
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_nonsense_has_a_name_and_is_not_worth_a_second_try(body, kind):
    error = heard(body, headers={"content-type": kind})
    assert type(error) is InvalidReplyError
    assert len(str(error)) < 600


def test_a_compressed_answer_is_refused():
    error = heard(b"\x1f\x8b", headers={"content-encoding": "gzip"})
    assert type(error) is InvalidReplyError
    assert "compressed" in error.message


# refusals


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 529])
def test_what_may_pass_is_worth_a_second_try(status):
    assert type(heard({"error": {"message": "later"}}, status)) is ModelUnavailableError


def test_a_rate_limit_and_a_refused_key_have_names():
    assert type(heard({"error": {"message": "slow down"}}, 429)) is RateLimitError
    for status in (401, 403):
        assert type(heard({"error": {"message": "no"}}, status)) is ModelAuthenticationError


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 413, 422])
def test_what_will_stay_is_not(status):
    assert type(heard({"error": {"message": "no"}}, status)) is LanguageModelError


OPENAI = "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens"
VLLM = "The decoder prompt (length 5000) is longer than the maximum model length of 2048."
LLAMA = "request (5000 tokens) exceeds the available context size (2048 tokens), try increasing it"
SGLANG = "The input (5000 tokens) is longer than the model's context length (2048 tokens)."
TGI = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        (400, {"error": {"message": OPENAI, "type": "invalid_request_error"}}),
        (400, {"object": "error", "message": VLLM, "type": "BadRequestError", "code": 400}),
        (400, {"error": {"code": 400, "message": LLAMA, "type": "exceed_context_size_error"}}),
        (500, {"error": {"message": LLAMA}}),
        (400, {"message": SGLANG}),
        (422, {"error": TGI, "error_type": "validation"}),
        (400, VLLM),
        (200, {"error": {"message": OPENAI, "code": 400}}),
    ],
)
def test_a_conversation_that_is_too_long_has_a_name(status, body):
    error = heard(body, status)
    assert type(error) is ContextOverflowError
    assert not error.retryable
    assert "max_tokens" in error.hint


def test_the_reason_of_a_refusal_is_found_in_the_forms_that_are_in_use():
    usual = [{"error": {"message": "too big"}}, {"error": "too big"}, {"message": "too big"}, {"detail": "too big"}]
    for body in [*usual, {"detail": [{"msg": "too big"}]}, {"error": {"code": 7, "x": "too big"}}, b"too big"]:
        assert "too big" in heard(body, 400).message


def test_an_error_in_a_successful_response_is_an_error():
    assert type(heard({"error": {"message": "upstream", "code": 502}})) is ModelUnavailableError
    assert type(heard({"error": {"message": "slow down", "code": 429}})) is RateLimitError
    assert type(heard({"error": "upstream"})) is LanguageModelError


def test_a_long_reason_is_shortened_and_made_one_line():
    error = heard({"error": {"message": "a\nb\x00" + "x" * 10_000}}, 400)
    assert "a b x" in error.message
    assert len(error.message) < 400


SHAPES = ["@", '{"error": "@"}', '{"error": {"message": "bad @"}}', '{"x": "@"}', "@" * 500, "a" * 290 + "@"]
REFUSAL = '{"choices": [{"message": {"content": null, "refusal": "@"}}]}'
FORMS = (TOKEN, TOKEN.lower(), TOKEN.replace("/", "%2F").replace("+", "%2B"), TOKEN[:12], TOKEN[5:])


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 500])
@pytest.mark.parametrize("shape", [*SHAPES, REFUSAL, "a" * 2_390 + "@"])
def test_a_key_that_an_endpoint_repeats_is_in_no_error(status, shape):
    answers = [Failure(status, shape.replace("@", form)) for form in FORMS]
    with scripted_model(answers) as server, model_at(server) as model:
        for form in FORMS:
            with pytest.raises(LanguageModelError) as caught:
                model.chat(USER)
            assert not any(piece in str(caught.value) for piece in (form[:8], form[4:12], form[-8:]))
