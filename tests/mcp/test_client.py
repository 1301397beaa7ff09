"""Tools of a well-behaved server, as functions: over stdio and over HTTP."""

import asyncio
import logging
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import signature

import pytest

from envweave.core.loop import BACKGROUND
from envweave.errors import ClosedError, UsageError
from envweave.sandbox import Sandbox
from envweave.tools import ToolError
from envweave.tools.mcp import connect_mcp


@pytest.fixture(scope="module")
def tools(python):
    with connect_mcp({"useful": python("useful", env={"TOKEN": "s3cret-value"})}) as found:
        yield found


@pytest.fixture(scope="module")
def functions(tools):
    return tools.registry.functions()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_arguments_are_positional_in_the_order_of_the_schema_or_by_name(functions):
    assert functions["add"](2) == 3
    assert functions["add"](2, 5) == functions["add"](b=5, a=2) == 7


def test_signatures_and_docstrings_come_from_the_server(functions):
    assert str(signature(functions["add"])) == "(a: int, b: int = 1)"
    assert functions["add"].__doc__ == "Add two numbers."
    assert functions["add"].__name__ == "add"


def test_a_name_that_is_no_identifier_becomes_one(functions):
    assert functions["odd_one_out"]("right", {"x": 3}) == {"kind": "right", "where": {"x": 3, "y": 0}, "tags": None}


def test_text_in_any_script_crosses(functions):
    text = 'zażółć 𝔘 日本語\n\t"quoted" \\ \u2028'
    assert functions["echo"](text) == text


def test_a_result_that_the_server_wrapped_is_unwrapped(functions, tools):
    assert functions["process"]() > 0
    assert tools.registry["process"].output_schema == {"title": "Result", "type": "integer"}


def test_nothing_is_none(functions):
    assert functions["nothing"]() is None


def test_pictures_are_data(functions):
    image = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    assert functions["picture"]() == [image]
    assert functions["mixed"]() == ["a text", image]


def test_a_tool_that_fails_is_an_error_with_the_servers_words(functions):
    with pytest.raises(ToolError, match=r"^useful\.fail: .*because I say so") as caught:
        functions["fail"]("because I say so")
    assert caught.value.kind == "failed"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.kind) == (str(caught.value), "failed")


def test_a_missing_argument_is_found_before_anything_is_sent(tools):
    with pytest.raises(ToolError, match=r"^add: a: is required") as caught:
        tools.registry.call("add", {"b": 1})
    assert caught.value.kind == "invalid_arguments"


def test_variables_reach_the_server_and_nothing_else_does(functions, monkeypatch):
    seen = functions["variables"]()
    assert seen["TOKEN"] == "s3cret-value"
    assert "PYTEST_CURRENT_TEST" not in seen


def test_no_secret_is_in_a_repr_or_an_error(functions, tools):
    with pytest.raises(ToolError, match=r"fail: \*\*\* is the token") as caught:
        functions["fail"]("s3cret-value is the token")
    shown = repr(tools) + repr(tools.registry["add"]) + repr(tools._connections[0].server) + repr(caught.value)
    assert "s3cret" not in shown


def test_fifty_calls_at_once_from_fifty_threads(functions):
    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(lambda number: functions["echo"](str(number)), range(50))) == list(map(str, range(50)))


def test_a_slow_call_does_not_hold_up_others(functions, tmp_path):
    flag = tmp_path / "flag"
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(functions["wait"], str(flag))
        while not (tmp_path / "flag.waiting").exists():
            pass
        assert functions["add"](1) == 2
        flag.touch()
        assert slow.result(60) == "seen"


def test_a_call_from_a_loop_of_ones_own_does_not_stop_it(functions):
    async def play():
        return await asyncio.gather(*(asyncio.to_thread(functions["add"], number) for number in range(5)))

    assert asyncio.run(play()) == [1, 2, 3, 4, 5]


def test_a_call_from_our_own_loop_is_refused_instead_of_hanging(functions):
    async def play():
        return functions["add"](1)

    with pytest.raises(UsageError, match="event loop"):
        BACKGROUND.run(play())


def test_code_in_a_sandbox_calls_them_like_functions_and_sees_what_goes_wrong(functions):
    with Sandbox(tools=functions) as sandbox, sandbox.start() as session:
        assert session.run("add(2, b=3) + add(1)").return_value == 7
        failed = session.run("fail('no luck')")
        assert failed.exception.type == "ToolError"
        assert "useful.fail: " in failed.exception.message
        assert "ToolError: ToolError" not in failed.stderr
        assert session.run("try:\n    fail('x')\nexcept Exception as error:\n    found = str(error)\nfound").success


def test_the_process_is_gone_after_close_and_calls_are_refused(python):
    with connect_mcp({"useful": python("useful")}) as found:
        process, pid = found.registry.functions()["process"], found.registry.call("process")
        assert alive(pid)
    assert not alive(pid)
    with pytest.raises(ClosedError, match="'useful' is disconnected"):
        process()
    found.close()


def test_a_call_under_way_ends_when_the_connection_is_closed(python, tmp_path):
    found = connect_mcp({"useful": python("useful")})
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(found.registry.call, "wait", {"name": str(tmp_path / "never")})
        while not (tmp_path / "never.waiting").exists():
            pass
        found.close()
        with pytest.raises(ToolError, match=r"useful\.wait: the server is gone") as caught:
            call.result(60)
    assert caught.value.kind == "server_gone"


SCRIPT = """
import os, sys
from envweave.tools.mcp import connect_mcp
tools = connect_mcp({"useful": {"command": sys.executable, "args": [sys.argv[1]]}})
print(tools.registry.call("process"), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["forgotten", "killed"])
def test_a_process_that_nobody_closed_ends_with_ours(python, end):
    command = [sys.executable, "-c", SCRIPT, python("useful")["args"][0], end]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complaint = process.communicate(timeout=60)
    assert complaint == ""
    pid = int(said)
    while alive(pid):  # its input is closed: it leaves in its own time
        pass


def test_over_http_with_headers(http_server):
    url, _ = http_server
    with connect_mcp({"web": {"url": url, "headers": {"Authorization": "Bearer s3cret-value"}}}) as found:
        assert found.registry.call("add", {"a": 1, "b": 2}) == 3
        assert "s3cret" not in repr(found)


def test_a_url_is_enough(http_server):
    url, _ = http_server
    with connect_mcp(url) as found:
        assert found.registry.call("echo", {"text": "hi"}) == "hi"
        with pytest.raises(ToolError, match=r"^127\.0\.0\.1\.fail: "):
            found.registry.call("fail", {"why": "x"})


def test_two_servers_and_a_prefix(python):
    servers = {"one": python("useful"), "two": python("useful", prefix="two_")}
    with connect_mcp(servers) as found:
        assert found.registry.call("process") != found.registry.call("two_process")


def test_two_tools_of_one_name_are_refused_with_both_servers(python):
    with pytest.raises(UsageError, match="two MCP tools are called 'add': 'add' of 'one' and 'add' of 'two'") as caught:
        connect_mcp({"one": python("useful"), "two": python("useful")})
    assert "prefix" in caught.value.hint


def test_no_secret_is_in_what_the_http_library_logs(http_server, caplog):
    url, _ = http_server
    secret = url.replace("http://", "http://s3cret-user:s3cret-word@") + "?key=s3cret-key"
    with (
        caplog.at_level(logging.DEBUG),
        connect_mcp({"web": {"url": secret, "headers": {"X": "s3cret-head"}}}) as found,
    ):
        assert found.registry.call("echo", {"text": "hi"}) == "hi"
    lines = [record.getMessage() for record in caplog.records if record.name == "httpx2"]
    assert any("?key=***" in line for line in lines)
    assert "s3cret" not in caplog.text


def test_no_secret_is_in_what_is_logged_about_a_server_that_refuses(http_server, caplog):
    url, process = http_server
    process.kill()
    process.wait()
    with caplog.at_level(logging.DEBUG), pytest.raises(ToolError) as caught:
        connect_mcp({"web": url.replace("http://", "http://s3cret-user@") + "?key=s3cret-key"})
    assert "s3cret" not in caplog.text + str(caught.value)
