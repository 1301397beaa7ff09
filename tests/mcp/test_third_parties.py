"""Real servers of others, from npm: they speak 2025-11-25 and are written in another language."""

import os
import subprocess

import pytest

from envweave.tools import ToolError
from envweave.tools.mcp import connect_mcp


@pytest.fixture
def files(peers, tmp_path):
    script = peers.script("server-filesystem", "dist/index.js")
    with connect_mcp({"fs": {"command": peers.node(), "args": [script, str(tmp_path)]}}) as tools:
        yield tools.registry.functions()


@pytest.fixture(scope="module", params=["stdio", "http"])
def everything(peers, request):
    script = peers.script("server-everything", "dist/index.js")
    if request.param == "stdio":
        with connect_mcp({"everything": {"command": peers.node(), "args": [script, "stdio"]}}) as tools:
            yield tools.registry.functions()
        return
    command, port = [peers.node(), script, "streamableHttp"], free_port()
    with subprocess.Popen(command, env={**os.environ, "PORT": port}, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert any("listening on port" in line for line in process.stderr)
            with connect_mcp({"everything": {"url": f"http://127.0.0.1:{port}/mcp"}}) as tools:
                yield tools.registry.functions()
        finally:
            process.kill()


def free_port():
    """It takes a port by number only, so one that was free a moment ago has to do."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def test_files_are_written_read_listed_and_moved(files, tmp_path):
    files["write_file"](str(tmp_path / "hello.txt"), "hé\nllo")
    assert (tmp_path / "hello.txt").read_text() == "hé\nllo"
    assert files["read_text_file"](str(tmp_path / "hello.txt"), head=1) == {"content": "hé"}
    files["move_file"](str(tmp_path / "hello.txt"), str(tmp_path / "there.txt"))
    assert "[FILE] there.txt" in files["list_directory"](str(tmp_path))["content"]


def test_what_the_server_forbids_is_an_error_in_its_words(files):
    with pytest.raises(ToolError, match=r"^fs\.read_text_file: Access denied - path outside allowed directories"):
        files["read_text_file"]("/etc/passwd")


def test_everything_answers(everything):
    assert everything["echo"]("ü") == "Echo: ü"
    assert everything["get_sum"](2, 3) == "The sum of 2 and 3 is 5."
    assert set(everything["get_structured_content"]("New York")) == {"temperature", "conditions", "humidity"}


def test_everythings_picture_is_data(everything):
    text, image, more = everything["get_tiny_image"]()
    assert isinstance(text, str)
    assert isinstance(more, str)
    assert image["type"] == "image"
    assert image["mimeType"] == "image/png"


def test_arguments_of_a_wrong_type_are_found_by_the_schema_of_everything(everything):
    with pytest.raises(ToolError, match="get_sum: a: should be of type number, got 'two'"):
        everything["get_sum"]("two", 3)
