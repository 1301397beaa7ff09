"""Replies that come in pieces, over real sockets."""

import asyncio
import gc
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from envweave.errors import (
    ClosedError,
    ContextOverflowError,
    IncompleteStreamError,
    InvalidReplyError,
    LanguageModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    UsageError,
)
from envweave.lm import FunctionCall, LanguageModel, Message, Reply, ReplyDelta, Usage
from envweave.lm import client as client_module
from envweave.testing import scripted_model
from envweave.testing.completions import STREAM, answer, half_stream
from envweave.testing.misbehaviour import Failure, Hang, Stall
from support.child import in_child

USER = [{"role": "user", "content": "a b c"}]
CALLS = (FunctionCall("c1", "add", '{"a": 1}'), FunctionCall("c2", "now", "{}"))
RICH = Reply(
    Message("assistant", "one two  three", tool_calls=CALLS, reasoning="let me think"),
    "tool_calls",
    Usage(1, 0, 7, 5, 3, 2),
    prompt_token_ids=(1, 2, 3),
    token_ids=tuple(range(100, 120)),
    logprobs=tuple(-number / 8 for number in range(20)),
    model="served",
)
ALL = {"return_token_ids": True, "logprobs": True}


def model_at(server, **options):
    return LanguageModel("m", base_url=server.url, **options)


def stalled(text, chunks):
    """A stream that stops after so many chunks until it is released."""
    body = answer({"model": "m", "stream": True}, text).content()
    part = b"\n\n".join(body.split(b"\n\n")[:chunks]) + b"\n\n"
    return Stall(200, body, STREAM, after_bytes=len(part))


def read(server, **options):
    """The error that reading a stream raises."""
    with model_at(server, **options) as model, model.stream(USER) as stream:
        with pytest.raises(LanguageModelError) as caught:
            list(stream)
        with pytest.raises(type(caught.value)):
            next(stream)
        with pytest.raises(type(caught.value)):
            _ = stream.reply
    assert (model.usage.calls, model.usage.failures) == (1, 1)
    return caught.value


def test_the_pieces_are_those_of_the_reply_that_a_call_without_a_stream_gives():
    with scripted_model([RICH, RICH]) as server, model_at(server) as model:
        with model.stream(USER, **ALL) as stream:
            deltas = list(stream)
        assert stream.reply == model.reply(USER, **ALL) == RICH
    assert "".join(delta.text for delta in deltas) == RICH.text
    assert [delta.text for delta in deltas if delta.text] == ["one", " two", "  three"]
    assert "".join(delta.reasoning for delta in deltas) == RICH.reasoning
    for place, call in enumerate(CALLS):
        pieces = [delta for delta in deltas if delta.tool_call == place]
        assert (
            FunctionCall(*("".join(getattr(piece, name) for piece in pieces) for name in ("id", "name", "arguments")))
            == call
        )
    assert model.usage == RICH.usage + RICH.usage


def test_the_same_for_await_on_any_loop():
    async def ask(model):
        async with model.aio.stream(USER) as stream:
            deltas = [delta async for delta in stream]
        return deltas, stream.reply

    with scripted_model(["one two"] * 2) as server, model_at(server) as model:
        for _ in range(2):
            deltas, reply = asyncio.run(ask(model))
            assert deltas == [ReplyDelta("one"), ReplyDelta(" two")]
            assert (reply.text, reply.finish_reason) == ("one two", "stop")


def test_pieces_come_before_the_end_of_the_reply():
    with scripted_model([stalled("one two", chunks=2)]) as server, model_at(server) as model:
        stream = model.stream(USER)
        assert next(stream) == ReplyDelta("one")
        with pytest.raises(UsageError, match="to its end"):
            _ = stream.reply
        server.release()
        assert list(stream) == [ReplyDelta(" two")]
        assert stream.reply.text == "one two"
        assert list(stream) == []


# half a stream


@pytest.mark.parametrize("clean", [False, True], ids=["cut", "closed"])
@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_half_a_stream_has_a_name_and_is_no_reply(chunks, clean):
    with scripted_model([half_stream("one two three", chunks=chunks, clean=clean)]) as server:
        error = read(server)
    assert type(error) is IncompleteStreamError
    assert error.retryable
    assert len(server.requests) == 1  # what was passed on already is not asked for again


def test_a_stream_that_ends_inside_a_chunk_is_incomplete():
    body = answer({"model": "m", "stream": True}, "one two").content()
    for size in (len(body) // 3, len(body) // 2):
        with scripted_model([Failure(200, body[:size], STREAM)]) as server:
            assert type(read(server)) is IncompleteStreamError


def test_a_stream_that_never_begins_is_incomplete():
    with scripted_model([Failure(200, "", STREAM)]) as server:
        assert type(read(server)) is IncompleteStreamError


def test_a_failure_before_the_first_piece_is_tried_again():
    failure = Failure(503, "", {"retry-after-ms": "1"})
    with scripted_model([failure, "at last"]) as server, model_at(server) as model, model.stream(USER) as stream:
        assert "".join(delta.text for delta in stream) == "at last"
    assert len(server.requests) == 2


# streams that are none

CHUNK = 'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"choices": [{"message": {"content": "whole"}}]}', "application/json"),
        ("data: {oops\n\n", "text/event-stream"),
        ("data: 7\n\n", "text/event-stream"),
        (f"{CHUNK}data: []\n\n", "text/event-stream"),
        (b"data: \xff\xfe\n\n", "text/event-stream"),
        (f"{CHUNK}data: {'[' * 100_000}\n\n", "text/event-stream"),
    ],
)
def test_a_stream_that_cannot_be_read_is_garbage(body, kind):
    with scripted_model([Failure(200, body, {"content-type": kind})]) as server:
        assert type(read(server)) is InvalidReplyError


def test_an_error_in_the_middle_of_a_stream_has_its_own_name():
    for data, cls in [
        ({"message": "This model's maximum context length is 10 tokens", "code": 400}, ContextOverflowError),
        ({"message": "out of memory", "code": 500}, ModelUnavailableError),
        ("it broke", LanguageModelError),
    ]:
        body = f"{CHUNK}data: {json.dumps({'error': data})}\n\n"
        with scripted_model([Failure(200, body, STREAM)]) as server:
            error = read(server)
        assert isinstance(error, cls)
        assert not isinstance(error, InvalidReplyError)


def test_a_stream_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(client_module, "MOST_ANSWER_BYTES", 10_000)
    with scripted_model(["word " * 10_000]) as server:
        assert "longer than 10000 bytes" in read(server).message


# streams that are given up


def test_leaving_the_block_ends_the_connection_and_gives_the_turn_back():
    with (
        scripted_model([stalled("one two", chunks=2), "next"]) as server,
        model_at(server, max_concurrency=1) as model,
    ):
        with model.stream(USER) as stream:
            next(stream)
        assert server.abandoned.wait(30)
        with pytest.raises(UsageError, match="closed"):
            next(stream)
        assert model.query("x") == "next"
    assert model.usage.failures == 0


def test_a_stream_that_nobody_holds_any_more_ends():
    with scripted_model([stalled("one two", chunks=2)]) as server, model_at(server) as model:
        for _ in model.stream(USER):
            break
        gc.collect()
        assert server.abandoned.wait(30)


def test_a_stream_that_nobody_reads_makes_no_call():
    with scripted_model([]) as server, model_at(server) as model:
        model.stream(USER).close()
        with model.stream(USER) as stream:
            pass
        with pytest.raises(UsageError):
            _ = stream.reply
    assert server.requests == []


def test_a_cancelled_reader_ends_the_connection():
    async def give_up(server, model):
        async def read_all():
            async with model.aio.stream(USER) as stream:
                async for _ in stream:
                    first.set()

        first = asyncio.Event()
        reader = asyncio.create_task(read_all())
        await first.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert await asyncio.to_thread(server.abandoned.wait, 30)

    with scripted_model([stalled("one two", chunks=2), "next"]) as server, model_at(server, max_concurrency=1) as model:
        asyncio.run(give_up(server, model))
        assert model.query("x") == "next"


@pytest.mark.parametrize("slow", [Hang(), stalled("one two", chunks=2)])
def test_a_stream_has_so_much_time_in_all_and_then_its_connection_ends(slow):
    with scripted_model([slow]) as server:
        assert type(read(server, timeout=0.3)) is ModelTimeoutError
        assert server.abandoned.wait(30)


def test_closing_the_model_ends_its_streams():
    with scripted_model([stalled("one two", chunks=2)]) as server:
        model = model_at(server)
        stream = model.stream(USER)
        next(stream)
        model.close()
        with pytest.raises(ClosedError):
            next(stream)
        assert server.abandoned.wait(30)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_stream_of_its_parent_alone():
    with scripted_model([stalled("one two", chunks=2), "child"]) as server, model_at(server) as model:
        stream = model.stream(USER)
        next(stream)

        def in_the_child():
            with pytest.raises(UsageError, match="another process"):
                next(stream)
            stream.close()
            return model.query("x")

        assert in_child(in_the_child) == "child"
        server.release()
        assert [delta.text for delta in stream] == [" two"]


def test_many_threads_stream_at_once():
    def read_all(number):
        with model.stream([{"role": "user", "content": str(number)}]) as stream:
            return "".join(delta.text for delta in stream), stream.reply.text

    def script(messages, model):
        return f"{messages[0]['content']} and more words"

    with (
        scripted_model(script) as server,
        model_at(server, max_concurrency=4) as model,
        ThreadPoolExecutor(16) as threads,
    ):
        answers = list(threads.map(read_all, range(64)))
    assert answers == [(f"{number} and more words",) * 2 for number in range(64)]
    assert model.usage.calls == 64
