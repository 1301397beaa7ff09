"""Environments in real containers: clients that start them, IDs, backends, vectors."""

import asyncio
import json
import os
import subprocess
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.envs.coding import CodeAction, CodingEnv
from envweave.envs.echo import EchoAction, EchoEnv
from envweave.envs.repl import REPLEnv
from envweave.errors import (
    CapacityError,
    ClosedError,
    EnvWeaveError,
    ProviderError,
    UsageError,
)
from support.containers import OverHTTP, envweave, of, only, until
from support.engine import connect as connect_engine
from support.need import need

pytest.importorskip("docker")

from envweave.client.executor import OpenEnvExecutor
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


# Clients that start their own container.


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
        assert [row.t for row in batch.observation] == [1] * 5
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
        "import os, http.client as h; c = h.HTTPConnection('127.0.0.1', 8000); "
        "c.request('GET', '/metrics', headers={'Authorization': 'Bearer ' + os.environ['ENVWEAVE_TOKEN']}); "
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
    with ew.make_vector(f"docker://{python_image}", 2, provider_options=options) as envs:
        assert [type(executor) for executor in envs._executors] == [OpenEnvExecutor]
        assert len(of(engine)) == 2
        envs.reset()
        batch = envs.step([{"message": "x" * number} for number in (1, 2)])
        assert [pytest.approx(one) for one in batch.reward] == [0.1, 0.2]
        of(engine)[0].kill()
        batch = envs.step([{"message": "x"}] * 2)
        lost = [number for number in range(2) if batch.truncated[number]]
        assert len(lost) == 1
        assert "was killed" in json.dumps(batch.info[lost[0]]["error"])
        envs.reset(ids=lost)
        assert len(envs.step([{"message": "xx"}] * 2).reward) == 2
    assert of(engine) == []
