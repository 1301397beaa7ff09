import importlib.metadata
from pathlib import Path

import pytest

from envweave.errors import UnavailableError, UsageError
from envweave.tools.mcp import connect_mcp
from envweave.tools.mcp.servers import read_servers

STDIO = {"command": "node", "args": ["server.js"], "env": {"TOKEN": "s3cret-value"}, "cwd": "/somewhere"}
HTTP = {
    "url": "https://s3cret-user:s3cret-word@example.org/s3cret-path-4711-x/mcp?key=s3cret-key&q=s3cret%2Fquoted",
    "headers": {"Authorization": "Bearer s3cret-value"},
}


def test_servers_come_by_name_as_in_the_configuration_of_mcp_clients():
    for given in ({"a": STDIO, "b": HTTP}, {"mcpServers": {"a": STDIO, "b": HTTP}}, [{"a": STDIO}, {"b": HTTP}]):
        first, second = read_servers(given)
        assert (first.name, first.command, first.args, first.cwd) == ("a", "node", ("server.js",), "/somewhere")
        assert (second.name, second.url) == ("b", HTTP["url"])


def test_paths_are_text():
    (server,) = read_servers({"a": {"command": "x", "args": [Path("/b")], "env": {"C": Path("/d")}, "cwd": Path("/e")}})
    assert (server.args, server.env, server.cwd) == (("/b",), {"C": "/d"}, "/e")


def test_one_alone_is_called_by_what_it_is():
    assert [server.name for server in read_servers(["http://example.org/mcp", STDIO])] == ["example.org", "node"]
    assert read_servers("http://localhost:80/mcp")[0].name == "localhost"


def test_one_that_is_disabled_is_left_out():
    assert read_servers({"a": {**STDIO, "disabled": True}}) == []


@pytest.mark.parametrize("servers", [{}, [], {"mcpServers": {}}])
def test_no_servers_are_a_mistake(servers):
    with pytest.raises(UsageError, match="there are no MCP servers") as caught:
        connect_mcp(servers)
    assert "without `servers`" in caught.value.hint


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        (3, "`servers` is 3"),
        (None, "`servers` is None"),
        (b"http://s3cret", "`servers` is of the type bytes"),
        ({"a": 3}, "the MCP server a is 3"),
        ({"a": {}}, "the MCP server 'a' needs a `command` or a `url`"),
        ({"a": {**STDIO, **HTTP}}, "the MCP server 'a' needs a `command` or a `url`"),
        ({"a": {"command": "x", "arg": []}}, "the MCP server 'a' has no 'arg'"),
        ({"a": {"command": "x", "headers": {}}}, "the MCP server 'a' has no 'headers'"),
        ({"a": {"command": "x", "args": "s3cret"}}, "the MCP server 'a': args: input should be a valid tuple"),
        ({"a": {"command": "x", "args": ["s3cret", 1]}}, "the MCP server 'a': args.1: input should be a valid string"),
        ({"a": {"command": "x", "env": {"A": 1}}}, "the MCP server 'a': env.A: input should be a valid string"),
        ({"a": {"url": "http://x", "type": "sse"}}, "the MCP server 'a' is of the type 'sse'"),
        ({"a": {"url": "http://x", "type": "stdio"}}, "the MCP server 'a' is of the type 'stdio'"),
        ("example.org", "the URL of the MCP server 'server1' is neither http nor https"),
        (["http://x/1", "http://x/2"], "two MCP servers are called 'x'"),
    ],
)
def test_what_is_wrong_is_said_without_values(servers, problem):
    with pytest.raises(UsageError) as caught:
        read_servers(servers)
    assert caught.value.message.startswith(problem)
    assert "s3cret" not in str(caught.value)


def test_no_secret_is_shown_nor_left_in_a_text():
    for server in read_servers({"a": STDIO, "b": HTTP}):
        assert "s3cret" not in repr(server)
    words = "s3cret-value, s3cret-word and s3cret-key"
    stdio, http = read_servers({"a": STDIO, "b": HTTP})
    assert stdio.redacted(words) == "***, s3cret-word and s3cret-key"
    assert http.redacted(f"Bearer {words}") == "***, *** and ***"
    assert http.redacted(http.url) == "https://***:***@example.org/***/mcp?key=***&q=***"
    assert http.redacted("s3cret/quoted") == "***"


@pytest.mark.parametrize("timeouts", [{"call_timeout": 0}, {"connect_timeout": -1.0}, {"call_timeout": None}])
def test_a_timeout_is_a_positive_number(timeouts):
    with pytest.raises(UsageError, match="_timeout is"):
        connect_mcp({"a": STDIO}, **timeouts)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.30.0", "mcp 1.30.0 is installed, and 2.3 is needed"),
        ("2.2.9", "mcp 2.2.9 is installed"),
        (None, "'mcp' is not installed"),
    ],
)
def test_without_the_package_or_with_an_old_one_it_says_what_to_install(monkeypatch, version, message):
    def found(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr("envweave.tools.mcp.requirement.version", found)
    with pytest.raises(UnavailableError, match=message) as caught:
        connect_mcp({"a": STDIO})
    assert caught.value.hint == "pip install 'envweave[mcp]'"
