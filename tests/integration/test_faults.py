"""What holds, whatever happens: a real server, and everything that can go wrong around it."""

import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from websockets.frames import Opcode

import envweave as ew
from envweave.client import EnvClient, connect_vector
from envweave.errors import (
    EnvError,
    ProviderError,
    ResetNeededError,
    SessionLostError,
    TransportError,
)
from envweave.requests import EpisodeEnd
from envweave.testing.serving import running_server

SCRIPTS = Path(__file__).parent / "fault_scripts"
if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))

from bare import PlainTalk, WovenTalk, seen  # noqa: E402  (found by the path above)
from census import descendants, eventually, metric, taken  # noqa: E402
from cutting import Cuts, breaking  # noqa: E402

TALKS = [pytest.param(PlainTalk, id="plain"), pytest.param(WovenTalk, id="extension")]
ISOLATIONS = ["thread", "process"]


@contextmanager
def serving(name, *options):
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    options = ("--log-level", "warning", *options)
    with running_server(f"pkg://faulty:{name}", *options, env={"PYTHONPATH": os.pathsep.join(paths)}) as server:
        yield server


@pytest.fixture(scope="module")
def shared():
    """Servers for the tests that leave them as they were."""
    running = {}
    with ExitStack() as stack:

        def get(name, *options):
            if (name, options) not in running:
                running[name, options] = stack.enter_context(serving(name, *options))
            return running[name, options]

        yield get


def ends(requests):
    return [request.reason for request in requests if isinstance(request, EpisodeEnd)]


# Connections that are cut.


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("env", ["Counting", "Slow"])
def test_each_step_is_run_once_and_each_result_arrives_though_the_connection_is_cut_200_times(shared, env, isolation):
    server = shared(env, "--isolation", isolation)
    cuts = Cuts(seed=f"{env} {isolation}", most=200)

    def roll_out(url):
        with EnvClient(url, connect_timeout_s=60.0, message_timeout_s=60.0) as client:
            assert client.reset().observation["count"] == 0
            number = 0
            while cuts.made < 200 or number % 20:
                number += 1
                observation = client.step(number).observation
                assert (observation["count"], observation["said"]) == (number, number)
            assert client.state() == {"count": number}
            return number

    with breaking(server.url, cuts) as url, ThreadPoolExecutor(3) as pool:
        assert all(pool.map(roll_out, [url] * 3))
    assert cuts.made >= 200
    assert eventually(lambda: metric(server.url, "envweave_sessions") == 0)


def test_each_step_of_a_batch_is_run_once_though_the_connection_is_cut(shared):
    server = shared("Counting", "--isolation", "thread")
    cuts = Cuts(seed=7, most=60, longest=20_000)
    with breaking(server.url, cuts) as url, connect_vector(url, 8, connect_timeout_s=60.0) as vector:
        vector.reset()
        number = 0
        while cuts.made < 60:
            number += 1
            result = vector.step([number] * 8)
            assert [one["count"] for one in result.observation] == [number] * 8


def test_a_session_survives_a_connection_that_breaks_while_it_is_resumed(shared):
    server = shared("Counting", "--isolation", "thread")
    going_away = PlainTalk.framed((1001).to_bytes(2), opcode=Opcode.CLOSE)
    with WovenTalk(server.url) as first:
        first.reset()
        first.step(1)
        session = first.opened["session_id"]
        first.cut()
    with WovenTalk(server.url) as second:  # the same connection could be any: it carries no session of interest
        second.write(second.framed({"type": "open", "ref": 9, "data": {"resume": session}}) + going_away)
        second.ends()
    with WovenTalk(server.url, resume=session) as third:
        assert third.opened["last_id"] == 2
        assert third.step(2)["count"] == 2


def test_of_two_clients_that_resume_a_session_the_newer_one_has_it(shared):
    server = shared("Counting", "--isolation", "thread")
    with WovenTalk(server.url) as first:
        first.reset()
        for number in range(1, 30):  # the last of them go the short way
            assert first.step(number)["count"] == number
        with WovenTalk(server.url, resume=first.opened["session_id"]) as second:
            assert second.opened["last_id"] == 30
            told = first.receive()
            assert (told["type"], told["data"]["error"]["code"]) == ("error", "transport.session_lost")
            assert second.step("mine")["count"] == 30
            answer = first.ask(first.step_message("still mine?"))
            assert (answer["type"], answer["data"]["error"]["code"]) == ("error", "transport.protocol")
            assert second.step("yes")["count"] == 31


# Clients that are killed.


def killed_mid_step(server, kind, connections, rounds, sleeps):
    """Start a client, let it step for some rounds and kill it while all its steps are under way."""
    where = urlsplit(server.url)
    script = [sys.executable, "-I", "-S", str(SCRIPTS / "doomed.py"), where.hostname, str(where.port)]
    client = subprocess.Popen([*script, kind, str(connections), *map(str, sleeps)], stdout=subprocess.PIPE, text=True)
    with client:
        said = [client.stdout.readline() for _ in range(rounds)]
        client.kill()
    assert said == ["stepping\n"] * rounds
    return connections


def same_but_threads(server, before):
    """Threads with nothing to do stay for some seconds; where that is not the point, nobody waits for it."""
    return replace(taken(server), threads=0).within(before)


def test_nothing_is_left_of_1000_clients_that_were_killed_in_the_middle_of_a_step():
    chance = Random(3)
    with serving("Counting", "--resume-within", "0.3") as server:
        for talk in (PlainTalk, WovenTalk):
            with talk(server.url) as client:
                client.reset()
                client.step({"sleep": 0.01})
        before = taken(server)
        killed = 0
        with ThreadPoolExecutor(2) as pool:
            kinds = ["plain", "woven"] * 10
            rounds = [chance.randrange(1, 12) for _ in kinds]
            for count in pool.map(
                lambda kind, n: killed_mid_step(server, kind, 50, n, (0, 0.002, 0.02)), kinds, rounds
            ):
                killed += count
        assert killed == 1000
        assert metric(server.url, "envweave_sessions_opened_total") == 1002
        assert eventually(lambda: taken(server).within(before)), (before, taken(server))
        with WovenTalk(server.url) as client:
            assert client.reset()["count"] == 0
            assert client.step(1)["count"] == 1
        assert "Traceback" not in server.errors()


def test_nothing_is_left_of_killed_clients_whose_environments_had_processes_of_their_own():
    with serving("Counting", "--isolation", "process", "--resume-within", "0.3") as server:

        def kill(connections):
            for kind in ("plain", "woven"):
                killed_mid_step(server, kind, connections, 3, (0, 0.002, 0.02))
            assert eventually(lambda: metric(server.url, "envweave_sessions") == 0)

        kill(2)  # the first ones start what stays: the process that starts others
        before = taken(server)
        kill(8)
        assert eventually(lambda: same_but_threads(server, before)), (before, taken(server))
        assert "Traceback" not in server.errors()


# Environments that block.


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("steps_before", [0, 50])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_step_that_blocks_delays_nobody_else(shared, tmp_path, talk, steps_before, isolation):
    server = shared("Counting", "--isolation", isolation)
    gate = tmp_path / "gate"
    try:
        with talk(server.url) as blocked, PlainTalk(server.url) as plain, WovenTalk(server.url) as woven:
            for client in (blocked, plain, woven):
                client.reset()
            for number in range(1, steps_before + 1):
                for client in (blocked, plain, woven):
                    assert client.step(number)["count"] == number
            blocked.send(blocked.step_message({"wait": str(gate)}))
            for number in range(steps_before + 1, steps_before + 301):
                for client in (plain, woven):
                    assert client.step(number)["count"] == number
            gate.touch()
            assert seen(blocked.receive())["count"] == steps_before + 1
            assert blocked.step("on")["count"] == steps_before + 2
    finally:
        gate.touch()


def test_many_steps_that_block_delay_nobody_else(shared, tmp_path):
    server = shared("Counting", "--isolation", "thread")
    gate = tmp_path / "gate"
    with ExitStack() as stack:
        stack.callback(gate.touch)
        blocked = [stack.enter_context(talk(server.url)) for talk in (PlainTalk, WovenTalk) * 20]
        for client in blocked:
            client.reset()
            for number in range(1, 6):
                client.step(number)
        for client in blocked:
            client.send(client.step_message({"wait": str(gate)}))
        with PlainTalk(server.url) as client:
            client.reset()
            for number in range(1, 101):
                assert client.step(number)["count"] == number
        gate.touch()
        assert [seen(client.receive())["count"] for client in blocked] == [6] * 40


@pytest.mark.parametrize("talk", TALKS)
def test_a_reset_that_blocks_delays_nobody_else(shared, tmp_path, talk):
    server = shared("Counting", "--isolation", "thread")
    gate = tmp_path / "gate"
    with talk(server.url) as blocked, talk(server.url) as client:
        client.reset()
        reset = {"type": "reset", "data": {"wait": str(gate)}}
        blocked.send(blocked.message("reset", reset["data"]) if isinstance(blocked, WovenTalk) else reset)
        try:
            for number in range(1, 101):
                assert client.step(number)["count"] == number
        finally:
            gate.touch()
        assert seen(blocked.receive())["count"] == 0


def test_an_environment_whose_construction_blocks_delays_nobody_else(tmp_path):
    gate, diary = tmp_path / "gate", tmp_path / "diary"
    with serving("Diary", "--arg", f"path={diary}", "--arg", f"wait_in_init={gate}") as server:
        gate.touch()
        with WovenTalk(server.url) as client:
            client.reset()
            gate.unlink()
            client.send({"type": "open", "ref": 1, "data": {}})
            with PlainTalk(server.url) as other:
                for number in range(1, 101):
                    assert client.step(number)["count"] == number
                gate.touch()
                assert other.reset()["count"] == 0
            assert client.receive()["type"] == "opened"
        assert eventually(lambda: diary.read_text().count("closed\n") == 3), diary.read_text()


# The short way of quick steps.


def test_no_reply_is_lost_while_other_sessions_come_and_go_on_the_connection(shared):
    """An answer of the usual way calls a connection back from the short one, whatever happens there."""
    server = shared("Counting", "--isolation", "thread")

    def play(_):
        with WovenTalk(server.url) as client:
            client.reset()
            for number in range(1, 151):
                client.send({"type": "open", "ref": 1, "data": {}})
                opened = False
                while not opened:
                    question = client.step_message(number)
                    client.send(question)
                    answer = client.next_message()
                    if answer["ref"] == 1:
                        assert answer["type"] == "opened"
                        opened, answer = True, client.next_message()
                    assert (answer["type"], answer["id"]) == ("observation", question["id"])
                    assert answer["data"]["observation"]["count"] == question["id"] - 1
                client.send({"type": "close", "ref": 1, "id": 1})
                assert client.next_message()["type"] == "closed"
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(play, range(4)))
    assert "Traceback" not in server.errors()


@pytest.mark.parametrize("talk", TALKS)
def test_a_client_that_reads_late_gets_its_answer_whole_and_delays_nobody_else(shared, talk):
    server = shared("Counting", "--isolation", "thread")
    with talk(server.url) as client, talk(server.url) as other:
        client.reset()
        other.reset()
        for number in range(1, 11):
            assert client.step(number)["count"] == number
        client.send(client.step_message({"swell": 20_000_000}))  # more than the buffers of both sides hold
        for number in range(1, 201):
            assert other.step(number)["count"] == number
        assert seen(client.receive())["count"] == 11
        assert client.step("on")["count"] == 12


def test_messages_that_were_sent_ahead_are_answered_in_order_though_their_answers_are_read_late(shared):
    server = shared("Counting", "--isolation", "thread")
    with PlainTalk(server.url) as client, PlainTalk(server.url) as other:
        client.reset()
        other.reset()
        for number in range(1, 11):
            assert client.step(number)["count"] == number
        for number in range(1, 201):  # 20 MB
            client.send(client.step_message({"swell": 100_000}))
            assert other.step(number)["count"] == number
        assert [seen(client.receive())["count"] for _ in range(200)] == list(range(11, 211))
        assert client.step("on")["count"] == 211


def test_a_session_that_is_used_over_two_connections_at_once_answers_every_call(shared):
    """Which is a mistake of its client's. It may be told so, and nothing hangs."""
    server = shared("Counting", "--isolation", "thread")
    ended = threading.Event()

    def look(session):
        found = []
        while not ended.is_set():
            request = urllib.request.Request(f"{server.url}/state", headers={"x-envweave-session": session})
            try:
                with urllib.request.urlopen(request, timeout=30.0) as response:
                    found.append(response.status)
            except urllib.error.HTTPError as error:
                with error:
                    found.append(error.code)
        return found

    with WovenTalk(server.url) as client, ThreadPoolExecutor(1) as pool:
        client.reset()
        looking = pool.submit(look, client.opened["session_id"])
        try:
            count = 0
            while count < 1000:
                answer = client.ask(client.step_message(count))
                if answer["type"] == "error":
                    assert answer["data"]["error"]["code"] == "usage.busy"
                    client.numbers[0] -= 1
                else:
                    count += 1
                    assert answer["data"]["observation"]["count"] == count
        finally:
            ended.set()
        assert set(looking.result()) <= {200, 409}


# Processes that die.


def died(client, action):
    """The error of a step in which the environment's process dies; it comes with the end of the episode."""
    with pytest.raises(ProviderError) as caught:
        client.step(action)
    assert ends(caught.value.requests) == ["infra_error"]
    return str(caught.value)


@pytest.mark.parametrize(
    ("how", "said"), [("exit", "exit code 3"), ("segfault", "signal 11"), ("kill", "signal 9"), ("outside", "signal 9")]
)
def test_the_death_of_a_process_costs_one_episode(shared, tmp_path, how, said):
    server = shared("Counting", "--isolation", "process")
    with PlainTalk(server.url) as first:  # starts what stays: the process that starts others
        first.reset()
    assert eventually(lambda: metric(server.url, "envweave_sessions") == 0)
    before = taken(server)
    with ew.connect(server.url) as doomed, ew.connect(server.url) as other:
        other.reset()
        pid = doomed.reset().observation["pid"]
        assert doomed.step(1).observation["count"] == 1
        if how == "outside":
            started = tmp_path / "started"
            action = {"note": str(started), "wait": str(tmp_path / "never")}

            def kill_when_it_steps():
                if eventually(started.exists):
                    os.kill(pid, signal.SIGKILL)

            killer = threading.Thread(target=kill_when_it_steps)
            killer.start()
            message = died(doomed, action)
            killer.join()
        else:
            message = died(doomed, {"die": how})
        assert said in message
        assert other.step(1).observation["count"] == 1
        with pytest.raises(ResetNeededError):
            doomed.step(2)
        fresh = doomed.reset()
        assert ends(fresh.requests) == []
        assert fresh.observation["pid"] not in (pid, os.getpid(), server.pid)
        assert doomed.step(1).observation["count"] == 1
        assert other.step(2).observation["count"] == 2
    assert eventually(lambda: same_but_threads(server, before)), (before, taken(server))


def test_a_process_that_was_killed_between_two_steps_is_missed_by_the_next(shared):
    server = shared("Counting", "--isolation", "process")
    with ew.connect(server.url) as client:
        pid = client.reset(episode_id="mine").observation["pid"]
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: pid not in descendants(server.pid))
        assert "signal 9" in died(client, 1)
        assert client.reset().observation["count"] == 0


def test_with_plain_openenv_messages_too_the_death_of_a_process_costs_one_episode(shared):
    server = shared("Counting", "--isolation", "process")
    with PlainTalk(server.url) as client:
        client.reset()
        reply = client.ask(client.step_message({"die": "exit"}))
        assert (reply["type"], reply["data"]["code"]) == ("error", "EXECUTION_ERROR")
        assert reply["data"]["error"]["code"] == "provider"
        assert client.reset()["count"] == 0
        assert client.step(1)["count"] == 1


def test_an_environment_that_raises_system_exit_ends_its_episode_and_nothing_else(shared):
    for isolation in ISOLATIONS:
        with ew.connect(shared("Counting", "--isolation", isolation).url) as client:
            client.reset()
            for number in range(1, 30):
                client.step(number)
            with pytest.raises(EnvError) as caught:
                client.step({"die": "system_exit"})
            assert ends(caught.value.requests) == ["infra_error"]
            assert client.reset().observation["count"] == 0
            assert client.step(1).observation["count"] == 1


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_whole_numbers_of_any_size_reach_the_environment_and_come_back(shared, isolation):
    with ew.connect(shared("Counting", "--isolation", isolation).url) as client:
        client.reset()
        for number in (2**53 + 1, 2**64, -(2**63) - 1, 10**40):
            assert client.step(number).observation["said"] == number


# A server that dies.


def test_a_client_whose_server_was_killed_is_told_that_its_session_is_lost():
    with serving("Counting") as server, EnvClient(server.url, connect_timeout_s=1.0) as client:
        client.reset(episode_id="mine")
        client.step(1)
        server.process.kill()
        server.process.wait()
        with pytest.raises(SessionLostError) as caught:
            client.step(2)
        (end,) = caught.value.requests
        assert (end.reason, end.episode_id) == ("infra_error", "mine")
        with pytest.raises(SessionLostError) as caught:
            client.step(2)
        assert caught.value.requests == ()
        with pytest.raises(TransportError):
            client.reset()


def test_a_client_whose_server_is_killed_in_the_middle_of_a_step_is_told_so(tmp_path):
    started = tmp_path / "started"
    with serving("Counting") as server, EnvClient(server.url, connect_timeout_s=1.0) as client:
        client.reset()

        def kill_when_it_steps():
            if eventually(started.exists):
                server.process.kill()

        killer = threading.Thread(target=kill_when_it_steps)
        killer.start()
        with pytest.raises(SessionLostError) as caught:
            client.step({"note": str(started), "wait": str(tmp_path / "never")})
        killer.join()
        assert ends(caught.value.requests) == ["infra_error"]


def test_a_server_that_was_restarted_never_continues_an_episode_in_silence():
    with ExitStack() as stack:
        with serving("Counting") as server:
            client = stack.enter_context(EnvClient(server.url, connect_timeout_s=30.0))
            other = stack.enter_context(EnvClient(server.url, connect_timeout_s=30.0))
            for one in (client, other):
                one.reset()
                one.step(1)
            server.process.kill()
            server.process.wait()
        again = stack.enter_context(serving("Counting", "--port", str(urlsplit(server.url).port)))
        assert again.url == server.url
        with pytest.raises(SessionLostError) as caught:
            client.step(2)
        assert ends(caught.value.requests) == ["infra_error"]
        assert client.reset().observation["count"] == 0
        assert client.step(1).observation["count"] == 1
        begun = other.reset()  # without a step in between, the end comes with the reset
        assert ends(begun.requests) == ["infra_error"]
        assert other.step(1).observation["count"] == 1
        client.close()
        other.close()
