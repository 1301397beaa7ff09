"""A server that dies, hangs or talks nonsense is a named error; what comes after it works again."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from envweave.sandbox import Sandbox
from envweave.tools import ToolError
from envweave.tools.mcp import connect_mcp


@pytest.fixture
def broken(python):
    """The tools of a server that goes wrong in the way that is asked for."""
    opened = []

    def connect(mode, **timeouts):
        servers = {"broken": python("broken", mode, env={"TOKEN": "s3cret-value"})}
        opened.append(connect_mcp(servers, **{"call_timeout": 30.0, **timeouts}))
        return opened[-1].registry

    yield connect
    for tools in opened:
        tools.close()


def pid_of(registry):
    return int(registry.call("work").split()[0])


@pytest.mark.parametrize(
    ("mode", "kind", "message", "timeout"),
    [
        ("dies", "server_gone", "the server is gone; its last output: a last word, and a token: ***", 30.0),
        ("silent", "timeout", "no answer within 0.5 s", 0.5),
        ("stranger", "timeout", "no answer within 0.5 s", 0.5),
        ("garbage", "bad_answer", "the server sent something that is not a message, and no answer", 0.5),
        ("nonsense", "bad_answer", "the answer is not valid: content: input should be a valid list", 30.0),
        ("error", "failed", "no, with ***", 30.0),
    ],
)
def test_what_goes_wrong_has_a_name_and_the_next_call_works(broken, mode, kind, message, timeout):
    registry = broken(mode, call_timeout=timeout)
    before = pid_of(registry)
    with pytest.raises(ToolError) as caught:
        registry.call("go_wrong")
    assert caught.value.kind == kind
    assert str(caught.value).startswith(f"broken.go-wrong: {message}")
    assert "s3cret" not in str(caught.value)
    after = pid_of(registry)
    assert (before == after) == (mode != "dies"), "one that still answers is not started again"


def test_a_server_that_hangs_is_killed_and_started_again(broken):
    registry = broken("hangs", call_timeout=0.5)
    before = pid_of(registry)
    with pytest.raises(ToolError, match="no answer within"):
        registry.call("go_wrong")
    assert pid_of(registry) != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_garbage_before_the_answer_does_no_harm(broken):
    assert broken("garbage_first").call("go_wrong") == "and then the answer"


def test_a_server_killed_between_two_calls_is_started_again_unnoticed(broken):
    registry = broken("silent")
    before = pid_of(registry)
    os.kill(before, signal.SIGKILL)
    first = kind_of(registry, "work")  # a call that may have reached it is not sent again
    assert first == "server_gone" or not first.startswith(str(before))
    assert pid_of(registry) != before


def test_a_server_killed_in_the_middle_of_a_call_fails_that_call_at_once(python, tmp_path):
    with connect_mcp({"useful": python("useful")}) as tools:
        pid = tools.registry.call("process")
        with Sandbox(tools=tools.registry.functions()) as sandbox, sandbox.start() as session:
            session.run("kept = 41")
            from threading import Thread

            def kill():
                while not (tmp_path / "never.waiting").exists():
                    pass
                os.kill(pid, signal.SIGKILL)

            killer = Thread(target=kill)
            killer.start()
            failed = session.run(f"wait({str(tmp_path / 'never')!r})")
            killer.join()
            assert failed.exception.type == "ToolError"
            assert failed.exception.message.startswith("useful.wait: the server is gone")
            assert session.run("kept + add(0, 1)").return_value == 42, "the episode lives"


def test_a_server_that_leaves_at_a_question_of_the_new_protocol_is_asked_in_the_old_one(broken):
    registry = broken("strict")
    os.kill(pid_of(registry), signal.SIGKILL)
    with suppress(ToolError):
        pid_of(registry)
    assert pid_of(registry)


def test_all_who_wait_for_a_server_that_is_gone_share_one_attempt(python, tmp_path):
    script = tmp_path / "server.py"
    script.write_text(Path(python("broken")["args"][0]).read_text())
    with connect_mcp(
        {"broken": {"command": sys.executable, "args": [str(script), "dies"]}}, connect_timeout=30.0
    ) as tools:
        script.write_text(f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); raise SystemExit('not again')")
        with pytest.raises(ToolError):
            tools.registry.call("go_wrong")
        with ThreadPoolExecutor(20) as pool:
            failures = list(pool.map(lambda _: kind_of(tools.registry, "work"), range(20)))
        assert set(failures) == {"server_gone"}
        assert len((tmp_path / "starts").read_text()) < 20
        with pytest.raises(ToolError, match="the server is gone, and cannot be started again: not again"):
            tools.registry.call("work")


def kind_of(registry, name):
    try:
        return registry.call(name)
    except ToolError as error:
        return error.kind


def test_a_server_that_leaves_after_its_answer_has_answered(broken):
    assert broken("leaves").call("go_wrong") == "goodbye"


@pytest.mark.parametrize(
    ("mode", "message"),
    [("exits", "cannot be started: no license for ***"), ("mute", "cannot be started: it did not answer within 0.5 s")],
)
def test_a_server_that_cannot_be_started_says_so(broken, mode, message):
    with pytest.raises(ToolError) as caught:
        broken(mode, connect_timeout=0.5 if mode == "mute" else 30.0)
    assert caught.value.kind == "server_gone"
    assert str(caught.value) == f"MCP server 'broken': the server {message}"


def test_a_command_that_does_not_exist_says_so():
    with pytest.raises(
        ToolError, match=r"MCP server 'files': the server cannot be started: .*no-such-command"
    ) as caught:
        connect_mcp({"files": {"command": "no-such-command"}})
    assert "on PATH" in caught.value.hint


def test_a_server_that_leaves_without_a_word_is_to_be_looked_at_by_hand():
    with pytest.raises(ToolError, match="the server cannot be started: ") as caught:
        connect_mcp({"quiet": {"command": sys.executable, "args": ["-c", ""]}})
    assert "by hand" in caught.value.hint


def test_a_url_where_nobody_listens_says_so(http_server):
    url, process = http_server
    process.kill()
    process.wait()
    with pytest.raises(ToolError, match="MCP server 'web': the server cannot be reached: ConnectError") as caught:
        connect_mcp({"web": {"url": url}})
    assert "is the URL right" in caught.value.hint


def test_a_web_server_that_is_no_mcp_server_says_so():
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Page(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>hello")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ToolError, match="cannot be reached: Unexpected content type") as caught:
            connect_mcp(f"http://127.0.0.1:{server.server_port}/mcp")
        server.shutdown()
    assert caught.value.kind == "server_gone"


def test_a_web_server_that_dies_is_said_to_be_gone_and_that_it_cannot_be_reached_again(http_server):
    url, process = http_server
    with connect_mcp({"web": {"url": url}}) as tools:
        with pytest.raises(ToolError, match=r"web\.die: the server is gone"):
            tools.registry.call("die")
        process.wait()
        with pytest.raises(ToolError, match=r"web\.add: the server is gone, and cannot be reached again: ") as caught:
            tools.registry.call("add", {"a": 1})
    assert caught.value.kind == "server_gone"


def test_a_web_server_that_stops_answering_holds_up_neither_calls_nor_the_end(http_server):
    url, process = http_server
    with connect_mcp({"web": {"url": url}}, connect_timeout=3.0, call_timeout=1.0) as tools:
        os.kill(process.pid, signal.SIGSTOP)
        assert kind_of(tools.registry, "process") == "timeout"
        with pytest.raises(ToolError, match="cannot be reached again: it did not answer within"):
            tools.registry.call("process")
        os.kill(process.pid, signal.SIGCONT)
        assert kind_of(tools.registry, "process") == process.pid
        os.kill(process.pid, signal.SIGSTOP)


def test_odd_schemas_become_signatures(broken):
    from inspect import signature

    registry = broken("odd")
    odd = registry.functions()["odd_tool_"]
    assert str(signature(odd)) == "(class_: Literal['a', 'b', None] = None, a_b: dict = None, a_b_=3, ü=<required>)"
    assert registry["odd_tool_"].description == "Odd"
    with pytest.raises(ToolError, match="odd_tool_: ü: is required"):
        odd("a")
    assert "_3d" in registry


def test_two_tools_of_one_server_that_would_have_one_name_are_refused(broken):
    from envweave.errors import UsageError

    with pytest.raises(UsageError, match="'go-wrong' of 'broken' and 'go_wrong' of 'broken'"):
        broken("twice")
