"""One suite for every way to an environment: values have the same types, wherever it runs.

`play` and `play_vector` are the snippets. They run unchanged in this process, in a subprocess, over HTTP, over a
WebSocket, with a process for each session and in a container.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random

import numpy as np
import pytest

import envweave as ew
from envweave.client import HTTPEnvClient
from envweave.client.env_client import connect_vector
from envweave.core.sample import sample
from envweave.envs.nim import Heaps
from envweave.errors import ProtocolError
from envweave.requests import AutoresetReady
from envweave.testing.serving import running_server

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

import typed_arrays  # noqa: E402
import typed_envs  # noqa: E402  (found by the path above)
from typed_envs import Colour, Item, Scene, SceneState, Size, scene  # noqa: E402

SCENE = "pkg://typed_envs:SceneEnv"


# The snippets.


def look(obs, step, **rest):
    """Use an observation in the ways that a program does."""
    assert obs.at == (step, -step)
    assert obs.path == tuple(range(step))
    assert obs.colour.name == "BLUE"
    assert obs.colour.value == "blue"
    assert obs.size > 1
    assert obs.best.name == "lamp"
    assert obs.best.parts[0].name == "bulb"
    assert [item.weight for item in obs.items] == [1.5, None]
    assert obs.items[0] == obs.best
    assert obs.hidden is None
    assert obs.found.weight == 0.1
    assert obs.by_name["lamp"].parts[0].parts == []
    assert obs.notes["free"]["form"] == [1, None, "x"]
    expected = scene(step, **rest)
    assert obs == expected
    assert expected == obs
    assert obs != scene(step + 1, **rest)
    assert repr(obs) == repr(expected)


def play(env):
    """Two episodes of an environment with `autoreset`. Gives all observations and states that came."""
    first = env.reset()
    look(first.obs, 0)
    second = env.step({"by": 1})
    look(second.obs, 1, reward=0.5)
    state = env.state()
    assert (state.steps_left, state.step_count, state.last.name) == (1, 0, "lamp")
    assert state == SceneState(steps_left=1, last=Item("lamp", 1.5), episode_id=state.episode_id)
    last = env.step(typed_envs.Move())
    look(last.obs, 2, reward=0.5, done=True)
    (ready,) = [request for request in last.requests if isinstance(request, AutoresetReady)]
    look(ready.initial_obs, 0)
    fork = env.fork()
    look(fork.step({}).obs, 1, reward=0.5)
    fork.close()
    return [first.obs, second.obs, last.obs, ready.initial_obs], [state]


def play_vector(envs):
    """The same of a vector."""
    obs, _ = envs.reset()
    for each in obs:
        look(each, 0)
    envs.step([{"by": 1}] * len(obs))
    batch = envs.step([typed_envs.Move()] * len(obs))
    ready = [request for row in batch.requests for request in row if isinstance(request, AutoresetReady)]
    assert len(ready) == len(batch.obs)
    for last, request in zip(batch.obs, ready, strict=True):
        look(last, 2, reward=0.5, done=True)
        look(request.initial_obs, 0)
    with envs.fork(0) as fork:
        look(fork.step({}).obs, 1, reward=0.5)
    return [*obs, *batch.obs, *(request.initial_obs for request in ready)]


# The ways.

WAYS = ["http", "make-http", "ws", "process"]
"""Servers: `HTTPEnvClient`; `make` of the URL, `http://` and `ws://`; a process for each session."""


@pytest.fixture(scope="module")
def serving():
    """The URL of a server for an environment; one server for each, for as long as the module runs."""
    running = {}
    with ExitStack() as stack:

        def url(id, isolation="thread"):
            if (id, isolation) not in running:
                options = ("--allow-branching", "--isolation", isolation, "--log-level", "warning")
                server = running_server(id, *options, env={"PYTHONPATH": path()})
                running[id, isolation] = stack.enter_context(server)
            return running[id, isolation].url

        yield url


def path():
    """For another process: the modules of this one, and this folder."""
    return ":".join(each for each in (HERE, *sys.path) if each)


@pytest.fixture(params=WAYS)
def reach(request, serving):
    """Make a handle on a server that has the environment."""
    return opener(request.param, serving)


@pytest.fixture(params=["inproc", "subprocess", *WAYS])
def anywhere(request, serving, subprocess_path):
    """Make a handle in this process, in a subprocess or on a server."""
    return opener(request.param, serving)


def opener(way, serving):
    def make(id, **options):
        if way in ("inproc", "subprocess"):
            return ew.make(id, backend=way, **options)
        if way == "http":
            return HTTPEnvClient(serving(id), **options)
        url = serving(id, "process" if way == "process" else "thread")
        return ew.make(url if way == "make-http" else url.replace("http", "ws"), **options)

    make.known = way in ("inproc", "subprocess")
    return make


@pytest.fixture
def subprocess_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", path())


def of_own_class(observations, states=()):
    assert {type(obs) for obs in observations} == {Scene}
    for obs in observations:
        assert {type(obs.colour), type(obs.size)} == {Colour, Size}
        inner = [obs.best, *obs.items, obs.found, *obs.best.parts, *obs.by_name.values()]
        assert {type(each) for each in inner} == {Item}
    assert {type(state) for state in states} <= {SceneState}
    assert {type(state.last) for state in states} <= {Item}


def of_generated_class(observations, states=()):
    for value in (*observations, *states):
        assert type(value) not in (Scene, SceneState)
    assert {type(obs).__name__ for obs in observations} == {"Scene"}
    assert {type(obs.best).__name__ for obs in observations} == {"Item"}
    assert {type(obs).__doc__ for obs in observations} == {"All that can be seen."}
    assert {type(state).__name__ for state in states} <= {"SceneState"}


@pytest.mark.parametrize("source", [SCENE, typed_envs.SceneEnv, typed_envs.scene_env, typed_envs.SceneEnv()])
def test_in_this_process(source):
    with ew.make(source, autoreset=True) as env:
        of_own_class(*play(env))


@pytest.mark.parametrize("backend", ["inproc", "thread"])
def test_in_a_vector_of_this_process(backend):
    with ew.make_vector(SCENE, 3, backend=backend, autoreset=True) as envs:
        of_own_class(play_vector(envs))


@pytest.mark.parametrize("source", [SCENE, typed_envs.SceneEnv, typed_envs.scene_env])
def test_in_a_subprocess(source, subprocess_path):
    with ew.make(source, backend="subprocess", autoreset=True) as env:
        of_own_class(*play(env))


def test_in_a_vector_of_a_subprocess(subprocess_path):
    with ew.make_vector(SCENE, 3, backend="subprocess", autoreset=True) as envs:
        of_own_class(play_vector(envs))


def test_on_a_server_that_is_known_by_its_url_only(reach):
    with reach(SCENE, autoreset=True) as env:
        of_generated_class(*play(env))


def test_on_a_server_with_types_that_the_caller_names(reach):
    with reach(SCENE, autoreset=True, observation_type=Scene, state_type=SceneState) as env:
        of_own_class(*play(env))


def test_a_type_that_is_not_named_is_generated(reach):
    with reach(SCENE, autoreset=True, observation_type=Scene) as env:
        observations, states = play(env)
        of_own_class(observations)
        assert {type(state).__name__ for state in states} == {"SceneState"}
        assert SceneState not in map(type, states)
    with reach(SCENE, autoreset=True, state_type=SceneState) as env:
        observations, states = play(env)
        of_generated_class(observations)
        assert {type(state) for state in states} == {SceneState}


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_in_a_vector_on_a_server(serving, isolation):
    url = serving(SCENE, isolation)
    with ew.make_vector(url, 3, autoreset=True) as envs:
        of_generated_class(play_vector(envs))
    with ew.make_vector(url, 3, autoreset=True, observation_type=Scene) as envs:
        of_own_class(play_vector(envs))
    with connect_vector(url, 2, autoreset=True, observation_type=Scene) as envs:
        of_own_class(play_vector(envs))


def test_local_and_remote_rows_of_one_vector_are_equal(serving):
    with ew.make_vector([SCENE, serving(SCENE)], autoreset=True) as envs:
        play_vector(envs)


@pytest.fixture
def docker_options(echo_image):
    """An image with our server, in which it serves the environment of this suite."""
    variables = {"ENV_ID": SCENE, "PYTHONPATH": "/typed"}
    provider = {"env_vars": variables, "volumes": {HERE: "/typed:ro"}}
    return {"backend": "docker", "docker_image": echo_image, "provider_options": provider}


@pytest.mark.timeout(300)
def test_in_a_container(docker_options):
    with ew.make(SCENE, autoreset=True, **docker_options) as env:
        of_own_class(*play(env))


@pytest.mark.timeout(300)
def test_in_a_vector_of_a_container(docker_options):
    with ew.make_vector(SCENE, 2, autoreset=True, **docker_options) as envs:
        of_own_class(play_vector(envs))


# Other observations.


def shown(env):
    """What comes with a reset and with a step."""
    found = [env.reset().obs, env.step({}).obs]
    assert found[0] == found[1]
    return found[0]


def of(name):
    return f"pkg://typed_envs:{name}"


def test_a_pydantic_model_is_an_object(anywhere):
    with anywhere(of("ShowsModel")) as env:
        obs = shown(env)
        assert (obs.cards[0].value, obs.cards[0].suit.value, obs.best.suit.value) == (3, "red", "blue")
        assert obs == typed_envs.values("model")
        assert repr(obs) == repr(typed_envs.values("model"))
        assert (type(obs) is typed_envs.Hand) == anywhere.known
        assert (type(obs.cards[0]) is typed_envs.Card) == anywhere.known


def test_a_typed_dict_stays_a_dict_whose_values_have_their_types(anywhere):
    with anywhere(of("ShowsTypedDict")) as env:
        obs = shown(env)
        assert type(obs) is dict
        assert (obs["count"], obs["items"][0].name) == (1, "lamp")
        assert obs == typed_envs.values("typed_dict")
        assert (type(obs["items"][0]) is Item) == anywhere.known


def test_a_plain_dict_and_a_state_that_is_one_stay_dicts(anywhere):
    with anywhere(of("ShowsDict")) as env:
        assert shown(env) == typed_envs.values("dict")
        assert type(env.reset().obs) is dict
        state = env.state()
        assert (type(state), state) == (dict, typed_envs.ShowsDict.state)


def test_a_list_of_dataclasses_has_objects(anywhere):
    with anywhere(of("ShowsList")) as env:
        obs = shown(env)
        assert [item.name for item in obs] == ["lamp", "rug"]
        assert obs == typed_envs.values("list")
        assert repr(obs) == repr(typed_envs.values("list"))


@pytest.mark.parametrize(("name", "kind"), [("ShowsText", "text"), ("ShowsTooLittle", "missing")])
def test_an_observation_that_does_not_fit_its_type_is_data(anywhere, name, kind):
    with anywhere(of(name)) as env:
        assert shown(env) == typed_envs.values(kind)
        assert type(env.reset().obs) is type(typed_envs.values(kind))


def test_an_observation_that_does_not_fit_the_type_that_the_caller_names_is_an_error(serving):
    with (
        ew.make(serving(of("ShowsText")), observation_type=Scene) as env,
        pytest.raises(ProtocolError, match="does not fit Scene"),
    ):
        env.reset()


def test_the_state_of_an_environment_without_one_is_ours(anywhere):
    with anywhere("lineworld") as env:
        env.reset(episode_id="e")
        env.step({"move": 1})
        assert type(env.state()) is ew.State
        assert env.state() == ew.State(episode_id="e", step_count=1)


# Several agents.


def test_each_agent_sees_an_object(anywhere):
    with anywhere("nim") as env:
        obs = env.reset(seed=1).obs
        assert sum(obs["alice"].heaps) > 0
        assert obs["alice"] == obs["bob"] == Heaps(obs["bob"].heaps)
        assert repr(obs) == repr({agent: Heaps(each.heaps) for agent, each in obs.items()})
        assert (type(obs["alice"]) is Heaps) == anywhere.known


def test_the_type_may_be_that_of_the_dict_of_all_agents(anywhere):
    with anywhere(of("Duel"), autoreset=True) as env:
        obs = env.reset().obs
        result = env.step({"ann": {"by": 1}, "bob": typed_envs.Move(2)})
        for agent, step in (("ann", 1), ("bob", 2)):
            look(obs[agent], 0)
            look(result.obs[agent], step)
        (ready,) = [request for request in result.requests if isinstance(request, AutoresetReady)]
        look(ready.initial_obs["bob"], 0)
        if anywhere.known:
            of_own_class([*obs.values(), *result.obs.values(), *ready.initial_obs.values()])


def test_the_type_that_the_caller_names_may_be_that_of_one_agent_or_of_the_dict(reach):
    for type_ in (Scene, dict[str, Scene]):
        with reach(of("Duel"), observation_type=type_) as env:
            of_own_class(env.reset().obs.values())


# Arrays.


def same_value(found, expected):
    """Equal in content and in type, at each depth."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            same_value(found[key], value)
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same_value(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(found, expected)
    else:
        assert found == expected


ARRAYS = [f"pkg://typed_arrays:{name}" for name in ("cart_pole", "Composite", "Parallel")]


@pytest.mark.parametrize("id", ARRAYS)
def test_arrays_of_gymnasium_and_pettingzoo_stay_arrays(anywhere, id):
    with ew.make(id, autoreset=True) as here, anywhere(id, autoreset=True) as there:
        same_value(there.reset(seed=3).obs, here.reset(seed=3).obs)
        random = Random(3)
        for _ in range(40):
            action = sample(here.action_schema() or here.action_schema("ann"), random)
            if id.endswith("Parallel"):
                action = {"ann": action, "bob": action}
            ours, theirs = here.step(action), there.step(action)
            same_value(theirs.obs, ours.obs)
            for one, other in zip(begun(theirs), begun(ours), strict=True):
                same_value(one, other)


def begun(result):
    return [request.initial_obs for request in result.requests if isinstance(request, AutoresetReady)]


@pytest.mark.parametrize("id", ARRAYS)
def test_arrays_of_a_vector_on_a_server_stay_arrays(serving, id):
    with ew.make_vector(id, 2) as here, ew.make_vector(serving(id), 2) as there:
        for found, expected in zip(there.reset(seed=3).obs, here.reset(seed=3).obs, strict=True):
            same_value(found, expected)


def test_arrays_in_the_fields_of_a_dataclass_stay_arrays(anywhere):
    with anywhere("pkg://typed_arrays:Camera") as env:
        obs = env.reset().obs
        expected = typed_arrays.picture(0)
        assert (type(obs) is typed_arrays.Picture) == anywhere.known
        same_value(obs.image, expected.image)
        same_value(obs.gain, expected.gain)
        assert np.array_equal(obs.mask, expected.mask)
        assert obs.frames["left"].tolist() == expected.frames["left"].tolist()
        assert repr(env.step(1).obs.image) == repr(typed_arrays.picture(1).image)
