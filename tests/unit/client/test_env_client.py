"""What a client does without a server: types, hooks, payloads."""

import random
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TypedDict

import pydantic
import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.client.address import Address
from envweave.client.codec import action_writer, reader
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.websocket import pause_before
from envweave.errors import ClosedError, InvalidActionError, ProtocolError, UsageError


@dataclass
class Move(ew.Action):
    delta: int


@dataclass
class Place(ew.Observation):
    at: int


class Where(pydantic.BaseModel):
    at: int
    step_count: int = 0


class Walk(EnvClient[Move, Place, Where]):
    pass


def test_importing_the_client_and_making_one_loads_nothing_that_talks():
    code = (
        "import sys; from envweave.client import EnvClient, HTTPEnvClient; from envweave.envs.echo import EchoEnv; "
        "EchoEnv('http://localhost:1'); HTTPEnvClient(); "
        "print([name for name in ('asyncio', 'websockets', 'httpx', 'msgspec', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_types_come_from_the_generic_arguments():
    client = Walk()
    assert (client.action_type, client.observation_type, client.state_type) == (Move, Place, Where)
    assert EnvClient[Move, Place, Where]().observation_type is Place


def test_types_come_through_a_subclass_of_a_subclass_and_over_http():
    class Deeper(Walk):
        pass

    class Plain(HTTPEnvClient[Move, Place, Where]):
        pass

    assert (Deeper().action_type, Plain().action_type) == (Move, Move)


def test_types_can_be_given_and_win():
    assert EnvClient(observation_type=Place).observation_type is Place
    assert Walk(observation_type=Where).observation_type is Where


def test_without_types_data_stays_data():
    client = EnvClient()
    assert (client.action_type, client.observation_type, client.state_type) == (None, None, None)
    assert client._step_payload({"delta": (1, 2)}) == {"delta": [1, 2]}
    assert client._step_payload(3) == 3
    assert client._parse_state({"a": 1}) == {"a": 1}


def test_an_action_becomes_its_fields_and_metadata_only_if_there_are_any():
    client = Walk()
    assert client._step_payload(Move(1)) == {"delta": 1}
    assert client._step_payload({"delta": 1}) == {"delta": 1}
    assert client._step_payload(Move(1, metadata={"why": "so"})) == {"delta": 1, "metadata": {"why": "so"}}
    assert action_writer(None)({"metadata": {}}) == {"metadata": {}}


@pytest.mark.parametrize("action", [{"delat": 1}, Move("x"), {"delta": 1, "extra": 2}, None])
def test_an_action_of_another_type_is_refused_before_it_is_sent(action):
    with pytest.raises(InvalidActionError):
        Walk()._step_payload(action)


def test_an_action_that_is_no_data_is_refused_before_it_is_sent():
    with pytest.raises(InvalidActionError, match="cannot be sent"):
        EnvClient()._step_payload({"when": object()})


def test_reward_and_done_are_put_into_the_observation_from_beside_it():
    payload = {"observation": {"at": 3}, "reward": 0.5, "done": True}
    assert Walk()._parse_result(payload) == Place(3, reward=0.5, done=True)
    own = {"observation": {"at": 3, "reward": 0.1, "done": False}, "reward": 0.5, "done": True}
    assert Walk()._parse_result(own) == Place(3, reward=0.1, done=False)


def test_keys_that_a_type_does_not_have_do_not_matter():
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        at: int = pydantic.Field(alias="where")

    @dataclass
    class Forbids:
        __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
        at: int

    class Typed(TypedDict):
        at: int

    assert reader(Strict, "observation")({"where": 1, "new": 2}).at == 1
    assert reader(Forbids, "observation")({"at": 1, "new": 2}) == Forbids(1)
    assert reader(Typed, "observation")({"at": 1, "new": 2}) == {"at": 1}
    assert Walk()._parse_result({"observation": {"at": 1, "new": 2}}) == Place(1)


def test_lists_become_the_tuples_and_dataclasses_of_the_type():
    @dataclass
    class Point:
        x: int

    @dataclass
    class Path(ew.Observation):
        points: tuple[Point, ...] = field(default=())

    assert reader(Path, "observation")({"points": [{"x": 1}]}) == Path((Point(1),))


def test_data_that_does_not_fit_names_the_field():
    with pytest.raises(ProtocolError, match=r"observation does not fit Place: at: ") as caught:
        Walk()._parse_result({"observation": {"at": "far"}})
    assert "observation_type" in caught.value.hint


def test_a_client_that_never_connected_closes_and_stays_closed():
    client = Walk("http://localhost:1")
    assert (client.pending, client.id, repr(client)) == ((), "localhost:1", "<Walk localhost:1>")
    assert client.close() == ()
    assert client.close() == ()
    with pytest.raises(ClosedError):
        client.reset()


def test_a_wrong_address_is_refused_at_once():
    with pytest.raises(UsageError):
        EnvClient("localhost:8000")


def test_the_token_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("ENVWEAVE_TOKEN", "from-env")
    address = Address.parse("http://localhost:1")
    assert ServerEndpoint(address=address).all_headers == {"Authorization": "Bearer from-env"}
    given = ServerEndpoint(address=address, token="secret", headers={"X-Own": "1"})
    assert given.all_headers == {"Authorization": "Bearer secret", "X-Own": "1"}
    assert "secret" not in repr(given)
    assert ServerEndpoint(address=address, token="").all_headers == {}


def test_only_what_was_chosen_is_asked_for():
    assert SessionSpec().to_data(schema=False) == {}
    wanted = SessionSpec(env_id="a#1", autoreset=True, deadline=2.0, max_episode_steps=5, arguments={"size": 3})
    assert wanted.to_data() == {
        "env_id": "a#1", "autoreset": True, "deadline": 2.0, "max_episode_steps": 5, "arguments": {"size": 3},
        "schema": True,
    }  # fmt: skip
    with pytest.raises(UsageError, match="arguments"):
        SessionSpec(arguments={"size": {1}}).to_data()


def test_waiting_for_a_connection_leaves_the_random_numbers_of_the_program_alone():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    assert 0 < pause_before(3) <= 0.4
    assert random.random() == expected
