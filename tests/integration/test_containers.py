"""Environments in real containers, from the line that makes one to everything that can go wrong with them."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.core.loop import BACKGROUND
from envweave.envs.coding import CodeAction, CodingEnv
from envweave.envs.echo import EchoAction, EchoEnv
from envweave.envs.repl import REPLEnv
from envweave.errors import (
    CapacityError,
    ClosedError,
    EnvError,
    EnvWeaveError,
    ProviderError,
    SessionLostError,
    TransportError,
    UsageError,
)
from envweave.requests import AutoresetReady, EpisodeEnd
from support.containers import envweave, misbehaving, of, script, until
from support.engine import EngineError, restartable_engine
from support.engine import connect as connect_engine
from support.need import need

pytest.importorskip("docker")

from envweave.client.env_client import HTTPEnvClient, connect_vector
from envweave.client.fleet import OpenEnvVector
from envweave.client.home import Home
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


def only(engine):
    """The container that this process has started last, of those that run."""
    return [each for each in of(engine) if each.status == "running"][-1]


def ends(requests):
    return [request.reason for request in requests if isinstance(request, EpisodeEnd)]


# Clients that start their own container.


class OverHTTP(HTTPEnvClient):
    pass


def test_a_client_starts_a_container_and_stops_it(engine, echo_image):
    env = EchoEnv.from_docker_image(echo_image, memory="256m", env_vars={"COLOUR": "blue"})
    (container,) = of(engine)
    assert "COLOUR=blue" in container.attrs["Config"]["Env"]
    assert container.attrs["HostConfig"]["Memory"] == 256 * 2**20
    env.reset()
    result = env.step(EchoAction(message="hello"))
    assert (result.observation.echoed_message, result.reward) == ("hello", 0.5)
    env.close()
    assert of(engine) == []
    env.close()
    with pytest.raises(ClosedError):
        env.reset()


def test_a_client_over_http_starts_one_too(engine, echo_image):
    with OverHTTP.from_docker_image(echo_image) as env:
        env.reset()
        assert env.step({"message": "hello"}).reward == pytest.approx(0.5)
    assert of(engine) == []


def test_a_repl_runs_in_a_container(env_image, engine):
    with REPLEnv.from_docker_image(env_image("repl"), reward_on_success=7.0) as env:
        env.reset(context="one two three", task_prompt="How many words?")
        env.execute("count = len(context.split())")
        assert "count" in env.list_variables()
        result = env.execute("FINAL(count)")
        assert result.terminated
        assert result.reward == 7.0
    assert of(engine) == []


def test_code_runs_in_a_container(env_image, engine):
    with CodingEnv.from_docker_image(env_image("coding")) as env:
        env.reset()
        assert env.step(CodeAction(code="print(6 * 7)")).observation.stdout.strip() == "42"
    assert of(engine) == []


def test_an_option_that_there_is_not_is_refused_and_nothing_starts(engine, echo_image):
    with pytest.raises((UsageError, TypeError), match="memroy"):
        EchoEnv.from_docker_image(echo_image, memroy="1g")
    assert of(engine) == []


def test_a_provider_of_the_caller_s_runs_the_image(engine, echo_image):
    provider = LocalDockerProvider("nothing:here")
    with EchoEnv.from_docker_image(echo_image, provider=provider, cpus=1.0) as env:
        env.reset()
        assert only(engine).attrs["HostConfig"]["NanoCpus"] == 10**9
    assert provider.url == ""


def test_a_space_of_the_hub_runs_from_its_image(engine, echo_image, monkeypatch):
    monkeypatch.setenv("HF_SPACES_REGISTRY", f"mirror-{os.getpid()}.invalid")
    name = f"mirror-{os.getpid()}.invalid/some-org-echo-env"
    engine.images.get(echo_image).tag(name, "latest")
    try:
        with EchoEnv.from_hub("some-org/echo_env") as env:
            env.reset()
            assert env.step(EchoAction(message="hi")).reward == pytest.approx(0.2)
        with ew.make("hf://some-org/echo_env") as env:
            env.reset()
    finally:
        engine.images.remove(f"{name}:latest")
    with pytest.raises(ProviderError, match="no image"):
        EchoEnv.from_hub("some-org/echo_env", pull="never")


def git(*words, cwd):
    who = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *words], cwd=cwd, check=True, capture_output=True, timeout=60)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub in a folder, with one Space that is a project of `envweave init`."""
    try:
        import uv  # noqa: F401
    except ModuleNotFoundError:
        need("uv", "there is no `uv` package: pip install uv")
    folder = tmp_path / "spaces" / "org" / "quiz"
    assert envweave("init", "quiz", "--path", str(folder)).returncode == 0
    pyproject = folder / "pyproject.toml"
    text = pyproject.read_text().replace('["envweave[server]"]', f'["envweave[server] @ file://{ROOT}"]')
    text = text.replace("[build-system]", "[tool.hatch.metadata]\nallow-direct-references = true\n\n[build-system]", 1)
    text += '\n[project.scripts]\nserver = "quiz:serve"\n'
    pyproject.write_text(text)
    with (folder / "quiz.py").open("a") as file:
        file.write(
            "\n\ndef serve():\n    import sys\n\n    from envweave.cli import main\n\n"
            "    sys.argv[1:1] = ['serve', 'quiz']\n    main()\n"
        )
    git("init", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-m", "a space", cwd=folder)
    monkeypatch.setenv("HF_ENDPOINT", f"file://{tmp_path}")
    monkeypatch.delenv("ENVWEAVE_TRUST_REMOTE_CODE", raising=False)


def test_a_space_of_the_hub_runs_from_its_repository_if_its_code_is_trusted(hub):
    with pytest.raises(UsageError, match="code from outside"):
        EnvClient.from_hub("org/quiz", use_docker=False)
    with EnvClient.from_hub("org/quiz", use_docker=False, trust_remote_code=True) as env:
        env.reset()
    with EnvClient.from_hub("org/quiz", use_docker=False, trust_remote_code=True, env="quiz") as env:
        env.reset()


def test_a_space_that_is_not_there_is_reported_with_what_uv_says(hub):
    with pytest.raises(ProviderError, match="org/nothing"):
        EnvClient.from_hub("org/nothing", use_docker=False, trust_remote_code=True)


def test_a_loop_goes_on_while_a_container_starts(engine, echo_image):
    async def main():
        beats = 0
        longest = 0.0

        async def beat():
            nonlocal beats, longest
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.005)
                now = time.monotonic()
                longest, last, beats = max(longest, now - last), now, beats + 1

        beating = asyncio.create_task(beat())
        async with EchoEnv(LocalDockerProvider(echo_image)) as env:
            started = beats
            await env.reset()
            result = await env.step(EchoAction(message="hello"))
        beating.cancel()
        return started, result.reward

    started, reward = asyncio.run(main())
    assert reward == pytest.approx(0.5)
    assert started > 5
    assert of(engine) == []


def test_a_fork_shares_the_container_and_the_last_to_close_stops_it(engine, env_image):
    env = ew.make("lineworld", backend="docker_http", docker_image=env_image("lineworld"))
    env.reset(seed=1)
    twin = env.fork()
    assert len(of(engine)) == 1
    env.close()
    assert len(of(engine)) == 1
    twin.step({"move": 1})
    twin.close()
    assert of(engine) == []


# IDs and backends.


def play(env, seed, count=12):
    """What comes of an episode, as data."""
    random = Random(seed)
    rows = []
    result = env.reset(seed=seed)
    rows.append(result.observation)
    for _ in range(count):
        result = env.step({"move": random.choice((-1, 1))})
        rows.append((result.observation, result.reward, result.terminated, result.truncated))
        if result.done:
            break
    return json.loads(json.dumps(rows, default=vars))


def test_a_container_plays_as_this_process_does(env_image):
    image = env_image("lineworld")
    with ew.make("lineworld?size=2") as here:
        expected = [play(here, seed) for seed in range(3)]
    with ew.make(f"docker://{image}?size=2") as env:
        assert [play(env, seed) for seed in range(3)] == expected
    with ew.make("lineworld", backend="docker_http", docker_image=image, size=2) as env:
        assert [play(env, seed) for seed in range(3)] == expected
    with ew.make("lineworld", backend="subprocess", size=2) as env:
        assert [play(env, seed) for seed in range(3)] == expected


def test_an_image_by_its_digest(engine, echo_image):
    digest = engine.images.get(echo_image).id
    name = echo_image.partition(":")[0]
    with pytest.raises(ProviderError, match="no image"):
        ew.make(f"docker://{name}@sha256:{'0' * 64}", provider_options={"pull": "never"})
    with ew.make(f"docker://{digest.removeprefix('sha256:')}") as env:
        env.reset()


@pytest.mark.parametrize("make", [ew.make, lambda name, **options: ew.make_vector(name, 2, **options)])
@pytest.mark.parametrize("arguments", [{"sise": 2}, {"size": "big"}, {"size": 0}])
def test_arguments_of_the_factory_are_checked_by_name(engine, env_image, make, arguments):
    with pytest.raises(EnvWeaveError) as here:
        ew.make("lineworld", **arguments)
    with pytest.raises(EnvWeaveError) as caught:
        make("lineworld", backend="docker_http", docker_image=env_image("lineworld"), **arguments)
    assert isinstance(caught.value, UsageError) == ("sise" in arguments)
    assert (type(caught.value), caught.value.message) == (type(here.value), here.value.message)
    assert of(engine) == []


# Vectors.


def vector(image, count, **options):
    return ew.make_vector("lineworld", count, backend="docker_http", docker_image=image, **options)


def test_sessions_share_a_container_up_to_its_capacity_and_then_others_are_started(engine, env_image):
    options = {"command": ["--max-sessions", "2"]}
    with vector(env_image("lineworld"), 5, provider_options=options, size=2) as envs:
        assert len(of(engine)) == 3
        envs.reset(seed=0)
        batch = envs.step([{"move": 1}] * 5)
        assert [row.t for row in batch.observation] == [1] * 5 if hasattr(batch.observation[0], "t") else True
        assert len(batch.reward) == 5
    assert of(engine) == []


@pytest.mark.parametrize(("count", "containers"), [(4, 1), (5, 2), (3, 3)])
def test_environments_are_spread_evenly_over_containers(engine, env_image, count, containers):
    with vector(env_image("lineworld"), count, containers=containers) as envs:
        assert len(of(engine)) == containers
        envs.reset(seed=0)
        assert len(envs.step([{"move": 1}] * count).reward) == count
        loads = sorted(sessions(each) for each in of(engine))
        assert sum(loads) == count
        assert loads[-1] - loads[0] <= 1
    assert of(engine) == []


def sessions(container):
    """How many of them a container has, as it says itself."""
    look = (
        "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000); c.request('GET', '/metrics'); "
        "print(next(l for l in c.getresponse().read().decode().splitlines() if l.startswith('envweave_sessions')))"
    )
    return int(float(container.exec_run(["python3", "-c", look]).output.split()[-1]))


def test_too_few_containers_are_a_capacity_error_and_nothing_is_left(engine, env_image):
    options = {"command": ["--max-sessions", "2"]}
    with pytest.raises(CapacityError, match="1 of 5 environments found no place"):
        vector(env_image("lineworld"), 5, containers=2, provider_options=options)
    assert of(engine) == []


def test_a_vector_in_containers_plays_as_one_in_this_process(env_image):
    def rows(envs):
        random = Random(3)
        found = [json.loads(json.dumps(list(envs.reset(seed=7).observation), default=vars))]
        for _ in range(10):
            batch = envs.step([{"move": random.choice((-1, 1))} for _ in range(4)])
            columns = (batch.observation, batch.reward, batch.terminated, batch.truncated)
            found.append(json.loads(json.dumps([list(map(plain, column)) for column in columns], default=vars)))
        return found

    def plain(value):
        return value.item() if hasattr(value, "item") else value

    with ew.make_vector("lineworld", 4, autoreset=True, size=3) as here:
        expected = rows(here)
    with vector(env_image("lineworld"), 4, autoreset=True, containers=2, size=3) as envs:
        assert rows(envs) == expected


OPENENV = """
import sys
sys.path.insert(0, "/peer")
import uvicorn
from server import PeerEnvironment, Say, Heard
from openenv.core.env_server import create_app
PeerEnvironment.SUPPORTS_CONCURRENT_SESSIONS = False
uvicorn.run(create_app(PeerEnvironment, Say, Heard, env_name="peer"), host="0.0.0.0", port=8000, log_level="warning")
"""


def test_images_of_openenv_s_take_one_session_each(engine, python_image):
    openenv = pytest.importorskip("openenv")
    packages = str(Path(openenv.__file__).parent.parent)
    options = {
        "env_vars": {"PYTHONPATH": "/packages", "PYTHONDONTWRITEBYTECODE": "1"},
        "volumes": {packages: "/packages:ro", str(PEER): "/peer:ro"},
        "extra": {"entrypoint": ["python3", "-c", OPENENV]},
        "stop_timeout": 0,
    }
    with ew.make_vector(f"docker://{python_image}", 3, provider_options=options) as envs:
        assert isinstance(envs, OpenEnvVector)
        assert len(of(engine)) == 3
        envs.reset()
        batch = envs.step([{"message": "x" * number} for number in (1, 2, 3)])
        assert [pytest.approx(one) for one in batch.reward] == [0.1, 0.2, 0.3]
        of(engine)[0].kill()
        batch = envs.step([{"message": "x"}] * 3)
        lost = [number for number in range(3) if batch.truncated[number]]
        assert len(lost) == 1
        assert batch.info[lost[0]]["error"]
        envs.reset(ids=lost)
        assert len(envs.step([{"message": "xx"}] * 3).reward) == 3
    assert of(engine) == []


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
        with pytest.raises(SessionLostError, match="somebody removed it"):
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
            with pytest.raises(SessionLostError, match="somebody removed it"):
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
        assert sorted(batch.env_ids) in ([0, 1], [2, 3]) if hasattr(batch, "env_ids") else len(batch.reward) == 2
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
            sink.images.load(b"".join(source.images.get(echo_image).save(named=True)))
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


NEVER = {"extra": {"entrypoint": ["sleep", "600"]}, "stop_timeout": 0}
"""A container that nobody ever finds healthy."""


def test_a_client_that_is_closed_while_its_container_starts_gives_it_up(engine, echo_image):
    env = EchoEnv(Home(LocalDockerProvider(echo_image, **NEVER), ready_timeout=3600.0))
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
        client = EchoEnv(Home(LocalDockerProvider(echo_image, **NEVER), ready_timeout=3600.0))

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
    "provider": "with running(LocalDockerProvider(image, **never)): pass",
    "make": "ew.make('docker://' + image, provider_options=never)",
    "vector": "ew.make_vector('docker://' + image, 3, containers=3, provider_options=never)",
    "from_docker_image": "EchoEnv.from_docker_image(image, **never)",
}
STARTER = """
import sys
import envweave as ew
from envweave.envs.echo import EchoEnv
from envweave.providers import LocalDockerProvider, running
image = sys.argv[1]
never = {"extra": {"entrypoint": ["sleep", "600"]}, "stop_timeout": 0}
from envweave.client import home
home.READY_TIMEOUT = home.Home.__init__.__kwdefaults__["ready_timeout"] = 3600.0
"""


@pytest.mark.parametrize("how", STARTS)
def test_ctrl_c_while_containers_start_leaves_none(engine, echo_image, how):
    owner = script(STARTER + STARTS[how], echo_image, stderr=subprocess.PIPE)
    count = 3 if how == "vector" else 1
    until(lambda: sum(each.status == "running" for each in of(engine, owner.pid)) == count)
    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate(timeout=100)
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


def holdings(engine):
    """What might be left: threads and open files of ours, volumes of the daemon's."""
    files = len(os.listdir("/proc/self/fd"))
    return {
        "threads": threading.active_count(),
        "files": files,
        "volumes": {each.name for each in engine.volumes.list()},
    }


HEALTHY = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("", 8000), Healthy).serve_forever()
"""


def test_fifty_containers_come_and_go_and_leave_nothing(engine, python_image):
    extra = {"entrypoint": ["python3", "-Sc", HEALTHY]}

    def cycle(_):
        provider = LocalDockerProvider(python_image, extra=extra, stop_timeout=0)
        provider.start()
        provider.wait_for_ready(60)
        provider.stop()

    cycle(0)
    before = holdings(engine)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cycle, range(50)))
    assert of(engine) == []
    after = holdings(engine)
    assert after["threads"] <= before["threads"]
    assert after["files"] <= before["files"] + 1
    mine = {name for name in after["volumes"] - before["volumes"] if "envweave" in name}
    assert not mine  # of others' we know nothing


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
