"""The description of the routes."""

import pytest
from pydantic import BaseModel

from envweave.envs.counter import CounterEnv
from envweave.envs.echo import EchoEnvironment
from envweave.envs.lineworld import LineWorldEnv
from envweave.envs.nim import NimEnv
from envweave.envs.rock_paper_scissors import RockPaperScissorsEnv
from envweave.server.app import create_app
from envweave.testing.suites.quiz import QuizEnv


class Part(BaseModel):
    depth: int
    inner: "Part | None" = None


class Whole(BaseModel):
    parts: list[Part]


class Nested:
    def reset(self, *, colour="red", options=None):
        return Whole(parts=[])

    def step(self, action: Whole) -> Whole:
        return action


def refs(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from refs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refs(inner)


def found_at(document, ref):
    for name in ref.removeprefix("#/").split("/"):
        document = document[name]
    return document


ENVIRONMENTS = [
    Nested,
    EchoEnvironment,
    LineWorldEnv,
    NimEnv,
    RockPaperScissorsEnv,
    CounterEnv,
    lambda: EchoEnvironment(),
]


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_every_reference_leads_somewhere(env):
    document = create_app(env, env_name="env").openapi()
    found = list(refs(document))
    assert found
    assert all(isinstance(found_at(document, ref), dict) for ref in found)


def test_parts_of_actions_and_observations_do_not_get_into_each_others_way():
    document = create_app(Nested).openapi()
    action = document["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"][
        "action"
    ]
    assert action["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Action_Part"}
    assert "depth" in document["components"]["schemas"]["Observation_Part"]["properties"]


def test_the_options_of_reset_are_there():
    def body(env):
        post = create_app(env, env_name="env").openapi()["paths"]["/reset"]["post"]
        return post["requestBody"]["content"]["application/json"]["schema"]

    assert set(body(LineWorldEnv)["properties"]) == {"seed", "episode_id", "options"}
    assert body(LineWorldEnv)["additionalProperties"] is False
    assert "colour" in body(Nested)["properties"]
    assert body(Nested)["additionalProperties"] is True


def test_a_token_is_asked_for_where_one_is_needed():
    assert "securitySchemes" not in create_app(EchoEnvironment).openapi()["components"]
    document = create_app(EchoEnvironment, token="secret").openapi()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["paths"]["/step"]["post"]["security"] == [{"token": []}]
    assert "401" in document["paths"]["/step"]["post"]["responses"]
    assert "security" not in document["paths"]["/health"]["get"]
    assert "secret" not in str(document)


def test_arguments_are_described_where_they_are_taken():
    def fields(**settings):
        post = create_app(EchoEnvironment, **settings).openapi()["paths"]["/sessions"]["post"]
        return post["requestBody"]["content"]["application/json"]["schema"]["properties"]

    assert "arguments" not in fields()
    assert "arguments" in fields(allow_arguments=True)


def test_branching_is_described_where_it_is_allowed():
    branching = {"/snapshot", "/restore", "/fork"}
    assert not branching & set(create_app(LineWorldEnv).openapi()["paths"])
    assert branching <= set(create_app(LineWorldEnv, allow_branching=True).openapi()["paths"])


def test_every_route_is_described():
    app = create_app(LineWorldEnv, allow_branching=True)
    own = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", "/web", "/respond", "/tasks"}
    assert {route.path for route in app.routes} - own == set(app.openapi()["paths"])


def test_tasks_are_described_where_there_are_any():
    document = create_app(QuizEnv).openapi()
    reset = document["paths"]["/reset"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "index" in reset["properties"]["task"]["description"]
    assert document["paths"]["/tasks"]["post"]["operationId"] == "tasks"
    assert "/tasks" not in create_app(LineWorldEnv).openapi()["paths"]
    assert "task" not in str(create_app(LineWorldEnv).openapi()["paths"]["/reset"])
