"""Language models over real sockets: answers, failures, time, threads, forks."""

import asyncio
import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from envweave.errors import ClosedError, LanguageModelError, ModelTimeoutError, ModelUnavailableError
from envweave.lm import LanguageModel, Message, Reply, Usage
from envweave.lm.calls import loop
from envweave.lm.client import MOST_ANSWER_BYTES
from envweave.testing import scripted_model
from envweave.testing.misbehaviour import Cut, Drip, Failure, Hang
from support.child import in_child

COMPLETION = json.dumps({"choices": [{"message": {"content": "late"}}]})


SOON = {"retry-after-ms": "1"}
"""Asks for the next attempt at once."""


def model_at(server, **options):
    return LanguageModel("m", base_url=server.url, **options)


def error_of(model):
    with pytest.raises(LanguageModelError) as caught:
        model.query("x")
    return caught.value


def echo(messages, model):
    return f"{model}:{messages[-1]['content']}"


def test_a_chat_a_query_and_another_model_at_the_same_endpoint():
    with scripted_model(echo) as server, model_at(server, api_key="key", extra_body={"top_k": 5}) as model:
        assert model.chat([{"role": "system", "content": "be"}, {"role": "user", "content": "a b"}]) == "m:a b"
        assert model.query("c", model="other") == "other:c"
    first, second = server.requests
    assert first.authorization == "Bearer key"
    assert first.body == {**first.body, "max_tokens": 2048, "temperature": 0.6, "top_k": 5}
    assert second.model == "other"
    assert model.usage == Usage(calls=2, failures=0, prompt_tokens=4, completion_tokens=3)


def test_without_a_token_no_authorization_is_sent():
    with scripted_model(["hi"]) as server, model_at(server) as model:
        model.query("x")
    assert server.requests[0].authorization is None


def test_the_same_for_await_on_any_loop():
    async def ask(model):
        return [await model.aio.query("x"), *await model.aio.query_batched(["y", "z"])]

    with scripted_model(echo) as server, model_at(server) as model:
        assert asyncio.run(ask(model)) == ["m:x", "m:y", "m:z"]
        assert asyncio.run(ask(model)) == ["m:x", "m:y", "m:z"]
        asyncio.run(model.aio.close())
        with pytest.raises(ClosedError):
            model.query("x")


def test_a_batch_is_asked_at_once_in_order_and_one_failure_does_not_lose_the_others():
    together = threading.Barrier(5)

    def script(messages, model):
        together.wait(timeout=60)  # opens when all five are here
        return Failure(400, "no") if messages[0]["content"] == "2" else echo(messages, model)

    with scripted_model(script) as server, model_at(server, max_concurrency=5) as model:
        answers = model.query_batched([str(number) for number in range(5)])
    assert [answer for answer in answers if isinstance(answer, str)] == ["m:0", "m:1", "m:3", "m:4"]
    assert isinstance(answers[2], LanguageModelError)
    assert (model.usage.calls, model.usage.failures) == (5, 1)


def test_no_more_calls_than_agreed_are_under_way_whoever_makes_them():
    three = threading.Barrier(3)

    def script(messages, model):
        three.wait(timeout=60)
        elsewhere.query_batched(["x"] * 20)  # a fourth would be here by the time that these are back
        return echo(messages, model)

    with (
        scripted_model(echo) as other,
        model_at(other) as elsewhere,
        scripted_model(script) as server,
        model_at(server, max_concurrency=3) as model,
        ThreadPoolExecutor(4) as threads,
    ):
        batches = [threads.submit(model.query_batched, ["a", "b", "c"]) for _ in range(4)]
        assert all(batch.result() == ["m:a", "m:b", "m:c"] for batch in batches)
    assert server.most_at_once == 3
    assert model.usage.calls == 12


@pytest.mark.parametrize("limit", [{"requests_per_minute": 2}, {"tokens_per_minute": 10}])
def test_calls_beyond_a_rate_wait_for_the_next_minute(limit):
    replies = Reply(Message("assistant", "x"), "stop", Usage(prompt_tokens=3, completion_tokens=2))
    with scripted_model(echo) as other, scripted_model([replies] * 3) as server, ThreadPoolExecutor(1) as threads:
        model = model_at(server, max_tokens=None, **limit)
        batch = threads.submit(model.query_batched, ["a", "b", "c"])
        server.wait_for(requests=1 + ("requests_per_minute" in limit))
        with model_at(other) as elsewhere:
            elsewhere.query_batched(["x"] * 20)  # another would be here by the time that these are back
        model.close()
        with pytest.raises(ClosedError):
            batch.result(60)
    assert len(server.requests) == 1 + ("requests_per_minute" in limit)


def test_an_empty_batch_asks_nobody():
    with scripted_model([]) as server, model_at(server) as model:
        assert model.query_batched([]) == []


# failures


@pytest.mark.parametrize(
    "failure", [Failure(429, "", SOON), Failure(500, "<html>", SOON), Cut(), Cut(body="{}", after_bytes=1)]
)
def test_what_may_pass_is_tried_again(failure):
    with scripted_model([failure, failure, "at last"]) as server, model_at(server) as model:
        assert model.query("x") == "at last"
    assert len(server.requests) == 3
    assert model.usage == Usage(1, 0, 1, 2)


def test_retries_end():
    failure = Failure(500, '{"error": {"message": "out of memory"}}', SOON)
    with scripted_model([failure] * 5) as server, model_at(server, max_retries=3) as model:
        error = error_of(model)
    assert isinstance(error, ModelUnavailableError)
    assert error.message.endswith("(HTTP 500): out of memory")
    assert len(server.requests) == 4
    assert (model.usage.calls, model.usage.failures) == (1, 1)


def test_the_server_says_how_long_to_wait(caplog):
    caplog.set_level(logging.INFO, "openai")
    with scripted_model([Failure(429, "", {"retry-after": "0.0625"}), "at last"]) as server, model_at(server) as model:
        assert model.query("x") == "at last"
    assert "in 0.062500 seconds" in caplog.text


def test_a_pause_ends_with_the_time_of_the_call():
    failure = Failure(429, "", {"retry-after": "50"})
    with scripted_model([failure, "late"]) as server, model_at(server, timeout=0.3) as model:
        assert isinstance(error_of(model), ModelTimeoutError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404])
def test_what_will_stay_is_not_tried_again(status):
    failure = Failure(status, '{"error": {"message": "context too long"}}')
    with scripted_model([failure, "no"]) as server, model_at(server) as model:
        error = error_of(model)
    assert len(server.requests) == 1
    assert f"HTTP {status}" in error.message
    assert "context too long" in error.message or status == 302


def test_a_redirect_is_not_followed():
    with scripted_model(["stolen"]) as other:
        failure = Failure(307, headers={"location": f"{other.url}/chat/completions"})
        with scripted_model([failure]) as server, model_at(server, api_key="key") as model:
            assert "redirects" in error_of(model).message
        assert other.requests == []


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"choices": []}', b"\xff" * 100, b""])
def test_garbage_is_an_error_that_is_not_tried_again(body):
    with scripted_model([Failure(200, body)]) as server, model_at(server) as model:
        assert not error_of(model).retryable
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "said"), [(200, "longer than"), (400, "HTTP 400")])
def test_an_enormous_answer_is_not_read_to_its_end(status, said):
    body = b'{"choices": "' + b"x" * (MOST_ANSWER_BYTES + 32 * 1024 * 1024)
    with scripted_model([Failure(status, body)]) as server, model_at(server) as model:
        error = error_of(model)
        assert server.abandoned.wait(30)
    assert said in error.message
    assert len(str(error)) < 500


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else gets the port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with LanguageModel("m", base_url=url) as model:
            error = error_of(model)
    assert error.retryable
    assert error.message.startswith(f"cannot connect to {url}")
    assert "is the server running?" in error.hint


def test_a_host_without_an_address(monkeypatch):
    def nowhere(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with LanguageModel("m", base_url="http://no-such.invalid/v1") as model:
        assert "no-such.invalid/v1 has no address" in error_of(model).message


def test_a_server_without_tls():
    with scripted_model([]) as server:
        url = server.url.replace("http", "https")
        with LanguageModel("m", base_url=url) as model:
            assert f"cannot connect to {url}" in error_of(model).message


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=127.0.0.1"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")

    def shake(listener):
        connection, _ = listener.accept()
        with connection, pytest.raises(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        shaken = threads.submit(shake, listener)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
        with LanguageModel("m", base_url=url, api_key="key", max_retries=0) as model:
            error = error_of(model)
        shaken.result(60)
    assert "cannot be trusted" in error.message
    assert not error.retryable


def test_a_proxy_of_the_variables_is_not_asked_for_this_machine(monkeypatch):
    with scripted_model(["stolen"]) as proxy, scripted_model(["direct"]) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        with model_at(server, api_key="key") as model:
            assert model.query("x") == "direct"


def test_a_proxy_that_cannot_be_used_is_an_error_of_the_model(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "nonsense://proxy")
    with LanguageModel("m", base_url="http://no-such.invalid/v1", api_key="key") as model:
        error = error_of(model)
    assert "nonsense" in error.message
    assert error.__context__ is None


# time, and calls that are given up


@pytest.mark.parametrize("slow", [Hang(), Drip(body=COMPLETION, pause=0.05)])
def test_a_call_has_so_much_time_in_all_and_then_its_connection_ends(slow):
    with scripted_model([slow]) as server, model_at(server, timeout=0.3) as model:
        error = error_of(model)
        assert server.abandoned.wait(30)
    assert isinstance(error, ModelTimeoutError)
    assert error.retryable
    assert "within 0.3 s" in error.message
    assert len(server.requests) == 1


def test_waiting_for_a_turn_is_not_time_of_the_call():
    with scripted_model([Hang(), "quick"]) as server, model_at(server, timeout=0.3, max_concurrency=1) as model:
        slow, quick = model.query_batched(["a", "b"])
    assert isinstance(slow, ModelUnavailableError)
    assert quick == "quick"


def test_a_released_call_gets_its_late_answer():
    with scripted_model([Hang(200, COMPLETION)]) as server, model_at(server) as model, ThreadPoolExecutor(1) as threads:
        call = threads.submit(model.query, "x")
        server.wait_for(requests=1)
        server.release()
        assert call.result(60) == "late"


def test_a_cancelled_call_ends_its_connection_and_gives_its_turn_back():
    async def give_up(server, model):
        call = asyncio.create_task(model.aio.query("x"))
        await asyncio.to_thread(server.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(server.abandoned.wait, 30)

    with scripted_model([Hang(), "next"]) as server, model_at(server, max_concurrency=1) as model:
        asyncio.run(give_up(server, model))
        assert model.query("y") == "next"
    assert model.usage.failures == 0


def test_closing_ends_calls_under_way_and_those_that_wait():
    with scripted_model([Hang(), Hang()]) as server, ThreadPoolExecutor(2) as threads:
        model = model_at(server, max_concurrency=1)
        calls = [threads.submit(model.query, "x"), threads.submit(model.query_batched, ["x", "y"])]
        server.wait_for(requests=1)
        model.close()
        for call in calls:
            with pytest.raises(ClosedError):
                call.result(60)
        assert server.abandoned.wait(30)
        model.close()
    assert len(server.requests) == 1


def test_closing_ends_a_pause_before_the_next_attempt():
    failure = Failure(429, "", {"retry-after": "50"})
    with scripted_model([failure]) as server, ThreadPoolExecutor(1) as threads:
        model = model_at(server)
        call = threads.submit(model.query, "x")
        server.wait_for(requests=1)
        model.close()
        with pytest.raises(ClosedError):
            call.result(40)


def test_many_threads_ask_one_model():
    with scripted_model(echo) as server, model_at(server) as model, ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(model.query, map(str, range(200))))
    assert answers == [f"m:{number}" for number in range(200)]
    assert model.usage.calls == 200


def test_ctrl_c_ends_the_call():
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom envweave.lm import LanguageModel\n"
    code += "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it\n"
    code += "LanguageModel('m', base_url=sys.argv[1], api_key=os.environ.pop('KEY')).query('x')"
    with scripted_model([Hang()]) as server:
        command = [sys.executable, "-W", "error", "-c", code, server.url]
        environ = {**os.environ, "KEY": "very-secret"}
        with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as child:
            server.wait_for(requests=1)
            child.send_signal(2)
            _, errors = child.communicate(timeout=60)
        assert server.abandoned.wait(30)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "very-secret" not in errors


def test_a_program_that_does_not_close_its_model_ends_without_a_word():
    code = f"import gc, sys; sys.path[:0] = {sys.path!r}\nfrom envweave.lm import LanguageModel\n"
    code += "for _ in range(2): print(LanguageModel('m', base_url=sys.argv[1]).query('x')); gc.collect()\n"
    code += "kept = LanguageModel('m', base_url=sys.argv[1]); print(kept.query('x'))"
    with scripted_model(["a", "b", "c"]) as server:
        command = [sys.executable, "-W", "error", "-c", code, server.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("a\nb\nc\n", "", 0)


# forks


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own_and_leaves_those_of_its_parent_alone():
    with scripted_model(echo) as server, model_at(server) as model:
        assert model.query_batched(["a", "b"]) == ["m:a", "m:b"]

        def in_the_child():
            answer = model.query("child")
            model.close()
            return answer, os.getpid()

        with loop()._lock:  # as if another thread were just using it
            answer, pid = in_child(in_the_child)
        assert answer == "m:child"
        assert pid != os.getpid()
        assert in_child(lambda: model.close()) is None
        assert model.query_batched(["c", "d"]) == ["m:c", "m:d"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_call_goes_on_while_others_fork():
    replies = [Hang(200, COMPLETION), "child"]
    with scripted_model(replies) as server, model_at(server) as model, ThreadPoolExecutor(1) as threads:
        call = threads.submit(model.query, "x")
        server.wait_for(requests=1)
        assert in_child(lambda: model.query("y")) == "child"
        server.release()
        assert call.result(60) == "late"


# the scripted model itself


def test_a_script_that_is_used_up_or_fails_says_so_and_is_not_asked_again():
    with scripted_model([]) as server, model_at(server) as model:
        assert "the script has only 0 replies" in error_of(model).message
    with scripted_model(lambda messages, model: messages[7]) as server, model_at(server) as model:
        assert "the script failed: IndexError" in error_of(model).message
    assert len(server.requests) == 1


def test_another_process_can_ask_it_too():
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom envweave.lm import LanguageModel\n"
    code += "print(LanguageModel.from_environment().query('x'))"
    with scripted_model(echo) as server:
        environ = {"LLM_BASE_URL": server.url, "LLM_API_KEY": "key", "LLM_MODEL": "theirs"}
        command = [sys.executable, "-c", code]
        ended = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "theirs:x\n"
