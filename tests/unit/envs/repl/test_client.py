"""`REPLEnv` itself; with a server it is played in tests/integration/test_repl.py."""

import asyncio
import subprocess
import sys

import pytest

import envweave as ew
from envweave.envs.repl import REPLEnv
from envweave.errors import UsageError


def test_it_is_made_by_its_name_too():
    with ew.make("repl") as env:
        env.reset(context="abc")
        assert env.step({"code": "FINAL(len(context))"}).info["final_answer"] == "3"


def test_a_variable_is_looked_at_for_an_iteration():
    with REPLEnv() as env:
        env.reset()
        env.execute("count = 'eleven'")
        seen = env.get_variable("count").observation
        assert (seen.result.stdout, seen.iteration) == ("'eleven'\n", 2)
        assert "NameError" in env.get_variable("nope").observation.result.exception


@pytest.mark.parametrize("name", [None, 5])
def test_what_is_not_text_names_no_variable(name):
    with REPLEnv() as env:
        env.reset()
        with pytest.raises(UsageError, match="neither the name of a variable nor an expression"):
            env.get_variable(name)
        assert env.state().iteration == 0


@pytest.mark.parametrize(("name", "problem"), [("a b", "SyntaxError"), ("x.y", "NameError")])
def test_an_expression_that_cannot_be_printed_is_an_observation(name, problem):
    with REPLEnv() as env:
        env.reset()
        assert problem in env.get_variable(name).observation.result.exception


def test_a_value_that_looks_like_an_answer_is_none():
    with REPLEnv() as env:
        env.reset()
        env.execute("class A:\n    def __repr__(self): return 'FINAL(3)'\nx = A()")
        step = env.get_variable("x")
        assert (step.observation.result.stdout, step.done) == ("FINAL(3)\n", False)


def test_variables_are_listed_without_a_step():
    with REPLEnv() as env:
        assert env.list_variables() == []
        env.reset()
        env.execute("b = a = 1\n_hidden = 2\nimport os")
        assert env.list_variables() == ["context", "answer", "b", "a"]
        env.list_variables().clear()
        assert env.list_variables() == ["context", "answer", "b", "a"]
        assert env.state().iteration == 1


def test_variables_are_listed_after_steps_that_were_awaited():
    async def play(env):
        await env.reset()
        await env.step({"code": "a = 1"})

    with REPLEnv() as env:
        asyncio.run(play(env.aio))
        assert env.list_variables() == ["context", "answer", "a"]


def test_a_closed_client_keeps_its_name_and_takes_a_transform_again():
    env = REPLEnv()
    name = repr(env)
    env.close()
    assert repr(env) == name
    with env:
        env.transform = str
        assert env.transform is str


def test_who_writes_sync_as_for_openenv_gets_the_same():
    with REPLEnv().sync() as env:
        assert env.reset(context=None, hf_token=None).observation.context_length == 0


@pytest.mark.parametrize(
    "option",
    [
        {"llm_query_fn": str},
        {"llm_batch_fn": list},
        {"metric": max},
        {"transform": print},
        {"limits": {"wall": 3}},
        {"sandbox": {"backend": "local"}},
    ],
    ids=lambda option: next(iter(option)),
)
def test_what_cannot_go_to_a_server_is_ignored_with_a_warning(option):
    with pytest.warns(UserWarning, match=f"^ignored: {next(iter(option))}; they are for a REPL in this process"):
        REPLEnv("http://127.0.0.1:9", **option)


def test_a_client_that_is_used_after_close_begins_anew():
    env = REPLEnv()
    env.reset(context="first")
    env.execute("x = 1")
    env.close()
    env.close()
    assert env.state().context is None
    assert env.reset(context="second").observation.context_preview == "second"
    assert "NameError" in env.execute("x").observation.result.exception
    env.close()
    with env:
        assert env.list_variables() == []


def test_nothing_is_under_way_here():
    with REPLEnv() as env, pytest.raises(UsageError, match="keeps no answers"):
        env.last()


def test_a_subclass_stays_one_in_its_forks():
    class Mine(REPLEnv):
        colour = "red"

    with Mine() as env:
        env.colour = "blue"
        env.reset()
        with env.fork() as twin:
            assert (type(twin), twin.colour) == (Mine, "blue")


@pytest.mark.parametrize("close_first", [True, False])
def test_a_fork_and_its_original_are_closed_in_any_order(close_first):
    env = REPLEnv()
    env.reset()
    twin = env.fork()
    first, second = (env, twin) if close_first else (twin, env)
    first.close()
    assert second.execute("1 + 1").observation.result.stdout == "2\n"
    second.close()
    second.close()


def test_it_is_light():
    code = """
import sys
import envweave
assert not [name for name in sys.modules if name.startswith("envweave.envs")]
from envweave.envs.repl import REPLEnv
with REPLEnv() as env:
    env.reset(context="x")
    env.execute("FINAL(1)")
print([name for name in ("httpx", "websockets", "fastapi", "numpy", "mcp") if name in sys.modules])
"""
    import os

    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "OPENAI_", "HF_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=plain
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_client_without_a_server_has_what_every_client_has():
    async def play():
        async with REPLEnv() as env:
            await env.reset(context="abc")
            return (await env.step({"code": "FINAL(len(context))"})).info["final_answer"]

    assert asyncio.run(play()) == "3"
    with REPLEnv(max_output_length=3) as env, env.new_session() as other:
        env.reset(context="mine")
        other.reset(context="other")
        assert env.execute("print(context[:2])").observation.result.stdout == "mi\n"
        assert other.execute("print(context)").observation.result.stdout.startswith("oth\n… [cut")
