"""The token of a model is nowhere to be found, whatever an endpoint does with it."""

import asyncio
import json
import logging
import os
import pickle
import subprocess
import sys
import traceback
from contextlib import contextmanager
from dataclasses import replace

import pytest

from envweave.errors import LanguageModelError
from envweave.lm import FunctionCall, LanguageModel, Message, Reply
from envweave.testing import scripted_model
from envweave.testing.misbehaviour import Cut, Drip, Failure, Hang
from envweave.wire.faults import fault_to_data

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUv"
PIECE = TOKEN[4:12]

ECHO = {"x-request-auth": f"Bearer {TOKEN}", "set-cookie": f"session={TOKEN}"}
WAYS = [
    Failure(401, json.dumps({"error": {"message": f"Invalid token: {TOKEN}"}}), ECHO),
    Failure(401, json.dumps({"error": {"message": f"Invalid token: {TOKEN[:14]}…"}})),
    Failure(400, f"Authorization: Bearer {TOKEN}", ECHO),
    Failure(404, json.dumps({"detail": [{"input": {"authorization": TOKEN}}]})),
    Failure(302, "", {"location": f"https://evil.example/?token={TOKEN}"}),
    Failure(307, TOKEN, {"location": f"https://{TOKEN}.evil.example/"}),
    Failure(429, TOKEN, {"retry-after": TOKEN}),
    Failure(500, f"<html>{TOKEN}", ECHO),
    Failure(200, TOKEN, ECHO),
    Failure(200, json.dumps({"error": {"message": TOKEN, "code": TOKEN}})),
    Failure(200, json.dumps({"choices": [{"message": {"content": None, "refusal": TOKEN}}]})),
    Failure(200, json.dumps({"choices": [{"message": {"content": None}, "finish_reason": TOKEN}]})),
    Failure(200, "x", {"content-encoding": TOKEN}),
    Failure(200, "x", {"content-length": TOKEN}),
    Failure(200, "x", {f"bad header {TOKEN}": "x"}),
    Cut(headers=ECHO),
    Cut(body=TOKEN, headers=ECHO, after_bytes=20),
    Hang(),
    Drip(body=TOKEN * 5, headers=ECHO, pause=0.05),
]


def everything_of(error):
    """All that somebody could print, store or send of an error and of those that hang on to it."""
    error.__traceback__ = error.__traceback__.tb_next  # without the frame of the test, which knows the token
    found, seen = [], [error]
    while seen:
        one = seen.pop()
        told = traceback.TracebackException.from_exception(one, capture_locals=True)
        found += [str(one), repr(one), repr(one.args), repr(vars(one)), *told.format()]
        seen += [next_one for next_one in (one.__cause__, one.__context__) if next_one is not None]
    if isinstance(error, LanguageModelError):
        found += [repr(pickle.dumps(error)), json.dumps(fault_to_data(error, debug=True))]
    return "\n".join(found)


@contextmanager
def model_that_meets(*replies):
    options = {"api_key": TOKEN, "timeout": 2.0, "max_retries": 1}
    with scripted_model(replies) as server, LanguageModel("m", base_url=server.url, **options) as model:
        yield server, model


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{type(way).__name__}-{way.status}")
def test_no_error_and_no_log_has_it(way, caplog):
    caplog.set_level(logging.DEBUG)
    with model_that_meets(way, way, way) as (server, model):
        with pytest.raises(LanguageModelError) as caught:
            model.query("x")
        client = model._calls.client
        shown = f"{model!r} {vars(model)} {vars(model._calls)} {vars(client)} {vars(client._client)}"
    assert server.requests[0].authorization == f"Bearer {TOKEN}"
    assert caught.value.__cause__ is caught.value.__context__ is None
    for text in (everything_of(caught.value), shown, caplog.text, repr([vars(record) for record in caplog.records])):
        assert PIECE.lower() not in text.lower()


def test_the_log_of_a_call_is_still_there_without_it(caplog):
    caplog.set_level(logging.DEBUG)
    with model_that_meets(Failure(401, "", ECHO)) as (server, model), pytest.raises(LanguageModelError):
        model.query("x")
    assert f"POST {server.url}/chat/completions" in caplog.text
    assert "x-request-auth', b'Bearer [token]'" in caplog.text


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{type(way).__name__}-{way.status}")
def test_no_error_and_no_log_of_a_stream_has_it(way, caplog):
    caplog.set_level(logging.DEBUG)
    way = replace(way, headers={"content-type": "text/event-stream", **way.headers})
    with model_that_meets(way, way, way) as (_, model), model.stream([{"role": "user", "content": "x"}]) as stream:
        with pytest.raises(LanguageModelError) as caught:
            next(stream)
        shown = f"{stream!r} {vars(stream)}"
    for text in (everything_of(caught.value), shown, caplog.text, repr([vars(record) for record in caplog.records])):
        assert PIECE.lower() not in text.lower()


def test_an_error_in_the_middle_of_a_stream_does_not_show_it():
    chunk = 'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'
    for data in (TOKEN, f'{{"error": {{"message": "bad {TOKEN}"}}}}', f'["{TOKEN}"]'):
        way = Failure(200, f"{chunk}data: {data}\n\n", {"content-type": "text/event-stream"})
        with model_that_meets(way) as (_, model), model.stream([{"role": "user", "content": "x"}]) as stream:
            next(stream)
            with pytest.raises(LanguageModelError) as caught:
                next(stream)
        assert PIECE not in everything_of(caught.value)


def test_what_openai_logs_at_debug_does_not_have_it():
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom envweave.lm import LanguageModel\n"
    code += "import os; model = LanguageModel('m', base_url=sys.argv[1], api_key=os.environ.pop('KEY'))\n"
    code += "print(model.query('say it'))"
    with scripted_model([Failure(429, TOKEN, {**ECHO, "retry-after-ms": "1"}), f"it is {TOKEN}"]) as server:
        command = [sys.executable, "-c", code, server.url]
        environ = {**os.environ, "OPENAI_LOG": "debug", "KEY": TOKEN}
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "it is [token]\n"
    assert "openai._base_client" in ended.stderr
    assert PIECE.lower() not in ended.stderr.lower()


def test_no_field_of_a_reply_has_it():
    call = FunctionCall(TOKEN, f"f{TOKEN}", f'{{"key": "{TOKEN}"}}')
    said = Reply(Message("assistant", TOKEN, tool_calls=(call,), reasoning=TOKEN), TOKEN, model=TOKEN)
    with model_that_meets(said, said) as (_, model):
        reply = model.reply([{"role": "user", "content": "x"}])
        with model.stream([{"role": "user", "content": "x"}]) as stream:
            deltas = list(stream)
    assert TOKEN not in repr((reply, deltas, stream.reply))
    assert reply == stream.reply


def test_a_batch_gives_errors_without_it():
    with model_that_meets(*[Failure(401, TOKEN)] * 3) as (_, model):
        errors = model.query_batched(["a", "b", "c"])
    assert all(PIECE not in everything_of(error) for error in errors)


def test_a_call_that_is_given_up_does_not_show_it():
    async def give_up(server, model):
        call = asyncio.create_task(model.aio.query("x"))
        await asyncio.to_thread(server.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await call
        return caught.value

    with scripted_model([Hang()]) as server, LanguageModel("m", base_url=server.url, api_key=TOKEN) as model:
        error = asyncio.run(give_up(server, model))
    assert PIECE not in everything_of(error)


@pytest.mark.parametrize(
    ("token", "said", "heard"),
    [(TOKEN, f"it is {TOKEN}, is it not?", "it is [token], is it not?"), ("EMPTY", "it is EMPTY", "it is EMPTY")],
)
def test_an_answer_comes_without_the_token_but_with_words(token, said, heard):
    with scripted_model([said]) as server, LanguageModel("any", base_url=server.url, api_key=token) as model:
        assert model.query("what is it?") == heard
