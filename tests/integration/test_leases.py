"""How long things live on a server: sessions, places, environments, clients that say nothing."""

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

import envweave as ew
from envweave.errors import CapacityError, EnvError, ResetNeededError, SessionLostError
from envweave.requests import EpisodeEnd
from envweave.testing.serving import running_server

SCRIPTS = Path(__file__).parent / "fault_scripts"
if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))

from bare import PlainTalk, WovenTalk  # noqa: E402  (found by the path above)
from census import eventually, metric  # noqa: E402

TALKS = [pytest.param(PlainTalk, id="plain"), pytest.param(WovenTalk, id="extension")]
ISOLATIONS = ["thread", "process"]
CAPACITY = "transport.capacity"
LOST = "transport.session_lost"


@contextmanager
def serving(name, *options):
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    options = ("--log-level", "error", *options)
    with running_server(f"pkg://faulty:{name}", *options, env={"PYTHONPATH": os.pathsep.join(paths)}) as server:
        yield server


def sessions(server):
    return metric(server.url, "envweave_sessions")


def code(reply):
    assert reply["type"] == "error", reply
    return reply["data"]["error"]["code"]


def refusal(server):
    """What an OpenEnv client is told that is not let in; then the server hangs up."""
    with connect(server.ws_url, compression=None) as client:
        told = json.loads(client.recv(timeout=30.0))
        client.send('{"type":"reset","data":{}}')
        assert list(client) == []
        return told


def ends(requests):
    return [request.reason for request in requests if isinstance(request, EpisodeEnd)]


class Book:
    """What a `Diary` wrote."""

    def __init__(self, folder):
        self.path = folder / "diary"
        self.options = ("--arg", f"path={self.path}")

    def count(self, word):
        return self.path.read_text().split("\n").count(word) if self.path.exists() else 0


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


# Clients that are silent.


@pytest.fixture(scope="module")
def impatient():
    """Pings often; a session waits for nobody."""
    with serving("Counting", "--ping-interval", "0.2", "--resume-within", "0") as server:
        yield server


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("steps", [0, 40])
def test_a_client_that_answers_no_pings_is_given_up(impatient, talk, steps):
    opened = metric(impatient.url, "envweave_sessions_opened_total")
    client = talk(impatient.url)
    try:
        client.reset()
        for number in range(1, steps + 1):  # the last of them go the short way
            assert client.step(number)["count"] == number
        assert metric(impatient.url, "envweave_sessions_opened_total") == opened + 1
        assert eventually(lambda: sessions(impatient) == 0)  # nobody reads from the socket
    finally:
        client.cut()


def test_a_client_that_answers_pings_stays_however_long_it_says_nothing(impatient):
    with WovenTalk(impatient.url) as client:
        client.reset()
        pings = 0
        while pings < 5:  # more than it takes to give up one that does not answer
            pings += client.next_control().opcode == 9
        assert client.step(1)["count"] == 1
    assert eventually(lambda: sessions(impatient) == 0)


@pytest.fixture(scope="module")
def forgetful():
    with serving("Counting", "--idle-timeout", "0.5") as server:
        yield server


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("steps", [0, 40])
def test_a_client_that_is_idle_is_told_that_its_session_is_lost(forgetful, talk, steps):
    with talk(forgetful.url) as client:
        client.reset()
        for number in range(1, steps + 1):
            assert client.step(number)["count"] == number
        told = client.receive()
        assert code(told) == LOST
        assert "idle" in told["data"]["message"]
        assert sessions(forgetful) == 0
        if talk is WovenTalk:  # the connection is good for another
            assert (told["ref"], "id" in told) == (0, False)
            client.open(1)
            assert client.ask(client.message("reset", {}, ref=1))["data"]["observation"]["count"] == 0
        else:
            assert client.ends() == []
    assert eventually(lambda: sessions(forgetful) == 0)


def test_an_idle_client_of_ours_learns_of_it_with_the_end_of_its_episode(forgetful):
    with ew.connect(forgetful.url) as client:
        client.reset()
        assert eventually(lambda: sessions(forgetful) == 0)
        with pytest.raises(SessionLostError) as caught:
            client.step(1)
        assert ends(caught.value.requests) == ["infra_error"]
        assert client.reset().observation["count"] == 0
        assert client.step(1).observation["count"] == 1


def test_a_client_that_speaks_now_and_then_is_not_idle(forgetful):
    with PlainTalk(forgetful.url) as client:
        client.reset()
        for number in range(1, 6):  # 0.75 s in all, more than a session may be idle
            assert client.step({"sleep": 0.15})["count"] == number


# Room.


@pytest.fixture(scope="module")
def narrow():
    with serving("Counting", "--max-sessions", "1") as server:
        yield server


@pytest.mark.parametrize("talk", TALKS)
def test_who_comes_to_a_full_server_is_refused_and_finds_room_after_a_close(narrow, talk):
    with talk(narrow.url) as first:
        first.reset()
        reply = refusal(narrow)
        assert (code(reply), reply["data"]["code"]) == (CAPACITY, "CAPACITY_REACHED")
        assert (reply["data"]["active_sessions"], reply["data"]["max_sessions"]) == (1, 1)
        with pytest.raises(CapacityError), ew.connect(narrow.url) as client:
            client.reset()
        assert first.step(1)["count"] == 1  # who is in is not disturbed
    assert eventually(lambda: sessions(narrow) == 0)
    with ew.connect(narrow.url) as client:
        assert client.reset().observation["count"] == 0
    assert eventually(lambda: sessions(narrow) == 0)


def test_on_a_full_server_the_extension_is_refused_by_session_and_not_by_connection(narrow):
    with WovenTalk(narrow.url) as client:
        client.reset()
        for _ in range(3):
            reply = client.ask({"type": "open", "ref": 1, "data": {}})
            assert (code(reply), reply["ref"]) == (CAPACITY, 1)
        assert client.step(1)["count"] == 1
        assert client.ask(client.message("close"))["type"] == "closed"
        client.open(1)
    assert eventually(lambda: sessions(narrow) == 0)


def test_a_full_server_has_room_again_when_a_client_vanishes(narrow):
    for _ in range(5):
        client = PlainTalk(narrow.url)
        client.reset()
        client.cut()
        assert eventually(lambda: sessions(narrow) == 0)
    with PlainTalk(narrow.url) as client:
        assert client.reset()["count"] == 0
    assert eventually(lambda: sessions(narrow) == 0)


def test_an_environment_that_cannot_be_built_takes_no_room(tmp_path):
    path = tmp_path / "missing" / "diary"
    with serving("Diary", "--arg", f"path={path}", "--max-sessions", "1") as server:
        for _ in range(3):
            reply = refusal(server)
            assert (code(reply), reply["data"]["code"]) == ("env", "FACTORY_ERROR")
        path.parent.mkdir()
        with PlainTalk(server.url) as client:
            assert client.reset()["count"] == 0


# Environments that take too long.


@pytest.fixture(scope="module")
def hasty():
    with serving("Counting", "--step-timeout", "0.5") as server:
        yield server


@pytest.fixture(scope="module")
def hasty_processes():
    """A little more time: it is also all that a process has to start."""
    with serving("Counting", "--step-timeout", "1.0", "--isolation", "process") as server:
        yield server


@pytest.mark.parametrize("fixture", ["hasty", "hasty_processes"])
def test_a_step_that_takes_too_long_ends_its_episode_once_and_its_answer_is_dropped(request, fixture, tmp_path):
    gate = tmp_path / "gate"
    try:
        with ew.connect(request.getfixturevalue(fixture).url) as client:
            client.reset(episode_id="mine")
            for number in range(1, 31):
                assert client.step(number).observation["count"] == number
            with pytest.raises(EnvError, match=r"step of .* took longer than (0\.5|1) s") as caught:
                client.step({"wait": str(gate)})
            (end,) = caught.value.requests
            assert (end.reason, end.episode_id) == ("infra_error", "mine")
            with pytest.raises(ResetNeededError) as again:
                client.step(1)
            assert again.value.requests == ()
            begun = client.reset()
            assert (begun.observation["count"], ends(begun.requests)) == (0, [])
            assert client.step(1).observation["count"] == 1
            gate.touch()  # now the late one answers, and nobody hears it
            for number in range(2, 100):
                result = client.step(number)
                assert (result.observation["count"], result.observation["said"]) == (number, number)
                assert ends(result.requests) == []
    finally:
        gate.touch()


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("steps", [0, 30])
def test_a_step_that_takes_too_long_is_told_once(hasty, tmp_path, talk, steps):
    gate = tmp_path / "gate"
    try:
        with talk(hasty.url) as client:
            client.reset()
            for number in range(1, steps + 1):
                client.step(number)
            reply = client.ask(client.step_message({"wait": str(gate)}))
            assert code(reply) == "env"
            assert [one["reason"] for one in reply["data"]["requests"]] == ["infra_error"]
            gate.touch()
            assert client.reset()["count"] == 0
            assert client.step("on")["count"] == 1
    finally:
        gate.touch()


def test_a_reset_that_takes_too_long_is_given_up_and_the_next_one_works(hasty, tmp_path):
    gate = tmp_path / "gate"
    try:
        with ew.connect(hasty.url) as client:
            with pytest.raises(EnvError, match=r"reset of .* took longer than 0\.5 s"):
                client.reset(wait=str(gate))
            assert client.reset().observation["count"] == 0
            assert client.step(1).observation["count"] == 1
    finally:
        gate.touch()


def test_an_async_environment_that_takes_too_long_is_given_up_too(tmp_path):
    with serving("Lingering", "--step-timeout", "0.3") as server, ew.connect(server.url) as client:
        client.reset()
        with pytest.raises(EnvError, match="took longer than") as caught:
            client.step({"gate": str(tmp_path / "never")})
        assert ends(caught.value.requests) == ["infra_error"]
        assert client.reset().observation["count"] == 0
        assert client.step({}).observation["count"] == 1


def test_an_environment_that_was_given_up_is_closed_when_its_step_returns(book, tmp_path):
    gate = tmp_path / "gate"
    try:
        with serving("Diary", *book.options, "--step-timeout", "0.3") as server, PlainTalk(server.url) as client:
            client.reset()
            assert code(client.ask(client.step_message({"wait": str(gate)}))) == "env"
            assert client.reset()["count"] == 0
            assert (book.count("built"), book.count("closed")) == (2, 0)
            gate.touch()
            assert eventually(lambda: book.count("closed") == 1)
            assert client.step(1)["count"] == 1  # the new one is another
    finally:
        gate.touch()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_environment_whose_close_hangs_does_not_keep_its_place(book, isolation):
    options = ("--arg", "hang_in_close=true", "--max-sessions", "1", "--close-timeout", "0.3", "--isolation", isolation)
    with serving("Diary", *book.options, *options) as server:
        for talk in (PlainTalk, WovenTalk):
            with talk(server.url) as client:  # waits until the one before it has left
                assert client.reset()["count"] == 0
        with WovenTalk(server.url) as client:
            reply = client.ask(client.message("close"))
            assert code(reply) == "env"
            assert "took longer than 0.3 s" in reply["data"]["message"]
        assert eventually(lambda: sessions(server) == 0)
        assert (book.count("closing"), book.count("closed")) == (3, 0)


# The end.


@pytest.mark.parametrize(("isolation", "stop"), [("thread", signal.SIGTERM), ("process", signal.SIGINT)])
def test_a_server_that_is_told_to_stop_closes_its_environments_first(book, isolation, stop):
    with serving("Diary", *book.options, "--isolation", isolation) as server:
        with PlainTalk(server.url) as plain, WovenTalk(server.url) as woven, WovenTalk(server.url) as lost:
            for client in (plain, woven, lost):
                client.reset()
            for number in range(1, 31):  # on the short way
                assert plain.step(number)["count"] == woven.step(number)["count"] == number
            lost.cut()
            server.process.send_signal(stop)
            server.process.wait(30.0)
        assert book.count("built") == book.count("closed") == 3
        assert server.process.returncode == 0
        assert "Traceback" not in server.errors()


def test_a_server_that_is_told_to_stop_does_not_wait_for_ever_for_a_step(tmp_path, book):
    started = tmp_path / "started"
    with serving("Diary", *book.options, "--close-timeout", "0.3") as server, PlainTalk(server.url) as client:
        client.reset()
        client.send(client.step_message({"note": str(started), "wait": str(tmp_path / "never")}))
        assert eventually(started.exists)
        server.process.terminate()
        server.process.wait(30.0)
        assert server.process.returncode == 0


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_the_environment_of_a_client_that_left_while_it_was_built_is_closed(book, tmp_path, isolation):
    gate = tmp_path / "gate"
    options = ("--arg", f"wait_in_init={gate}", "--isolation", isolation, "--max-sessions", "1")
    try:
        with serving("Diary", *book.options, *options) as server:
            for number, extended in enumerate((False, True), 1):
                client = PlainTalk(server.url, extended=extended)
                if extended:
                    client.send({"type": "open", "ref": 0, "data": {}})
                assert eventually(lambda number=number: book.count("building") == number)
                client.cut()
                gate.touch()
                assert eventually(lambda number=number: book.count("closed") == number)
                assert eventually(lambda: sessions(server) == 0)
                gate.unlink()
            gate.touch()
            with WovenTalk(server.url) as other:
                assert other.reset()["count"] == 0
    finally:
        gate.touch()
