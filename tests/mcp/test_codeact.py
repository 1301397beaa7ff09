"""CodeAct with the tools of MCP servers as functions inside, and its own tools at `/mcp`."""

import asyncio
import os

import pytest
from mcp import Client

from envweave.codeact import CodeAction, create_mcp_environment
from envweave.envs.coding import CodingEnv
from envweave.testing.serving import running_server


def run(env, code):
    return env.step(CodeAction(code=code)).execution_result


@pytest.fixture
def useful(python):
    with create_mcp_environment({"useful": python("useful")}) as env:
        env.reset()
        yield env


def test_tools_of_a_server_are_functions_inside(useful):
    assert run(useful, "add(2, 3), echo(text='ü'), nothing()").return_value == [5, "ü", None]
    assert "Add two numbers." in run(useful, "add.__doc__").return_value


def test_a_file_server_of_others_writes_and_reads(peers, tmp_path):
    how = {"command": peers.node(), "args": [peers.script("server-filesystem", "dist/index.js"), str(tmp_path)]}
    with create_mcp_environment({"fs": how}) as env:
        env.reset()
        path = str(tmp_path / "hello.txt")
        result = run(env, f"write_file({path!r}, 'from inside')\nread_text_file({path!r})['content']")
        assert result.return_value == "from inside"
        assert (tmp_path / "hello.txt").read_text() == "from inside"
        refused = run(env, "read_text_file('/etc/passwd')").exception
        assert refused.type == "ToolError"
        assert "Access denied" in refused.message


def test_a_server_over_http_is_used_like_any_other(http_server):
    url, _ = http_server
    with create_mcp_environment({"web": {"url": url}}) as env:
        env.reset()
        assert run(env, "add(40, 2)").return_value == 42


def test_a_server_that_dies_is_an_error_inside_and_the_episode_lives(useful):
    run(useful, "kept = 1")
    died = run(useful, "die()").exception
    assert died.type == "ToolError"
    assert "useful.die" in died.message
    assert run(useful, "kept, add(1, 1)").return_value == [1, 2]


def test_code_can_catch_what_goes_wrong_in_a_tool(useful):
    said = run(useful, "try:\n    fail('no')\nexcept Exception as error:\n    said = str(error)\nsaid").return_value
    assert said == "useful.fail: Error executing tool fail: no"


def test_a_server_that_hangs_costs_its_call_and_nothing_else(python):
    how = python("broken", "silent")
    with create_mcp_environment({"broken": how}, limits={"tool_wall": 0.5}) as env:
        env.reset()
        result = run(env, "go_wrong()")
        assert result.exception.type == "TimeoutError"
        assert result.limit.name == "tool_wall"
        assert "hello" in run(env, "work('hello')").return_value


def test_a_fork_goes_on_with_the_servers_when_its_original_is_closed(python):
    env = create_mcp_environment({"useful": python("useful")})
    env.reset()
    run(env, "x = 1")
    twin = env.fork()
    server = run(env, "process()").return_value
    env.close()
    assert run(twin, "add(x, 1), process()").return_value == [2, server]
    twin.close()
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def test_the_code_sees_nothing_of_how_a_server_was_started(python):
    how = python("useful", env={"API_KEY": "s3cret-value"})
    with create_mcp_environment({"useful": how}) as env:
        env.reset()
        seen = run(env, "import os\nstr(os.environ), open('/proc/self/environ').read(), str(globals()), dir(add)")
        assert seen.success
        assert "API_KEY" not in str(seen.return_value)
        assert run(env, "variables()['API_KEY']").return_value == "s3cret-value"  # the server has it, and may tell


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_file_tools_of_an_episode_are_served_and_are_those_of_its_code(mode):
    with running_server("codeact", "--arg", "files=true") as server:

        async def play():
            async with Client(f"{server.url}/mcp", mode=mode) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                await client.call_tool("file_write", {"path": "a/b.txt", "content": "over MCP"})
                read = await client.call_tool("file_read", {"path": "a/b.txt"})
                outside = await client.call_tool("file_read", {"path": "../../etc/passwd"})
                return names, read.structured_content, outside.is_error

        names, read, refused = asyncio.run(play())
        assert names == ["file_write", "file_read", "file_list", "file_delete"]
        assert (read, refused) == ({"result": "over MCP"}, True)


def test_an_environment_without_tools_lists_none():
    with running_server("coding") as server, CodingEnv(base_url=server.url):

        async def play():
            async with Client(f"{server.url}/mcp") as client:
                return (await client.list_tools()).tools

        assert asyncio.run(play()) == []
