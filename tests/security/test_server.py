"""What a client that means no good can do to `envweave serve`.

Slow clients (slow-loris) are not tried here: reading requests is uvicorn's matter, and a proxy's in front of it.
"""

import asyncio
import hmac
import json
import re
import socket
from contextlib import contextmanager

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from envweave.envs.echo import EchoEnvironment
from envweave.server import create_app
from envweave.testing.serving import running_server

http = httpx.Client()  # one for all: making one takes longer than a test
TOKEN = "correct-horse-battery-staple"
LIMIT = 65536
ENVIRONMENT = """
class Failing:
    def __init__(self, *, path="nowhere"):
        self.path = path
    def reset(self):
        secret_local = "hidden-in-the-frame"
        return 0
    def step(self, action):
        if action == "fail":
            raise ValueError("as asked")
        return action
    def state(self):
        return {"path": self.path}
"""


@pytest.fixture(scope="module", autouse=True)
def _closing():
    yield
    http.close()


@pytest.fixture(scope="module")
def guarded():
    """With a token, and a log that tells everything."""
    with running_server("echo", "--log-level", "debug", env={"ENVWEAVE_TOKEN": TOKEN}) as served:
        yield served


@pytest.fixture(scope="module")
def small():
    """Without a token, for messages of no more than 64 KiB."""
    with running_server("echo", "--max-message-bytes", str(LIMIT), "--origin", "https://friend.example") as served:
        yield served


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("env")
    (path / "failing.py").write_text(ENVIRONMENT)
    return path


@pytest.fixture(scope="module")
def failing(folder):
    with running_server("pkg://failing:Failing", cwd=folder) as served:
        yield served


@contextmanager
def talking(served, path="/ws", **options):
    """`ask(message)` on a WebSocket gives the reply; text and bytes are sent as they are."""
    address = served.ws_url.removesuffix("/ws") + path
    with connect(address, max_size=None, compression=None, **options) as ws:

        def ask(message):
            ws.send(message if isinstance(message, str | bytes) else json.dumps(message))
            return json.loads(ws.recv(timeout=30))

        yield ask


def raw(served, text):
    """The status line of the answer to an HTTP request that no client would send."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode())
        with connection.makefile("rb") as answer:
            return answer.readline().decode()


def refused(served, **options):
    """The status with which the WebSockets are refused before they are accepted."""
    statuses = set()
    for path in ("/ws", "/mcp"):
        with pytest.raises(InvalidStatus) as caught, connect(served.ws_url.removesuffix("/ws") + path, **options):
            pass
        statuses.add(caught.value.response.status_code)
    (status,) = statuses
    return status


# The token.

PATHS = [
    ("GET", "/metadata"), ("GET", "/schema"), ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/openapi.json"),
    ("GET", "/state"), ("POST", "/reset"), ("POST", "/step"), ("POST", "/sessions"), ("DELETE", "/sessions/x"),
    ("POST", "/mcp"), ("POST", "/snapshot"), ("POST", "/fork"), ("GET", "/nowhere"), ("GET", "/health/"),
    ("GET", "//health"), ("GET", "/redoc"), ("OPTIONS", "/reset"), ("GET", "/health/../metrics"),
    ("GET", "/health%2f..%2fmetrics"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_without_the_token_nothing_but_health_and_the_page_answers(guarded, method, path):
    assert " 401 " in raw(guarded, f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")


def test_health_answers_without_the_token(guarded):
    assert http.get(f"{guarded.url}/health").json() == {"status": "healthy"}


WRONG = [
    "", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", f"Basic {TOKEN}", TOKEN,
    f"Bearer {TOKEN} {TOKEN}", "Bearer None", "Bearer null",
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_token_is_as_good_as_none(guarded, given):
    headers = {"Authorization": given}
    answer = http.get(f"{guarded.url}/metadata", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "transport.unauthorized"
    assert refused(guarded, additional_headers=headers) == 403


def test_a_token_in_the_address_does_not_count(guarded):
    assert http.get(f"{guarded.url}/metadata", params={"token": TOKEN}).status_code == 401


def test_the_right_token_opens_http_and_the_websocket(guarded):
    headers = {"Authorization": f"bearer {TOKEN}"}
    assert http.get(f"{guarded.url}/metadata", headers=headers).json()["name"] == "echo"
    with talking(guarded, additional_headers=headers) as ask:
        assert ask({"type": "reset"})["type"] == "observation"
    with talking(guarded, "/mcp", additional_headers=headers) as ask:
        assert ask({"jsonrpc": "2.0", "method": "tools/list"})["result"] == {"tools": []}


def test_two_authorization_headers_are_one_too_many(guarded):
    both = f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer x\r\n"
    assert " 400 " in raw(guarded, f"GET /metadata HTTP/1.1\r\nHost: x\r\n{both}\r\n")


def test_the_token_is_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *sides: compared.append(sides) or False)

    async def guess():
        transport = httpx.ASGITransport(create_app(EchoEnvironment, token=TOKEN))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/metadata", headers={"Authorization": "Bearer guess"})

    assert asyncio.run(guess()).status_code == 401
    assert compared == [(b"guess", TOKEN.encode())]


def test_the_token_is_told_to_nobody(guarded):
    with httpx.Client(base_url=guarded.url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        said = [
            client.get(path).text for path in ("/metadata", "/schema", "/metrics", "/openapi.json", "/state", "/docs")
        ]
        said.append(client.post("/step", content=b"{").text)
        said.append(client.post("/sessions", json={"env_id": 1}).text)
    said.append(http.get(f"{guarded.url}/metadata", headers={"Authorization": f"Bearer {TOKEN[1:]}"}).text)
    said.append(guarded.errors())
    assert not [text for text in said if TOKEN in text or TOKEN[1:] in text]


def test_the_log_holds_no_whole_session_id(guarded):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    session = http.post(f"{guarded.url}/sessions", headers=headers).json()["session_id"]
    with connect(f"{guarded.ws_url}?session_id={session}", additional_headers=headers) as ws:
        ws.send('{"type":"state"}')
        assert json.loads(ws.recv())["type"] == "state"
    assert http.delete(f"{guarded.url}/sessions/{session}", headers=headers).status_code == 200
    assert session[:8] in guarded.errors()
    assert session not in guarded.errors()


# Browsers.

STRANGERS = [
    "https://evil.example",
    "null",
    "http://127.0.0.1",
    "http://localhost.evil.example",
    "",
    "http://[",
    "file://",
]


@pytest.mark.parametrize("origin", STRANGERS)
def test_a_page_of_another_origin_is_not_welcome(small, origin):
    headers = {"Origin": origin}
    answer = http.post(f"{small.url}/reset", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert refused(small, additional_headers=headers) == 403


def test_a_page_under_a_name_that_was_pointed_at_this_machine_is_not_welcome(small):
    port = small.url.rpartition(":")[2]
    headers = {"Origin": f"http://evil.example:{port}", "Host": f"evil.example:{port}"}
    assert http.post(f"{small.url}/reset", headers=headers).status_code == 403


def test_the_servers_own_page_and_a_named_origin_are_welcome(small):
    for origin in (small.url, "https://friend.example"):
        assert http.post(f"{small.url}/reset", headers={"Origin": origin}).status_code == 200
        with talking(small, additional_headers={"Origin": origin}) as ask:
            assert ask({"type": "reset"})["type"] == "observation"


def test_a_named_origin_may_read_the_answers_and_no_other(small):
    asked = {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST"}
    assert http.options(f"{small.url}/reset", headers=asked).headers["access-control-allow-origin"] == asked["Origin"]
    asked["Origin"] = "https://evil.example"
    assert "access-control-allow-origin" not in http.options(f"{small.url}/reset", headers=asked).headers


# Sizes.


def test_a_body_that_says_it_is_too_large_is_not_read(small):
    assert " 413 " in raw(small, f"POST /step HTTP/1.1\r\nHost: x\r\nContent-Length: {LIMIT + 1}\r\n\r\n")


@pytest.mark.parametrize("path", ["/step", "/reset", "/sessions", "/mcp"])
def test_a_body_that_does_not_say_so_is_cut_off(small, path):
    def endless():
        for _ in range(4):
            yield b" " * LIMIT

    answer = http.post(f"{small.url}{path}", content=endless())
    assert answer.status_code == 413
    assert "65536" in answer.json()["detail"]


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 30, "-1", "1e3", "٣", "0x10", ""])
def test_a_length_that_is_no_number_is_refused(small, length):
    line = raw(small, f"POST /step HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")
    assert line == "" or " 400 " in line or " 413 " in line


def test_two_lengths_are_one_too_many(small):
    twice = "Content-Length: 2\r\nContent-Length: 3\r\n"
    line = raw(small, f"POST /reset HTTP/1.1\r\nHost: x\r\n{twice}\r\n{{}}}}")
    assert line == "" or " 400 " in line


@pytest.mark.parametrize("number", ["00", "-1", "9" * 5000, "1.5", "x", "²", "1, 2", ""])
def test_a_call_number_that_is_none_is_refused(small, number):
    line = raw(small, f"POST /reset HTTP/1.1\r\nHost: x\r\nX-Envweave-Call: {number}\r\nContent-Length: 0\r\n\r\n")
    assert " 422 " in line


@pytest.mark.parametrize("header", ["X-Envweave-Session", "X-Envweave-Call", "Origin", "Host"])
def test_a_header_that_must_be_alone_is_refused_twice(small, header):
    twice = f"{header}: 1\r\n{header}: 2\r\n"
    line = raw(small, f"POST /reset HTTP/1.1\r\nHost: x\r\n{twice}Content-Length: 0\r\n\r\n")
    assert " 400 " in line


def test_a_message_over_the_limit_is_an_error_and_the_session_lives(small):
    with talking(small) as ask:
        ask({"type": "reset"})
        told = ask({"type": "step", "data": {"message": "x" * LIMIT}})
        assert told["type"] == "error"
        assert told["data"]["error"]["code"] == "transport.protocol"
        assert ask({"type": "step", "data": {"message": "alive"}})["data"]["observation"]["echoed_message"] == "alive"


@pytest.mark.parametrize("odd", ["x" * (LIMIT + 1), "{", "", b"{}", "[" * 100_000, "[1]", "null", '{"jsonrpc":"2.0"}'])
def test_an_odd_request_on_the_websocket_for_tools_is_an_error_and_the_session_lives(small, odd):
    with talking(small, "/mcp") as ask:
        assert ask(odd)["error"]["code"] in (-32700, -32600)
        assert ask({"jsonrpc": "2.0", "method": "tools/list"})["result"] == {"tools": []}


@pytest.mark.parametrize("subprotocol", [None, "envweave.v1"])
def test_a_hundred_megabytes_are_an_error_and_the_session_lives(small, subprotocol):
    with talking(small, subprotocols=[subprotocol] if subprotocol else None) as ask:
        first = {"type": "open"} if subprotocol else {"type": "reset"}
        assert ask(first)["type"] in ("opened", "observation")
        assert ask("x" * 100_000_000)["type"] == "error"
        assert ask({"type": "state", "id": 1} if subprotocol else {"type": "state"})["type"] == "state"


# What is inside of a message.

ODD = {
    "no JSON": "{",
    "nothing": "",
    "a binary frame": b'{"type":"state"}',
    "binary rubbish": b"\x00\xff\xfe",
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"type":"step","data":' + '{"a":' * 200 + "1" + "}" * 200 + "}",
    "a lone surrogate": r'{"type":"step","data":{"message":"\ud800"}}',
    "a lone surrogate as type": r'{"type":"\ud800"}',
    "NaN": '{"type":"step","data":{"message":NaN}}',
    "infinity": '{"type":"step","data":1e999}',
    "a long number": '{"type":"reset","data":{"seed":' + "9" * 10_000 + "}}",
    "two values": '{"type":"state"}{"type":"state"}',
    "a list": "[1]",
    "null": "null",
    "a number as type": '{"type":1}',
    "a list as type": '{"type":[]}',
    "an unknown type": '{"type":"eval"}',
    "a python name": '{"type":"__class__"}',
    "data that is text": '{"type":"reset","data":"x"}',
    "data that is null": '{"type":"reset","data":null}',
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("subprotocol", [None, "envweave.v1"])
def test_an_odd_message_is_a_typed_error_and_the_session_lives(small, odd, subprotocol):
    with talking(small, subprotocols=[subprotocol] if subprotocol else None) as ask:
        if subprotocol:
            ask({"type": "open"})
        else:
            ask({"type": "reset"})
        told = ask(ODD[odd])
        assert told["type"] == "error", told
        assert re.fullmatch("[A-Z_]+", told["data"]["code"])
        assert "Traceback" not in json.dumps(told)
        assert ask({"type": "reset", "id": 1} if subprotocol else {"type": "state"})["type"] in ("observation", "state")


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_body_is_refused(small, odd):
    body = ODD[odd] if isinstance(ODD[odd], bytes) else ODD[odd].encode()
    if len(body) <= LIMIT and odd != "nothing":
        for path in ("/step", "/restore"):
            assert http.post(f"{small.url}{path}", content=body).status_code == 422
    assert http.get(f"{small.url}/state").status_code == 200


def test_an_odd_ref_or_id_costs_nobody_anything(small):
    with talking(small, subprotocols=["envweave.v1"]) as ask:
        for ref in (None, -1, 1.5, "x", [], {}, True, 10**30):
            for id in (None, 0, -1, 1.5, "x", [], {}, True, 10**30):
                assert ask({"type": "reset", "ref": ref, "id": id})["type"] == "error"
        assert ask({"type": "open", "ref": 5})["type"] == "opened"


# What clients are told.


@pytest.mark.parametrize("over", ["http", "websocket"])
def test_an_error_of_the_environment_shows_no_traceback(failing, over):
    told = _failure(failing, over)
    assert "as asked" in told
    assert "Traceback" not in told
    assert "failing.py" not in told


@pytest.mark.parametrize("over", ["http", "websocket"])
def test_an_error_of_the_environment_shows_its_traceback_with_debug(folder, over):
    with running_server("pkg://failing:Failing", "--debug", cwd=folder) as served:
        told = _failure(served, over)
    assert "Traceback" in told
    assert "failing.py" in told


def _failure(served, over):
    if over == "http":
        assert http.post(f"{served.url}/reset").status_code == 200
        answer = http.post(f"{served.url}/step", json={"action": "fail"})
        assert answer.status_code == 500
        return answer.text
    with talking(served) as ask:
        ask({"type": "reset"})
        return json.dumps(ask({"type": "step", "data": "fail"}))


def test_the_web_server_does_not_say_what_it_is(small):
    assert "server" not in http.get(f"{small.url}/health").headers


# What clients may choose.


def test_arguments_for_the_factory_are_refused_unless_they_are_allowed(folder, failing):
    wanted = {"arguments": {"path": "/etc/passwd"}}
    assert http.post(f"{failing.url}/sessions", json=wanted).status_code == 422
    with talking(failing, subprotocols=["envweave.v1"]) as ask:
        assert "--allow-arguments" in ask({"type": "open", "data": wanted})["data"]["error"]["hint"]
    with running_server("pkg://failing:Failing", "--allow-arguments", cwd=folder) as served:
        session = http.post(f"{served.url}/sessions", json=wanted).json()["session_id"]
        found = http.get(f"{served.url}/state", headers={"X-Envweave-Session": session})
        assert found.json() == {"path": "/etc/passwd"}


def test_a_name_of_a_client_cannot_write_lines_into_the_log(folder):
    name = "x\n12:00:00 info    all is well"
    with running_server("echo", "--log-level", "debug") as served:
        assert http.post(f"{served.url}/sessions", json={"env_id": name}).status_code == 201
        assert http.post(f"{served.url}/sessions", json={"env_id": "x" * 100_000}).status_code == 422
        assert r"x\n12:00:00" in served.errors()
        assert not [line for line in served.errors().splitlines() if line.endswith("all is well")]


def test_session_ids_cannot_be_guessed(small):
    ids = [http.post(f"{small.url}/sessions").json()["session_id"] for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(r"[\w-]{22}", id) for id in ids), "128 bits"
    assert len({id[:4] for id in ids}) > 15


@pytest.mark.parametrize(
    "id", ["../state", "..%2f..%2fetc%2fpasswd", "%00", "x" * 5000, "*", "%ff", "__class__", "0", "%F0%9F%A6%9D"]
)
def test_an_id_that_is_none_finds_nothing(small, id):
    assert " 40" in raw(small, f"DELETE /sessions/{id} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    if "%" not in id and "/" not in id:
        assert http.get(f"{small.url}/state", headers={"X-Envweave-Session": id}).status_code == 404


def test_a_session_that_is_attached_cannot_be_taken_over_by_a_plain_client(small):
    session = http.post(f"{small.url}/sessions").json()["session_id"]
    with connect(f"{small.ws_url}?session_id={session}") as first:
        first.send('{"type":"reset"}')
        assert json.loads(first.recv())["type"] == "observation"
        with connect(f"{small.ws_url}?session_id={session}") as second:
            assert json.loads(second.recv())["data"]["code"] == "SESSION_ERROR"
            with pytest.raises(ConnectionClosed):
                second.recv(timeout=30)
        first.send('{"type":"state"}')
        assert json.loads(first.recv())["type"] == "state"
