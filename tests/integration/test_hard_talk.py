"""Messages that are wrong, and right ones that come in odd pieces: on the usual way and on the short one."""

import json
import os
import re
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.frames import Opcode

from envweave.testing.serving import running_server

SCRIPTS = Path(__file__).parent / "fault_scripts"
if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))

from bare import PlainTalk, WovenTalk, seen  # noqa: E402  (found by the path above)
from census import eventually, metric  # noqa: E402

TOKEN = "correct-horse-battery-staple"
TALKS = pytest.mark.parametrize("talk", [pytest.param(PlainTalk, id="plain"), pytest.param(WovenTalk, id="extension")])
STEPS_BEFORE = pytest.mark.parametrize("before", [0, 40], ids=["usual way", "short way"])
"""After some quick steps a connection is on the short way."""
PROTOCOL = "transport.protocol"
PATHS = os.pathsep.join([str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def serving(*options, **variables):
    variables = {"PYTHONPATH": PATHS, **variables}
    with running_server(
        "pkg://faulty:Counting", "--allow-branching", "--log-level", "warning", *options, env=variables
    ) as server:
        yield server
        errors = server.errors()
        assert errors.count("Traceback") == errors.count("UnicodeDecodeError: "), errors  # uvicorn tells of those aloud


@pytest.fixture(scope="module")
def server():
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def guarded():
    with serving(ENVWEAVE_TOKEN=TOKEN) as served:
        yield served


def warm(client, steps):
    """Begin an episode and take so many quick steps."""
    assert client.reset()["count"] == 0
    for number in range(1, steps + 1):
        assert client.step(number)["count"] == number


def goes_on(client, count):
    """The episode is where it was."""
    for number in range(count + 1, count + 4):
        assert client.step(number)["count"] == number


def error(reply):
    assert reply["type"] == "error", reply
    return reply["data"]["code"], reply["data"]["error"]["code"]


# Messages that are wrong.

WRONG = {
    "nothing": ("", "INVALID_JSON", PROTOCOL),
    "half an object": ('{"type":"step"', "INVALID_JSON", PROTOCOL),
    "two objects": ('{"type":"step","data":1}{}', "INVALID_JSON", PROTOCOL),
    "not a number": ('{"type":"step","data":NaN}', "INVALID_JSON", PROTOCOL),
    "a lone surrogate": ('{"type":"step","data":"\\ud800"}', "INVALID_JSON", PROTOCOL),
    "a number": ("7", "VALIDATION_ERROR", PROTOCOL),
    "text": ('"step"', "VALIDATION_ERROR", PROTOCOL),
    "null": ("null", "VALIDATION_ERROR", PROTOCOL),
    "deep": ("[" * 500 + "]" * 500, "VALIDATION_ERROR", PROTOCOL),
    "very deep": ("[" * 100_000, "VALIDATION_ERROR", PROTOCOL),
    "a deep action": (f'{{"type":"step","id":1,"data":{"[" * 80}{"]" * 80}}}', "VALIDATION_ERROR", PROTOCOL),
    "no type": ("{}", "UNKNOWN_TYPE", PROTOCOL),
    "an unknown type": ('{"type":"dance"}', "UNKNOWN_TYPE", PROTOCOL),
    "a number as type": ('{"type":7}', "UNKNOWN_TYPE", PROTOCOL),
    "a list as type": ('{"type":["step"]}', "UNKNOWN_TYPE", PROTOCOL),
    "an object as type": ('{"type":{"step":1}}', "UNKNOWN_TYPE", PROTOCOL),
}

WRONG_PLAIN = {
    "a list": ("[]", "VALIDATION_ERROR", PROTOCOL),
    "a step without an action": ('{"type":"step"}', "VALIDATION_ERROR", PROTOCOL),
    "a step with more": ('{"type":"step","data":1,"more":2}', "VALIDATION_ERROR", PROTOCOL),
    "a state with data": ('{"type":"state","data":{}}', "VALIDATION_ERROR", PROTOCOL),
    "a reset with a list": ('{"type":"reset","data":[]}', "VALIDATION_ERROR", PROTOCOL),
    "text as seed": ('{"type":"reset","data":{"seed":"x"}}', "EXECUTION_ERROR", "usage"),
    "true as seed": ('{"type":"reset","data":{"seed":true}}', "EXECUTION_ERROR", "usage"),
    "a number as episode": ('{"type":"reset","data":{"episode_id":7}}', "EXECUTION_ERROR", "usage"),
    "an option nobody takes": ('{"type":"reset","data":{"colour":"red"}}', "EXECUTION_ERROR", "usage"),
    "a call of the extension": ('{"type":"render"}', "UNKNOWN_TYPE", PROTOCOL),
}


@STEPS_BEFORE
@pytest.mark.parametrize(("text", "code", "ours"), {**WRONG, **WRONG_PLAIN}.values(), ids=[*WRONG, *WRONG_PLAIN])
def test_a_wrong_message_gets_its_error_and_the_episode_goes_on(server, before, text, code, ours):
    with PlainTalk(server.url) as client:
        warm(client, before)
        assert error(client.ask(text)) == (code, ours)
        goes_on(client, before)


@STEPS_BEFORE
@pytest.mark.parametrize("text", [text for text, *_ in WRONG.values()], ids=WRONG)
def test_in_the_extension_too_a_wrong_message_gets_its_error_and_the_episode_goes_on(server, before, text):
    with WovenTalk(server.url) as client:
        warm(client, before)
        reply = client.ask(text)
        assert error(reply)[1] == PROTOCOL
        assert "id" not in reply
        goes_on(client, before)


NUMBERED = {
    "text as seed": ("reset", {"seed": "x"}, "usage"),
    "a fraction as seed": ("reset", {"seed": 1.5}, "usage"),
    "a list as options": ("reset", {"options": []}, "usage"),
    "an option nobody takes": ("reset", {"colour": "red"}, "usage"),
    "a reset with a number": ("reset", 7, PROTOCOL),
    "a response with text": ("respond", "x", PROTOCOL),
    "a response to nothing": ("respond", {"request_id": 7}, "usage"),
    "a restore with a list": ("restore", [], PROTOCOL),
    "a restore of nothing": ("restore", {"snapshot": ["x"]}, "usage"),
}


@STEPS_BEFORE
@pytest.mark.parametrize(("kind", "data", "ours"), NUMBERED.values(), ids=NUMBERED)
def test_a_call_that_is_refused_has_used_its_number_and_nothing_else(server, before, kind, data, ours):
    with WovenTalk(server.url) as client:
        warm(client, before)
        message = client.message(kind, data)
        reply = client.ask(message)
        assert error(reply)[1] == ours
        assert (reply["ref"], reply["id"]) == (0, message["id"])
        goes_on(client, before)


UNNUMBERED = {
    "no number": {"type": "step", "data": 1},
    "text as number": {"type": "step", "id": "1", "data": 1},
    "a fraction as number": {"type": "step", "id": 1.0, "data": 1},
    "true as number": {"type": "step", "id": True, "data": 1},
    "zero": {"type": "step", "id": 0, "data": 1},
    "a number from the future": {"type": "step", "id": 10**30, "data": 1},
    "a ref nobody opened": {"type": "step", "ref": 99, "id": 1, "data": 1},
    "text as ref": {"type": "step", "ref": "0", "id": 1, "data": 1},
    "a list as ref": {"type": "step", "ref": [0], "id": 1, "data": 1},
    "a close without a number": {"type": "close"},
    "an open with a list as ref": {"type": "open", "ref": [1]},
    "an open with a ref in use": {"type": "open", "ref": 0},
    "an open with a number": {"type": "open", "ref": 1, "data": 7},
    "an open with text as deadline": {"type": "open", "ref": 1, "data": {"deadline": "x"}},
    "an open with a deadline in the past": {"type": "open", "ref": 1, "data": {"deadline": -1}},
    "an open with a list as name": {"type": "open", "ref": 1, "data": {"env_id": []}},
    "a batch that is none": {"type": "batch", "data": {"type": "step"}},
    "a batch of resets": {"type": "batch", "data": [{"type": "reset", "ref": 0, "id": 1}]},
}


@STEPS_BEFORE
@pytest.mark.parametrize("message", UNNUMBERED.values(), ids=UNNUMBERED)
def test_a_message_with_fields_of_the_wrong_kind_uses_no_number(server, before, message):
    with WovenTalk(server.url) as client:
        warm(client, before)
        assert error(client.ask(message))[1] == PROTOCOL
        goes_on(client, before)


@TALKS
@STEPS_BEFORE
def test_a_binary_frame_is_refused_and_the_episode_goes_on(server, talk, before):
    with talk(server.url) as client:
        warm(client, before)
        message = json.dumps({"type": "step", "id": before + 2, "data": 1}).encode()
        client.write(client.framed(message, opcode=Opcode.BINARY))
        assert error(client.receive()) == ("VALIDATION_ERROR", PROTOCOL)
        goes_on(client, before)


def test_a_step_before_the_first_reset_is_refused_and_the_session_lives_on(server):
    with WovenTalk(server.url) as client:
        assert error(client.ask(client.step_message(1)))[1] == "usage.reset_needed"
        warm(client, 3)


@TALKS
@STEPS_BEFORE
def test_a_step_after_the_end_is_refused_and_the_session_lives_on(server, talk, before):
    with talk(server.url) as client:
        warm(client, before)
        assert client.step({"end": True})["count"] == before + 1
        for _ in range(3):
            assert error(client.ask(client.step_message(1)))[1] == "usage.reset_needed"
        warm(client, 3)


@STEPS_BEFORE
def test_text_that_is_not_utf_8_costs_the_connection_and_not_the_session(server, before):
    with WovenTalk(server.url) as client:
        warm(client, before)
        client.write(client.framed(b'{"type":"step","data":"\xff"}'))
        assert client.next_control().data[:2] == (1007).to_bytes(2)
        session = client.opened["session_id"]
    with WovenTalk(server.url, resume=session) as client:
        goes_on(client, before)


# Messages in odd pieces.


@TALKS
@STEPS_BEFORE
def test_a_message_may_come_in_fragments_with_a_ping_between_them(server, talk, before):
    with talk(server.url) as client:
        warm(client, before)
        text = json.dumps(client.step_message("in pieces")).encode()
        client.write(client.framed(text[:5], fin=False))
        client.write(client.framed(b"there?", opcode=Opcode.PING))
        pong = client.next_control()
        assert (pong.opcode, pong.data) == (Opcode.PONG, b"there?")
        client.write(
            client.framed(text[5:9], opcode=Opcode.CONT, fin=False) + client.framed(b"", opcode=Opcode.CONT, fin=False)
        )
        client.write(client.framed(text[9:], opcode=Opcode.CONT))
        found = seen(client.receive())
        assert (found["count"], found["said"]) == (before + 1, "in pieces")
        goes_on(client, before + 1)


@TALKS
@STEPS_BEFORE
@pytest.mark.parametrize("action", ["short", "x" * 200], ids=["short", "longer"])
def test_a_message_may_come_byte_by_byte(server, talk, before, action):
    with talk(server.url) as client:
        warm(client, before)
        for at, byte in enumerate(frame := client.framed(client.step_message(action))):
            client.write(bytes([byte]))
            if at % 16 == 0 and at < len(frame) - 1:  # a question in between: the bytes do not travel together
                metric(server.url, "envweave_sessions")
        found = seen(client.receive())
        assert (found["count"], found["said"]) == (before + 1, action)
        goes_on(client, before + 1)
        for number in range(before + 5, before + 40):
            assert client.step(number)["count"] == number


@TALKS
@STEPS_BEFORE
@pytest.mark.parametrize("cut", [1, 2, 3, 5, 6, 20, -1])
def test_a_message_may_come_in_two_segments(server, talk, before, cut):
    with talk(server.url) as client:
        warm(client, before)
        frame = client.framed(client.step_message("halves"))
        client.write(frame[:cut])
        metric(server.url, "envweave_sessions")
        client.write(frame[cut:])
        assert seen(client.receive())["count"] == before + 1
        goes_on(client, before + 1)


@STEPS_BEFORE
def test_several_messages_in_one_segment_are_answered_in_order(server, before):
    with PlainTalk(server.url) as client:
        warm(client, before)
        for count in (before, before + 5):
            client.send(*(client.step_message(number) for number in range(5)))
            found = [seen(client.receive()) for _ in range(5)]
            assert [(one["count"], one["said"]) for one in found] == [(count + n + 1, n) for n in range(5)]
        client.send(client.step_message("right"), "wrong", {"type": "state"})
        assert seen(client.receive())["count"] == before + 11
        assert error(client.receive()) == ("INVALID_JSON", PROTOCOL)
        assert client.receive() == {"type": "state", "data": {"count": before + 11}}
        goes_on(client, before + 11)


@STEPS_BEFORE
@pytest.mark.parametrize("together", ["segment", "frame"])
def test_messages_for_several_sessions_may_come_together(server, before, together):
    with WovenTalk(server.url) as client:
        for ref in (1, 2):
            client.open(ref)
            client.ask(client.message("reset", {}, ref=ref))
        warm(client, before)
        for count in (1, 2, 3):
            messages = [client.message("step", f"for {ref}", ref=ref) for ref in (1, 2, 0)]
            client.send(*(messages if together == "segment" else [messages]))
            found = {reply["ref"]: seen(reply) for reply in [client.next_message() for _ in messages]}
            assert {ref: one["said"] for ref, one in found.items()} == {ref: f"for {ref}" for ref in (0, 1, 2)}
            assert [found[ref]["count"] for ref in (0, 1, 2)] == [before + count, count, count]


@STEPS_BEFORE
def test_a_call_that_is_sent_again_gets_the_same_answer_and_is_not_run_again(server, before):
    with WovenTalk(server.url) as client:
        warm(client, before)
        message = client.step_message("once")
        answers = [client.ask(message) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert seen(answers[0])["count"] == before + 1
        goes_on(client, before + 1)


@TALKS
def test_a_ping_in_the_middle_of_quick_steps_is_answered(server, talk):
    with talk(server.url) as client:
        warm(client, 40)
        for round in range(5):
            ping = client.framed(b"%d" % round, opcode=Opcode.PING)
            client.write(ping)
            pong = client.next_control()
            assert (pong.opcode, pong.data) == (Opcode.PONG, b"%d" % round)
            client.write(client.framed(client.step_message("with a ping")) + ping)  # in one segment
            assert seen(client.receive())["said"] == "with a ping"
            assert client.next_control().data == b"%d" % round
            for _ in range(15):
                client.step("on")
        assert client.step("last")["count"] == 40 + 5 * 16 + 1


@TALKS
@STEPS_BEFORE
@pytest.mark.parametrize("size", [60_000, 65_536, 100_000, 1_000_000])
def test_a_long_message_in_between_arrives_whole(server, talk, before, size):
    with talk(server.url) as client:
        warm(client, before)
        for count in (before + 1, before + 2):
            found = client.step("x" * size)
            assert (found["count"], len(found["said"])) == (count, size)
        goes_on(client, before + 2)


@TALKS
def test_a_client_that_says_goodbye_in_the_middle_of_quick_steps_is_answered(server, talk):
    open_before = metric(server.url, "envweave_sessions")
    with talk(server.url) as client:
        warm(client, 40)
        client.write(client.framed((1000).to_bytes(2), opcode=Opcode.CLOSE))
        assert client.next_control().opcode == Opcode.CLOSE
    assert eventually(lambda: metric(server.url, "envweave_sessions") <= open_before)


# Plain HTTP.


class Keep:
    """One keep-alive connection, whose every byte the test decides on."""

    def __init__(self, served, **headers):
        where = urlsplit(served.url)
        self.host = where.netloc
        self.headers = headers
        self._socket = socket.create_connection((where.hostname, where.port), 30.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self.write = self._socket.sendall

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._file.close()
        self._socket.close()

    def request(self, path, data=None, *, method="POST", **headers):
        """The bytes; a header that is None is left out."""
        body = b"" if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
        found = {"host": self.host, **self.headers, "content-length": len(body), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in found.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body

    def receive(self):
        """The status and the data of the next response."""
        line = self._file.readline()
        assert line, "the server hung up"
        length = None
        while (header := self._file.readline().strip()) != b"":
            if found := re.fullmatch(rb"(?i)content-length: *(\d+)", header):
                length = int(found[1])
        text = self._file.read(length)
        return int(line.split()[1]), json.loads(text)

    def ask(self, path, data=None, **options):
        self.write(self.request(path, data, **options))
        return self.receive()

    def step(self, action, **options):
        status, data = self.ask("/step", {"action": action}, **options)
        assert status == 200, data
        return data["observation"]

    def warm(self, steps):
        status, data = self.ask("/reset", {})
        assert (status, data["observation"]["count"]) == (200, 0)
        for number in range(1, steps + 1):
            assert self.step(number)["count"] == number


@contextmanager
def keeping(served, **headers):
    """A connection with a session of its own."""
    with Keep(served, **headers) as client:
        status, opened = client.ask("/sessions", {})
        assert status == 201
        client.headers["x_envweave_session"] = opened["session_id"]
        try:
            yield client
        finally:
            with Keep(served, **headers) as other:
                other.ask(f"/sessions/{opened['session_id']}", method="DELETE")


@STEPS_BEFORE
def test_pipelined_requests_are_answered_in_order(server, before):
    with keeping(server) as client:
        client.warm(before)
        for count in (before, before + 5):
            client.write(b"".join(client.request("/step", {"action": number}) for number in range(5)))
            found = [client.receive() for _ in range(5)]
            assert [status for status, _ in found] == [200] * 5
            assert [data["observation"]["count"] for _, data in found] == [count + n for n in range(1, 6)]
        client.write(client.request("/step", {"action": 1}) + client.request("/state", method="GET"))
        assert client.receive()[1]["observation"]["count"] == before + 11
        assert client.receive() == (200, {"count": before + 11})


@STEPS_BEFORE
@pytest.mark.parametrize("where", ["line", "head", "end of head", "start of body", "body", "last byte"])
def test_a_request_may_come_in_two_segments(server, before, where):
    with keeping(server) as client:
        client.warm(before)
        for count in (before + 1, before + 2, before + 3):
            data = client.request("/step", {"action": "halves"})
            end = data.index(b"\r\n\r\n")
            cuts = {"line": 3, "head": 40, "end of head": end + 2, "start of body": end + 4, "body": end + 9}
            cut = cuts.get(where, len(data) - 1)
            client.write(data[:cut])
            metric(server.url, "envweave_sessions")
            client.write(data[cut:])
            status, found = client.receive()
            assert (status, found["observation"]["count"]) == (200, count)
            assert found["observation"]["said"] == "halves"
        assert [client.step(n)["count"] for n in range(20)] == [*range(before + 4, before + 24)]


def test_a_request_may_come_byte_by_byte_after_quick_steps(server):
    with keeping(server) as client:
        client.warm(40)
        for byte in client.request("/step", {"action": "bytes"}):
            client.write(bytes([byte]))
        assert client.receive()[1]["observation"]["count"] == 41
        assert client.step("on")["count"] == 42


@STEPS_BEFORE
def test_a_wrong_body_gets_its_error_and_the_episode_goes_on(server, before):
    wrong = [b"{", b"[]", b"7", b"{}", b"", b'{"action":' + b"[" * 500 + b"]" * 500 + b"}", b"\xff"]
    with keeping(server) as client:
        client.warm(before)
        for count, body in enumerate(wrong, before + 1):
            status, data = client.ask("/step", body)
            assert (status, data["error"]["code"]) == (422, PROTOCOL), body
            assert client.step("on")["count"] == count


@STEPS_BEFORE
def test_a_long_body_in_between_arrives_whole(server, before):
    with keeping(server) as client:
        client.warm(before)
        for count, size in enumerate((60_000, 65_536, 100_000, 1_000_000), before + 1):
            found = client.step("x" * size)
            assert (found["count"], len(found["said"])) == (count, size)
        assert client.step("on")["count"] == before + 5


@STEPS_BEFORE
def test_a_numbered_call_that_is_sent_again_is_not_run_again(server, before):
    with keeping(server) as client:
        client.ask("/reset", {}, x_envweave_call=1)
        for number in range(1, before + 1):
            assert client.step(number, x_envweave_call=number + 1)["count"] == number
        for _ in range(3):
            assert client.step("once", x_envweave_call=before + 2)["count"] == before + 1
        status, data = client.ask("/step", {"action": 1}, x_envweave_call=before + 9)
        assert (status, data["error"]["code"]) == (409, PROTOCOL)
        assert client.step("on", x_envweave_call=before + 3)["count"] == before + 2


def test_another_session_on_the_same_connection_is_another_session(server):
    with keeping(server) as client, keeping(server) as other:
        client.warm(40)
        other.warm(3)
        session = other.headers["x_envweave_session"]
        assert client.step("theirs", x_envweave_session=session)["count"] == 4
        assert client.step("mine")["count"] == 41
        for number in range(1, 41):  # by turns, after each a step that could be mistaken for one of the same kind
            assert client.step("theirs", x_envweave_session=session)["count"] == 4 + number
            assert client.step("mine")["count"] == 41 + number
        status, data = client.ask("/step", {"action": 1}, x_envweave_session="nobody")
        assert (status, data["error"]["code"]) == (404, "transport.session_lost")
        assert client.step("mine")["count"] == 82


def test_a_session_that_was_closed_meanwhile_is_not_found_after_quick_steps(server):
    with keeping(server) as client:
        client.warm(40)
        with Keep(server) as other:
            status, _ = other.ask(f"/sessions/{client.headers['x_envweave_session']}", method="DELETE")
            assert status == 200
        status, data = client.ask("/step", {"action": 1})
        assert (status, data["error"]["code"]) == (404, "transport.session_lost")


@pytest.mark.parametrize(
    "given",
    [None, "Bearer wrong", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"bearer{TOKEN}"],
)
def test_the_token_is_looked_at_anew_after_quick_steps(guarded, given):
    with keeping(guarded, authorization=f"Bearer {TOKEN}") as client:
        client.warm(40)
        for count in (41, 42, 43):
            status, data = client.ask("/step", {"action": "without"}, authorization=given)
            assert (status, data["error"]["code"]) == (401, "transport.unauthorized")
            assert client.step("with")["count"] == count  # the other one was not run


def test_who_never_had_the_token_does_not_get_in_by_trying_often(guarded):
    with keeping(guarded, authorization=f"Bearer {TOKEN}") as client, Keep(guarded) as stranger:
        client.warm(40)
        session = client.headers["x_envweave_session"]
        for number in range(41, 71):
            status, _ = stranger.ask("/step", {"action": 1}, x_envweave_session=session)
            assert status == 401
            assert client.step(number)["count"] == number


def test_other_headers_are_looked_at_anew_after_quick_steps(guarded):
    with keeping(guarded, authorization=f"Bearer {TOKEN}") as client:
        client.warm(40)
        status, _ = client.ask("/step", {"action": 1}, origin="https://evil.example")
        assert status == 403
        assert client.step("on")["count"] == 41
        twice = client.request("/step", {"action": 1}).replace(b"\r\n", b"\r\nauthorization: Bearer wrong\r\n", 1)
        client.write(twice)
        assert client.receive()[0] == 400
        assert client.step("on")["count"] == 42
        assert client.ask("/state", method="GET") == (200, {"count": 42})
        assert client.ask("/nowhere", {"action": 1})[0] == 404
        assert client.step("on")["count"] == 43


# Failures that are no reply.


@pytest.fixture(scope="module")
def odd():
    with running_server("pkg://faulty:Odd", env={"PYTHONPATH": PATHS}) as served:
        yield served


def begin(client):
    return client.ask(client.message("reset", {}) if isinstance(client, WovenTalk) else {"type": "reset", "data": {}})


@pytest.mark.parametrize("action", ["surrogate", "own surrogate", "interrupt"])
@TALKS
def test_a_failure_that_is_no_reply_ends_the_episode_on_the_short_way_too(odd, talk, action):
    with talk(odd.url, timeout=3.0) as client:
        begin(client)
        for _ in range(40):
            client.step(1)
        reply = client.ask(client.step_message(action))
        assert reply["data"]["error"]["code"].startswith("env")
        assert [one["reason"] for one in reply["data"]["requests"]] == ["infra_error"]
        assert begin(client)["type"] == "observation"


@pytest.mark.parametrize("action", ["surrogate", "own surrogate", "interrupt"])
def test_a_failure_that_is_no_reply_ends_the_episode_in_a_batch_too(odd, action):
    with WovenTalk(odd.url, timeout=3.0) as client:
        client.open(1)
        for ref in (0, 1):
            client.ask(client.message("reset", {}, ref=ref))
        for said in [1] * 20 + [action]:
            client.send({"type": "batch", "data": [client.message("step", s, ref=r) for r, s in ((0, said), (1, 1))]})
            found = {reply["ref"]: reply for reply in (client.next_message(), client.next_message())}
        assert found[1]["type"] == "observation"
        assert found[0]["data"]["error"]["code"].startswith("env")


@pytest.mark.parametrize("action", ["surrogate", "own surrogate", "interrupt"])
def test_a_failure_that_is_no_reply_ends_the_episode_over_http_too(odd, action):
    with keeping(odd) as client:
        client.ask("/reset", {})
        for _ in range(40):
            client.step(1)
        assert client.ask("/step", {"action": action})[0] == 500
        assert client.ask("/reset", {})[0] == 200


def test_the_message_of_an_environment_with_a_lone_surrogate_still_tells_what_was_raised(odd):
    with PlainTalk(odd.url) as client:
        begin(client)
        reply = client.ask(client.step_message("surrogate"))
        assert "OSError: no file 'a" in reply["data"]["message"]
        assert reply["data"]["error"]["code"] == "env"


@pytest.mark.parametrize("ref", [[1], {}])
def test_a_batch_with_a_ref_of_the_wrong_kind_is_refused_and_the_connection_lives_on(odd, ref):
    with WovenTalk(odd.url) as client:
        reply = client.ask({"type": "batch", "data": [{"type": "step", "ref": ref, "id": 1}]})
        assert reply["data"]["error"]["code"] == "transport.protocol"
        assert begin(client)["type"] == "observation"


@pytest.mark.parametrize("number", [1.0, True])
def test_a_batch_with_a_number_of_the_wrong_kind_uses_none(odd, number):
    with WovenTalk(odd.url) as client:
        reply = client.ask({"type": "batch", "data": [{"type": "step", "ref": 0, "id": number}]})
        assert reply["data"]["error"]["code"] == "transport.protocol"
        assert begin(client)["type"] == "observation"


@pytest.fixture(scope="module")
def small():
    with serving("--max-message-bytes", "1024") as served:
        yield served


@TALKS
def test_a_message_over_the_limit_is_refused_on_the_short_way_too(small, talk):
    with talk(small.url) as client:
        warm(client, 40)
        assert client.ask(client.step_message("x" * 3000))["type"] == "error"


def test_a_body_over_the_limit_is_refused_on_the_short_way_too(small):
    with keeping(small) as client:
        client.warm(40)
        assert client.ask("/step", {"action": "x" * 3000})[0] == 413
