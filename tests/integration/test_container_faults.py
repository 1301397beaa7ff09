"""Environments in real containers, and everything that can go wrong with them."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.core.loop import BACKGROUND
from envweave.envs.echo import EchoEnv
from envweave.errors import (
    ClosedError,
    EnvError,
    EnvWeaveError,
    ProviderError,
    SessionLostError,
    TransportError,
)
from envweave.requests import AutoresetReady
from support.containers import OverHTTP, ends, envweave, misbehaving, of, only, script, until
from support.engine import EngineError, restartable_engine
from support.engine import connect as connect_engine
from support.need import need

pytest.importorskip("docker")

from envweave.client.env_client import connect_vector
from envweave.providers.docker import LocalDockerProvider

ROOT = Path(__file__).parent.parent.parent
PEER = Path(__file__).parent / "openenv_peer"
pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def engine(docker_engine):
    with closing(connect_engine(docker_engine)) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_is_left(engine):
    yield
    assert until(lambda: not of(engine))


# Containers that are lost.


def doomed(image, cls="Counting", **options):
    given = {**misbehaving(cls), **options}
    return ew.make(f"docker://{image}", provider_options=given)


def kill_once(happens, container):
    def wait_and_kill():
        until(happens)
        container.kill()

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


def busy(container):
    """A step is under way, as the note that it wrote inside says."""
    return container.exec_run(["ls", "/tmp/note"]).exit_code == 0


@pytest.mark.parametrize("client", [EnvClient, OverHTTP])
def test_a_container_that_is_killed_in_the_middle_of_a_step_costs_its_episode_and_no_more(engine, echo_image, client):
    with client.from_docker_image(echo_image, **misbehaving("Counting")) as env:
        env.reset()
        assert env.step({}).observation["count"] == 1
        first = only(engine)
        killer = kill_once(lambda: busy(first), first)
        with pytest.raises(SessionLostError, match="was killed") as caught:
            env.step({"note": "/tmp/note", "wait": "/tmp/never"})
        killer.join()
        assert ends(caught.value.requests) == ["infra_error"]
        env.reset()
        assert env.step({}).observation["count"] == 1
        assert [each.name for each in of(engine)] != [first.name]
        assert len(of(engine)) == 1


def test_a_container_that_somebody_removed_is_missed_and_replaced(engine, echo_image):
    with doomed(echo_image) as env:
        env.reset()
        only(engine).remove(force=True)
        with pytest.raises(SessionLostError, match="someone else removed it"):
            env.step({})
        assert env.reset().observation["count"] == 0


def test_the_address_of_a_dead_container_is_never_taken_for_it(engine, echo_image, env_image):
    with doomed(echo_image) as env:
        env.reset()
        first = only(engine)
        address = first.attrs["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
        go_on = threading.Event()
        BACKGROUND.loop.call_soon_threadsafe(go_on.wait, 60.0)  # too busy to see what happens meanwhile
        first.remove(force=True)
        other = engine.containers.run(env_image("lineworld"), detach=True, labels={"envweave.test": "other"})
        try:
            other.reload()
            if other.attrs["NetworkSettings"]["Networks"]["bridge"]["IPAddress"] != address:
                pytest.skip("the daemon gave the address to nobody else")
            until(lambda: b"serving" in other.logs())
            go_on.set()
            with pytest.raises(SessionLostError, match="someone else removed it"):
                env.step({})
            assert env.reset().observation["count"] == 0
            assert env.step({}).observation["count"] == 1
        finally:
            go_on.set()
            other.remove(force=True, v=True)


def test_a_container_that_somebody_restarted_is_replaced(engine, echo_image):
    for direct in (True, False):
        with doomed(echo_image, direct=direct) as env:
            env.reset()
            only(engine).restart(timeout=0)
            with pytest.raises(SessionLostError):
                env.step({})
            assert env.reset().observation["count"] == 0
            assert env.step({}).observation["count"] == 1


def test_a_container_that_is_paused_is_named_as_the_reason(engine, echo_image):
    options = {**misbehaving("Counting"), "connect_timeout_s": 2.0, "ping_interval_s": 0.5, "ping_timeout_s": 0.5}
    with EnvClient.from_docker_image(echo_image, **options) as env:
        env.reset()
        only(engine).pause()
        with pytest.raises(SessionLostError, match="is paused"):
            env.step({})
        assert env.reset().observation["count"] == 0  # in another container


def test_a_short_pause_costs_nothing(engine, echo_image):
    with doomed(echo_image) as env:
        env.reset()
        container = only(engine)
        container.pause()
        waker = threading.Thread(target=container.unpause)
        waker.start()
        assert env.step({}).observation["count"] == 1
        waker.join()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (misbehaving("Nothing"), "Nothing"),
        ({**misbehaving("Counting"), "command": ["--no-such-option"]}, "no-such-option"),
        ({"extra": {"entrypoint": ["python3", "-c", "raise SystemExit('no licence')"]}}, "no licence"),
    ],
)
def test_an_image_that_crashes_at_its_start_is_reported_with_its_last_words(engine, echo_image, options, said):
    with pytest.raises(ProviderError) as caught:
        ew.make(f"docker://{echo_image}", provider_options=options)
    assert said in str(caught.value)
    assert of(engine) == []
    with pytest.raises(ProviderError, match=said):
        ew.make_vector(f"docker://{echo_image}", 3, containers=2, provider_options=options)
    assert of(engine) == []


def test_an_environment_that_cannot_be_made_says_why_and_nothing_is_left(engine, echo_image):
    with pytest.raises(EnvError, match="no licence"):
        doomed(echo_image, "Stillborn")
    assert of(engine) == []


def test_a_server_that_crashes_after_some_steps_says_so_each_time(engine, echo_image):
    provider_options = misbehaving("Greedy")
    with ew.make(f"docker://{echo_image}", provider_options=provider_options, crash_after=3) as env:
        for _ in range(2):
            env.reset()
            env.step({})
            env.step({})
            with pytest.raises(SessionLostError, match=r"(?s)exit code 9.*step 3 was one too many") as caught:
                env.step({})
            assert ends(caught.value.requests) == ["infra_error"]


def test_memory_that_runs_out_inside_is_named(engine, echo_image):
    with doomed(echo_image, "Greedy", memory="128m") as env:
        env.reset()
        env.step({})
        with pytest.raises(SessionLostError, match="ran out of memory"):
            env.step({"swallow": 2**28})
        assert env.reset().observation["count"] == 0


def test_memory_that_runs_out_in_a_vector_costs_a_row_without_a_reward(engine, echo_image):
    options = {**misbehaving("Greedy"), "memory": "128m"}
    with ew.make_vector(f"docker://{echo_image}", 2, containers=2, provider_options=options) as envs:
        envs.reset()
        batch = envs.step([{"swallow": 2**28}, {}])
        assert batch.reward[0] is None
        assert batch.reward[1] == 1.0
        assert list(batch.truncated) == [True, False]
        assert "ran out of memory" in json.dumps(batch.info[0]["error"])
        envs.reset(ids=[0])
        assert [one["count"] for one in envs.step([{}, {}]).observation] == [1, 2]


def test_a_disk_that_is_full_inside_is_named(echo_image):
    with doomed(echo_image, "Greedy", read_only=True, tmpfs={"/tmp": "size=4m"}) as env:
        env.reset()
        with pytest.raises(EnvError, match="No space left on device"):
            env.step({"fill": "/tmp/big"})
        env.reset()
        with pytest.raises(EnvError, match="Read-only file system"):
            env.step({"fill": "/app/big"})
        env.reset()
    options = {**misbehaving("Greedy"), "read_only": True, "tmpfs": {"/tmp": "size=4m"}}
    with ew.make_vector(f"docker://{echo_image}", 2, provider_options=options) as envs:
        envs.reset()
        batch = envs.step([{"fill": "/tmp/big"}, {}])
        assert batch.reward[0] is None
        assert batch.reward[1] == 1.0
        assert "No space left" in json.dumps(batch.info[0]["error"])


@contextmanager
def spread(image, count, containers, **options):
    """A vector, and what each container's rows are."""
    with ew.make_vector(
        f"docker://{image}", count, containers=containers, provider_options=misbehaving("Counting"), **options
    ) as envs:
        yield envs


def test_without_autoreset_rows_of_a_dead_container_end_and_the_others_go_on(engine, echo_image):
    with spread(echo_image, 4, 2) as envs:
        envs.reset()
        victim = of(engine)[0]
        victim.kill()
        batch = envs.step([{}] * 4)
        lost = [number for number in range(4) if batch.truncated[number]]
        assert lost in ([0, 1], [2, 3])
        for number in range(4):
            if number in lost:
                assert batch.reward[number] is None
                assert "was killed" in json.dumps(batch.info[number]["error"])
                assert ends(batch.requests[number]) == ["infra_error"]
            else:
                assert batch.reward[number] == 1.0
        others = [number for number in range(4) if number not in lost]
        envs.step([{}] * 2, ids=others)
        reset = envs.reset(ids=lost)
        assert [one["count"] for one in reset.observation] == [0, 0]
        batch = envs.step([{}] * 4)
        assert [one["count"] for one in batch.observation] == [1 if number in lost else 3 for number in range(4)]
        assert victim.name not in {each.name for each in of(engine)}
        assert len(of(engine)) == 2


def test_with_autoreset_rows_of_a_dead_container_begin_again_by_themselves(engine, echo_image):
    with spread(echo_image, 4, 2, autoreset=True) as envs:
        envs.reset()
        of(engine)[0].kill()
        batch = envs.step([{}] * 4)
        lost = [number for number in range(4) if batch.truncated[number]]
        assert lost in ([0, 1], [2, 3])
        for number in lost:
            assert batch.reward[number] is None
            assert any(isinstance(request, AutoresetReady) for request in batch.requests[number])
        batch = envs.step([{}] * 4)
        assert not any(batch.truncated)
        assert [one["count"] for one in batch.observation] == [1 if number in lost else 2 for number in range(4)]


def test_ready_rows_do_not_wait_for_those_of_a_dead_container(engine, echo_image):
    with spread(echo_image, 4, 2) as envs:
        envs.reset()
        victim = of(engine)[0]
        envs.send([{"note": "/tmp/note", "wait": "/tmp/never"}] * 4)
        until(lambda: all(busy(each) for each in of(engine)))
        victim.kill()
        batch = envs.recv(min_ready=2, timeout=60)
        assert sorted(batch.ids) in ([0, 1], [2, 3])
        assert all(reward is None for reward in batch.reward)


# The daemon itself.


@pytest.fixture(scope="module")
def own_engine(docker_engine, echo_image):
    """A daemon that may be stopped, with the image of the echo environment."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        try:
            own = stack.enter_context(restartable_engine())
        except EngineError as error:
            need("docker", str(error))
        with closing(connect_engine(docker_engine)) as source, closing(connect_engine(own.url)) as sink:
            sink.images.load(b"".join(source.images.get(echo_image).save(named=echo_image)))
        yield own


def test_a_daemon_that_is_stopped_and_started_again_costs_an_episode(own_engine, echo_image):
    options = {**misbehaving("Counting"), "docker_host": own_engine.url}
    with EnvClient.from_docker_image(echo_image, **options) as env:
        env.reset()
        own_engine.stop()
        with pytest.raises(SessionLostError) as caught:
            env.step({})
        assert "daemon" in str(caught.value) or "ended" in str(caught.value) or "killed" in str(caught.value)
        with pytest.raises(ProviderError, match="no Docker daemon"):
            env.reset()
        own_engine.start()
        assert env.reset().observation["count"] == 0
        assert env.step({}).observation["count"] == 1
    with closing(connect_engine(own_engine.url)) as client:
        assert of(client) == []


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_vector_outlives_its_daemon(own_engine, echo_image, autoreset):
    options = {**misbehaving("Counting"), "docker_host": own_engine.url}
    with ew.make_vector(
        f"docker://{echo_image}", 3, containers=2, provider_options=options, autoreset=autoreset
    ) as envs:
        envs.reset()
        own_engine.stop()
        batch = envs.step([{}] * 3)
        assert list(batch.reward) == [None] * 3
        assert all("error" in info for info in batch.info)
        own_engine.start()
        if autoreset:
            envs.step([{}] * 3)  # begins anew
        else:
            envs.reset()
        batch = envs.step([{}] * 3)
        assert [one["count"] for one in batch.observation] == [1] * 3
    with closing(connect_engine(own_engine.url)) as client:
        assert of(client) == []


def test_a_handle_is_closed_though_its_daemon_is_gone_and_what_it_left_goes_with_the_next_start(own_engine, echo_image):
    env = EchoEnv.from_docker_image(echo_image, docker_host=own_engine.url)
    env.reset()
    own_engine.stop()
    env.close()
    own_engine.start()
    with EchoEnv.from_docker_image(echo_image, docker_host=own_engine.url):
        pass
    with closing(connect_engine(own_engine.url)) as client:
        assert of(client) == []


def test_what_was_left_while_the_daemon_was_gone_goes_at_the_end_of_the_process(own_engine, echo_image):
    program = """
import sys
from envweave.providers import LocalDockerProvider
provider = LocalDockerProvider(sys.argv[1])
print(provider.start(), flush=True)
sys.stdin.readline()
provider.stop()
print("stopped", flush=True)
sys.stdin.readline()
"""
    variables = {**os.environ, "DOCKER_HOST": own_engine.url}
    owner = script(program, echo_image, env=variables, stdin=subprocess.PIPE)
    assert owner.stdout.readline().startswith("http")
    own_engine.stop()
    print(file=owner.stdin, flush=True)
    assert owner.stdout.readline() == "stopped\n"
    own_engine.start()
    owner.communicate("\n", timeout=60)
    with closing(connect_engine(own_engine.url)) as client:
        assert of(client, owner.pid) == []


# Those who do not wait.


NEVER = {"extra": {"entrypoint": ["sleep", "600"]}, "stop_timeout": 0, "ready_timeout": 3600.0}
"""A container that nobody ever finds healthy."""


def test_a_client_that_is_closed_while_its_container_starts_gives_it_up(engine, echo_image):
    env = EchoEnv(LocalDockerProvider(echo_image, **NEVER))
    failures = []

    def begin():
        try:
            env.connect()
        except EnvWeaveError as error:
            failures.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    until(lambda: any(each.status == "running" for each in of(engine)))
    env.close()
    thread.join(60)
    assert not thread.is_alive()
    assert of(engine) == []
    assert [type(failure) for failure in failures] == [ClosedError]


def test_a_task_that_is_cancelled_while_its_container_starts_leaves_none(engine, echo_image):
    async def main():
        client = EchoEnv(LocalDockerProvider(echo_image, **NEVER))

        async def use():
            async with client as env:
                await env.reset()

        task = asyncio.create_task(use())
        await asyncio.to_thread(until, lambda: of(engine))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.aio.close()

    asyncio.run(main())
    assert of(engine) == []


STARTS = {
    "provider": "with running(LocalDockerProvider(image, **never), timeout=3600.0): pass",
    "make": "ew.make('docker://' + image, provider_options=never)",
    "vector": "ew.make_vector('docker://' + image, 8, containers=8, provider_options=never)",
    "from_docker_image": "EchoEnv.from_docker_image(image, **never)",
}
STARTER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
import envweave as ew
from envweave.envs.echo import EchoEnv
from envweave.providers import LocalDockerProvider, running
image = sys.argv[1]
never = {"extra": {"entrypoint": ["sleep", "600"]}, "stop_timeout": 0, "ready_timeout": 3600.0}
"""


def interrupt(process):
    """Press Ctrl-C, again only if CPython dropped it, as it does if a finalizer runs. Returns what was written."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired as error:
            lost = b"Exception ignored in" in (error.stderr or b"")
            if not lost:
                break
    process.kill()
    raise AssertionError(f"Ctrl-C did not end it: {process.communicate()[1]}")


@pytest.mark.parametrize("how", STARTS)
def test_ctrl_c_while_containers_start_leaves_none(engine, echo_image, how):
    owner = script(STARTER + STARTS[how], echo_image, stderr=subprocess.PIPE)
    count = 8 if how == "vector" else 1
    until(lambda: sum(each.status == "running" for each in of(engine, owner.pid)) == count)
    errors = interrupt(owner)
    assert owner.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert of(engine, owner.pid) == []


def test_two_processes_at_once_do_not_mind_each_other(engine, echo_image):
    program = """
import sys
import envweave as ew
for _ in range(2):
    with ew.make("docker://" + sys.argv[1]) as env:
        env.reset()
        assert env.step({"message": "hello"}).reward == 0.5
print("done")
"""
    both = [script(program, echo_image) for _ in range(2)]
    assert [each.communicate(timeout=100)[0].strip() for each in both] == ["done", "done"]
    assert [each.name for owner in both for each in of(engine, owner.pid)] == []


def test_a_process_that_ends_without_closing_anything_leaves_nothing(engine, echo_image):
    program = """
import sys
import envweave as ew
env = ew.make("docker://" + sys.argv[1])
env.reset()
envs = ew.make_vector("docker://" + sys.argv[1], 2, containers=2)
envs.reset()
print("done")
"""
    owner = script(program, echo_image)
    assert owner.communicate(timeout=100)[0].strip() == "done"
    assert owner.returncode == 0
    assert of(engine, owner.pid) == []


def test_gc_finds_all_containers_of_a_vector_whose_owner_was_killed(engine, echo_image):
    program = """
import sys, time
import envweave as ew
envs = ew.make_vector("docker://" + sys.argv[1], 3, containers=3)
envs.reset()
print("ready")
time.sleep(600)
"""
    owner = script(program, echo_image)
    assert owner.stdout.readline().strip() == "ready"
    owner.kill()
    owner.communicate()
    left = {each.name for each in of(engine, owner.pid)}
    assert len(left) == 3
    done = envweave("gc", "--json")
    assert done.returncode == 0, done.stderr
    assert left <= {each["name"] for each in json.loads(done.stdout)["removed"]}
    assert of(engine, owner.pid) == []


CYCLES = '''
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from envweave.providers import LocalDockerProvider
HEALTHY = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("", 8000), Healthy).serve_forever()
"""
def cycle(_):
    extra = {"entrypoint": ["python3", "-Sc", HEALTHY]}
    provider = LocalDockerProvider(sys.argv[1], extra=extra, stop_timeout=0)
    provider.start()
    provider.wait_for_ready(60)
    provider.stop()
def holdings():
    return len(os.listdir("/proc/self/fd")), threading.active_count()
cycle(0)
before = holdings()
with ThreadPoolExecutor(4) as pool:
    list(pool.map(cycle, range(20)))
print("nothing is left" if holdings() == before else f"{before} {holdings()}")
'''


def test_twenty_containers_come_and_go_and_leave_nothing(docker_engine, python_image):
    with restartable_engine() as own, closing(connect_engine(own.url)) as client:  # where nobody else makes anything
        with closing(connect_engine(docker_engine)) as source:
            client.images.load(b"".join(source.images.get(python_image).save(named=python_image)))
        client.images.build(
            fileobj=BytesIO(f"FROM {python_image}\nVOLUME /data\n".encode()), tag="with-volume", rm=True
        )
        before = {each.name for each in (*client.networks.list(), *client.volumes.list())}
        owner = script(CYCLES, "with-volume", env={**os.environ, "DOCKER_HOST": own.url})
        out, _ = owner.communicate(timeout=140)
        assert out.strip() == "nothing is left"
        assert client.containers.list(all=True) == []
        assert {each.name for each in (*client.networks.list(), *client.volumes.list())} == before


def test_a_vector_that_is_given_up_half_way_leaves_nothing(engine, echo_image):
    good = LocalDockerProvider(echo_image)
    bad = LocalDockerProvider(echo_image, extra={"entrypoint": ["false"]})
    with pytest.raises(ProviderError, match="exit code 1"):
        connect_vector([good, bad], 2)
    assert good.url == bad.url == ""
    assert of(engine) == []


def test_a_vector_over_a_port_that_answers_is_no_vector_of_ours(echo_image):
    with LocalDockerProvider(echo_image) as provider:
        url = provider.start()
        provider.wait_for_ready()
        with connect_vector(url, 2) as envs:
            envs.reset()
        provider.check()  # who has started it stops it
    with pytest.raises(TransportError):
        connect_vector(url, 1, connect_timeout_s=0.2)
