"""`/openapi.json` tells the truth: schemathesis sends what it allows and what it does not, and sees what comes back."""

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks, not_a_server_error

from envweave.envs.echo import EchoEnvironment
from envweave.envs.lineworld import LineWorldEnv
from envweave.server import create_app
from envweave.testing.serving import running_server
from envweave.wire.protocol import CALL_HEADER

load_all_checks()
BOUNDED = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
echo = schemathesis.openapi.from_dict(create_app(EchoEnvironment, env_name="echo").openapi())
lineworld = schemathesis.openapi.from_dict(
    create_app(LineWorldEnv, env_name="lineworld", allow_branching=True).openapi()
)


@echo.hook
def filter_case(context, case):
    """A header that nobody knows is no mistake, and a number that was used gets the answer of another request."""
    headers = case.headers or {}
    number = str(headers.get(CALL_HEADER, ""))
    return not any("unknown-property" in name for name in headers) and not (number.isdigit() and 0 < int(number) < 100)


@pytest.fixture(scope="module")
def echo_url():
    with running_server("echo", "--max-message-bytes", "65536") as served:
        yield served.url


@pytest.fixture(scope="module")
def lineworld_url():
    with running_server("lineworld", "--allow-branching") as served:
        yield served.url


@echo.parametrize()
@BOUNDED
def test_every_operation_answers_as_it_is_described(case, echo_url):
    case.call_and_validate(base_url=echo_url, timeout=30)


@lineworld.include(path_regex="reset|step|render|snapshot|restore|fork").parametrize()
@BOUNDED
def test_no_request_makes_the_server_fail(case, lineworld_url):
    case.call_and_validate(base_url=lineworld_url, timeout=30, checks=[not_a_server_error])


def test_the_action_and_the_observation_are_described(echo_url):
    found = httpx.get(f"{echo_url}/openapi.json").json()
    body = found["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["action"]["properties"]["message"]["type"] == "string"
    assert "echoed_message" in found["components"]["schemas"]["Result"]["properties"]["observation"]["properties"]


def test_only_what_the_environment_can_do_is_described(echo_url):
    paths = httpx.get(f"{echo_url}/openapi.json").json()["paths"]
    assert {"/reset", "/step", "/state", "/sessions", "/mcp", "/health"} <= set(paths)
    assert not {"/render", "/snapshot", "/restore", "/fork", "/respond"} & set(paths)
    refused = httpx.post(f"{echo_url}/render")
    assert refused.status_code == 422
    assert refused.json()["error"]["type"] == "UnsupportedError"


def test_the_documentation_page_is_there(echo_url):
    assert "swagger" in httpx.get(f"{echo_url}/docs").text
