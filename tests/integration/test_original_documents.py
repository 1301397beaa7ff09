"""The original documents as printed: one test per row of the review, import paths aside.

001 is EnvTorch's CodeAct, 002 EnvTorch over HTTP, 003 OpenEnv's REPL client. Rows that need Docker are in
`test_original_images.py`.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.envs.repl import REPLEnv
from envweave.testing import running_server
from support.my_env import MyAction, MyEnv, MyObservation
from support.until import until

ROOT = Path(__file__).parent.parent.parent

# 001: CodeAct.


def test_001_everything_for_codeact_is_imported_from_one_place():
    from envweave.codeact import (  # noqa: F401
        CodeAction,
        CodeQualityTransform,
        CodeSafetyTransform,
        CompositeTransform,
        MathProblemTransform,
        ToolRegistry,
        Transform,
        create_codeact_env,
        create_math_env_transform,
        create_mcp_environment,
        create_safe_env_transform,
    )


def test_001_the_file_tools_write_to_the_episodes_tmp():
    from envweave.codeact import CodeAction, create_mcp_environment

    env = create_mcp_environment()
    env.reset()
    code = 'file_write("/tmp/hello.txt", "Hello")\nfile_read("/tmp/hello.txt"), open("/tmp/hello.txt").read()'
    assert env.step(CodeAction(code=code)).execution_result.return_value == ["Hello", "Hello"]
    env.close()
    assert not os.path.exists("/tmp/hello.txt")


def test_001_a_step_without_reset_begins_an_episode():
    from envweave.codeact import CodeAction, create_codeact_env, create_math_env_transform

    env = create_codeact_env()
    env.transform = create_math_env_transform(expected_answer=42)
    env.step(CodeAction(code="x = 21"))
    obs = env.step(CodeAction(code="x * 2"))  # the same episode, which the answer ends
    assert obs.execution_result.return_value == 42
    assert obs.reward >= 1.0
    assert obs.done
    env.close()
    with ew.make("codeact") as handle, pytest.raises(ew.errors.ResetNeededError):  # a handle keeps Gymnasium's rule
        handle.step({"code": "1"})


def test_001_one_command_shows_the_snippets_of_the_document():
    command = [sys.executable, "-W", "error", "-m", "envweave.examples.codeact"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for shown in ("Result: 200", "ZeroDivisionError: division by zero", "Hello from CodeAct", "reward +1.0"):
        assert shown in done.stdout


# 002: environments over HTTP.


SERVER = """
from support.my_env import MyAction, MyEnvironment, MyObservation
from envweave.server import create_fastapi_app

env = MyEnvironment()
app = create_fastapi_app(env, MyAction, MyObservation)
"""


@contextmanager
def uvicorn(folder, program, *options):
    """`uvicorn app:app` on a free port, as anybody runs it; yields its URL and the file that it logs to."""
    (folder / "app.py").write_text(program)
    path = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", "0", *options]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stderr=file, stdout=file
        )
    try:
        yield until(lambda: _address(process, log)), log
    finally:
        process.terminate()
        process.wait(timeout=30)


def _address(process, log):
    assert process.poll() is None, log.read_text()
    found = re.search(r"Uvicorn running on (http://\S+)", log.read_text())
    return found and found[1]


@pytest.fixture(scope="module")
def my_server(tmp_path_factory):
    """The URL of the document's own server: an instance, under plain uvicorn."""
    with uvicorn(tmp_path_factory.mktemp("my_server"), SERVER) as (url, _):
        yield url


def test_002_a_client_class_with_two_type_parameters_drives_the_server(my_server):
    with MyEnv(base_url=my_server) as client:
        assert client.reset().observation.response == "ready"
        result = client.step(MyAction(message="hello"))
        assert (result.observation.response, result.reward, result.done) == ("HELLO", 1.0, False)
        assert client.state().step_count == 1
        assert client.step(MyAction(message="stop")).done


def test_002_a_step_result_takes_done():
    result = ew.StepResult(observation="seen", reward=0.5, done=True)
    assert (result.observation, result.reward, result.terminated, result.truncated, result.done) == (
        ("seen", 0.5, True, False, True)
    )
    assert ew.StepResult("seen", truncated=True, done=True).terminated is False
    assert ew.StepResult("seen", done=False).done is False


def test_002_echo_and_coding_clients_have_the_interface_of_an_http_client():
    from envweave.envs.coding import CodingEnv
    from envweave.envs.echo import EchoEnv

    for client in (EchoEnv, CodingEnv):
        for name in ("reset", "step", "state", "close", "from_docker_image", "from_hub"):
            assert callable(getattr(client, name))


def test_002_an_environment_without_a_state_has_a_default_one():
    class Bare(ew.Environment):
        def reset(self):
            return MyObservation(response="ready")

        def step(self, action):
            return MyObservation(response="done")

    assert Bare().state == ew.State()
    with ew.make(Bare) as env:
        env.reset(episode_id="mine")
        env.step(1)
        assert env.state() == ew.State(episode_id="mine", step_count=1)

    class Own(Bare):
        def reset(self):
            self.state = {"at": 3}
            return MyObservation(response="ready")

    with ew.make(Own) as env:
        env.reset()
        assert env.state() == {"at": 3}


def test_002_plain_http_from_anywhere_steps_the_one_instance(my_server):
    httpx.post(f"{my_server}/reset")
    said = httpx.post(f"{my_server}/step", json={"action": {"message": "one"}}).json()
    assert (said["observation"]["response"], said["reward"], said["done"]) == ("ONE", 1.0, False)
    with MyEnv(base_url=my_server) as first, MyEnv(base_url=my_server) as second:
        first.reset()
        first.step(MyAction(message="two"))
        second.step(MyAction(message="three"))
        second.close()  # leaves the others alone
        httpx.post(f"{my_server}/step", json={"action": {"message": "four"}})
        assert first.state().step_count == httpx.get(f"{my_server}/state").json()["step_count"] == 3
        assert first.step(MyAction(message="five")).observation.response == "FIVE"


def test_002_calls_of_many_clients_on_one_instance_wait_for_their_turn(tmp_path):
    slow = SERVER.replace("env = MyEnvironment()", "from support.my_env import Slow\nenv = Slow()")
    with uvicorn(tmp_path, slow) as (url, _), ThreadPoolExecutor(8) as pool:
        httpx.post(f"{url}/reset")
        step = partial(httpx.post, f"{url}/step", json={"action": {"message": "x"}})
        assert [each.status_code for each in pool.map(lambda _: step(), range(24))] == [200] * 24
        assert httpx.get(f"{url}/state").json()["step_count"] == 24


def test_002_one_websocket_client_at_a_time_has_the_instance_and_the_hint_helps_the_next(my_server, tmp_path):
    with ew.connect(my_server) as first:
        first.reset()
        with pytest.raises(ew.errors.CapacityError) as refused:
            ew.connect(my_server)
        assert "pass the class or a function" in refused.value.hint
        assert "HTTPEnvClient" in refused.value.hint
        with MyEnv(base_url=my_server) as shared:  # as the hint says
            assert shared.step(MyAction(message="shared")).observation.response == "SHARED"
        assert first.state().step_count == 1
        assert first.step({"message": "mine"}).obs.response == "MINE"
    with ew.connect(my_server) as second:
        second.reset()
    by_class = SERVER.replace("create_fastapi_app(env,", "create_fastapi_app(MyEnvironment,")  # as the hint says, too
    with uvicorn(tmp_path, by_class) as (url, _), ew.connect(url) as first, ew.connect(url) as second:
        first.reset()
        second.reset()


def test_002_a_websocket_client_follows_another_on_an_instance_that_is_shared(my_server):
    with MyEnv(base_url=my_server) as shared:
        shared.reset()
        for word in ("one", "two"):
            with ew.connect(my_server) as env:
                env.reset()
                assert env.step({"message": word}).obs.response == word.upper()
        assert shared.state().step_count == 1
        with pytest.raises(ew.UsageError, match="in use with other options"):
            ew.connect(my_server, max_episode_steps=3)


def test_002_reset_without_arguments_type_checks(tmp_path):
    shutil.copy(Path(__file__).parent.parent / "support" / "my_env.py", tmp_path / "mine.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "mine.py"]
    source = str(Path(ew.__file__).parent.parent)
    env = {**os.environ, "MYPYPATH": source}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr


def test_002_one_episode_has_one_id(my_server):
    with ew.connect(my_server) as env:
        env.reset()
        before = env.state().episode_id
        (end,) = [each for each in env.step({"message": "stop"}).requests if each.kind == "episode_end"]
        assert end.episode_id == before == env.state().episode_id


@pytest.mark.parametrize("client", [HTTPEnvClient, EnvClient])
def test_002_a_port_that_nobody_listens_on_is_an_error_in_seconds(client):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        began = time.monotonic()
        with pytest.raises(ew.errors.TransportError, match="cannot reach"):
            client(f"http://127.0.0.1:{taken.getsockname()[1]}").connect()
        assert time.monotonic() - began < 6.0  # of 10 for a server that is there and does not answer


# 003: the REPL client.


def test_003_get_variable_takes_any_expression():
    with REPLEnv() as env:
        env.reset(context="hello world")
        env.execute("x = [41, 1]")
        assert env.get_variable("x[0]").observation.result.stdout == "41\n"
        assert env.get_variable("sum(x)").observation.result.stdout == "42\n"
        assert env.get_variable("context").observation.result.stdout == "'hello world'\n"


@pytest.fixture(scope="module")
def repl_server():
    with running_server("repl") as server:
        yield server.url


@pytest.fixture(params=["local", "remote"])
def base_url(request):
    """The document's promise: the same client, with and without a server."""
    return None if request.param == "local" else request.getfixturevalue("repl_server")


def test_003_the_state_before_reset_is_that_of_an_empty_session(base_url):
    with REPLEnv(base_url=base_url) as env:
        state = env.state()
        assert (state.iteration, state.namespace_keys, state.final_answer, state.max_iterations) == (0, [], None, 30)
        assert env.list_variables() == []


def test_003_a_client_that_is_used_after_close_begins_anew(base_url):
    env = REPLEnv(base_url=base_url)
    env.reset(context="first")
    env.close()
    assert env.reset(context="second").observation.context_preview == "second"
    env.close()


def test_003_a_function_with_a_server_is_ignored_with_a_warning(repl_server):
    with pytest.warns(UserWarning, match="ignored: llm_batch_fn, llm_query_fn; they are for a REPL in this process"):
        env = REPLEnv(base_url=repl_server, llm_query_fn=str.upper, llm_batch_fn=list)
    with env:
        assert env.reset(context="abc").observation.context_length == 3


def test_003_a_local_option_with_a_server_is_ignored_with_a_warning(repl_server):
    env = REPLEnv(base_url=repl_server, max_output_length=10, reward_on_error=-1.0)
    with pytest.warns(UserWarning, match="ignored: max_output_length, reward_on_error; the server takes no options"):
        env.reset()
    assert len(env.execute("print('x' * 100)").observation.result.stdout) == 101
    env.close()


def test_003_a_server_that_takes_options_gets_them():
    with running_server("repl", "--allow-arguments") as server, REPLEnv(server.url, reward_on_error=-1.0) as env:
        env.reset()
        assert env.execute("1 / 0").reward == -1.0


def test_003_what_reset_returns_reads_like_what_a_step_returns(base_url):
    with REPLEnv(base_url=base_url) as env:
        result = env.reset(context="abc", task_prompt="Count")
        assert (result.observation.context_length, result.reward, result.done) == (3, None, False)
        while not result.done:
            result = env.execute("FINAL(len(context))")
        assert env.state().final_answer == "3"


def test_003_the_default_model_is_one_that_the_hubs_router_serves():
    from envweave.lm import LanguageModel

    with LanguageModel.from_environment(hf_token="hf_x", environ={}) as model:
        assert model.model == "Qwen/Qwen3-Coder-480B-A35B-Instruct"
        assert model.base_url == "https://router.huggingface.co/v1"
    with LanguageModel.from_environment(hf_token="hf_x", environ={"LLM_MODEL": "some/other"}) as model:
        assert model.model == "some/other"
    assert "Qwen/Qwen3-Coder-480B-A35B-Instruct" in (ROOT / "docs" / "repl.md").read_text()


REPL_SERVER = """
from envweave.envs.repl import REPLEnvironment
from envweave.server import create_app

app = create_app(REPLEnvironment)
"""


@pytest.mark.parametrize("websocket", ["websockets", "websockets-sansio"])
def test_003_no_token_is_in_the_log_of_a_uvicorn_of_ones_own(tmp_path, websocket):
    secret, server_token = "hf_TheSecretOfTheCaller", "the-token-of-the-server"
    options = ("--log-level", "debug", "--ws", websocket)
    program = REPL_SERVER.replace("REPLEnvironment)", f"REPLEnvironment, token={server_token!r})")
    with uvicorn(tmp_path, program, *options) as (url, log):
        for client in (REPLEnv(base_url=url, token=server_token), PlainREPL(url, token=server_token)):
            with client as env:
                env.reset(context="abc", hf_token=secret)
    said = log.read_text()
    assert "POST /reset" in said
    assert [hidden for hidden in (secret, server_token, "context", "Bearer") if hidden in said] == []


class PlainREPL(HTTPEnvClient):
    """The same over plain HTTP."""


def test_003_from_hub_takes_a_repository_and_a_tag(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with pytest.raises(ew.errors.ProviderError):  # the words are understood; there is no Docker at that address
        REPLEnv.from_hub(repo_id="openenv/repl_env", tag="1.2")
    from envweave.providers.hub import Space

    assert Space("openenv/repl_env").image("1.2") == "registry.hf.space/openenv-repl-env:1.2"


def test_003_from_hub_and_the_uv_provider_take_a_project_path(tmp_path):
    from envweave.providers import UVProvider

    with pytest.raises(ew.UsageError, match=r"has no pyproject\.toml"):
        REPLEnv.from_hub(repo_id="openenv/repl_env", use_docker=False, project_path=str(tmp_path))
    provider = UVProvider(project_path=str(tmp_path))
    with pytest.raises(ew.UsageError, match=r"has no pyproject\.toml"):
        provider.start()


def test_003_the_hint_after_the_end_can_be_followed():
    with REPLEnv() as env:
        env.reset()
        env.submit_final_answer("42")
        with pytest.raises(ew.UsageError) as refused:
            env.execute("1")
    assert refused.value.hint == "call env.reset(); ew.make(…, autoreset=True) does so by itself"
    with ew.make("repl", autoreset=True) as env:  # as it says
        env.reset()
        env.step({"is_final": True, "final_answer": "42"})
        env.step({"code": "1"})


def test_the_variables_that_are_read_are_documented():
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for name in ("HF_INFERENCE_URL", "HF_ENDPOINT", "HF_SPACES_REGISTRY", "LLM_EXTRA", "ENVWEAVE_TRUST_REMOTE_CODE"):
        assert f"`{name}`" in text
