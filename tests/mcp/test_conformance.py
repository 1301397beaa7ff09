"""The protocol's own conformance suite, against an environment that has the tools it asks for.

Left out are scenarios about what an environment's tools do not have: prompts, resources, completion, logging and
progress while a tool runs, and questions to the client (sampling, elicitation).
"""

import re
import subprocess
from pathlib import Path

import pytest

from envweave.testing.serving import running_server

APPLY = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "json-schema-2020-12",
    "server-sse-polling",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
LEFT_OUT = re.compile("prompts-|resources-|completion-|logging-|elicitation-|tools-call-(with-|sampling|elicitation)")


@pytest.fixture(scope="module")
def suite(peers):
    def run(*arguments):
        command = [peers.node(), peers.script("conformance", "dist/index.js"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture(scope="module")
def url():
    with running_server("pkg://environments:Shed", cwd=Path(__file__).parent) as server:
        yield f"{server.url}/mcp"


@pytest.mark.parametrize("scenario", APPLY)
def test_the_scenario_passes(suite, url, scenario):
    done = suite("server", "--url", url, "--scenario", scenario)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_every_scenario_is_run_or_left_out_for_a_reason(suite):
    known = re.findall(r"^\s+- (\S+) \[", suite("list", "--server").stdout, re.MULTILINE)
    assert len(known) == 32
    assert [name for name in known if name not in APPLY and not LEFT_OUT.match(name)] == []
