"""The token of a model is nowhere to be found, whatever an endpoint does with it."""

import asyncio
import json
import logging
import pickle
import traceback
from contextlib import contextmanager

import pytest

from envweave.errors import LanguageModelError
from envweave.lm import LanguageModel
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


async def no_sleep(seconds):
    pass


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
    options = {"token": TOKEN, "timeout": 0.5, "sleep": no_sleep}
    with scripted_model(replies) as server, LanguageModel("m", base_url=server.url, **options) as model:
        yield server, model


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{type(way).__name__}-{way.status}")
def test_no_error_and_no_log_has_it(way, caplog):
    caplog.set_level(logging.DEBUG)
    with model_that_meets(way, way, way) as (server, model):
        with pytest.raises(LanguageModelError) as caught:
            model.query("x")
        shown = f"{model!r} {vars(model)} {vars(model._pool)} {vars(model._pool.endpoint)}"
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

    with scripted_model([Hang()]) as server, LanguageModel("m", base_url=server.url, token=TOKEN) as model:
        error = asyncio.run(give_up(server, model))
    assert PIECE not in everything_of(error)


@pytest.mark.parametrize(
    ("token", "said", "heard"),
    [(TOKEN, f"it is {TOKEN}, is it not?", "it is [token], is it not?"), ("EMPTY", "it is EMPTY", "it is EMPTY")],
)
def test_an_answer_comes_without_the_token_but_with_words(token, said, heard):
    with scripted_model([said]) as server, LanguageModel("any", base_url=server.url, token=token) as model:
        assert model.query("what is it?") == heard
