"""Names: registered, resolved, versioned, suggested."""

import json
import subprocess
import sys

import pytest

import envweave as ew
from envweave.errors import (
    BadResultError,
    DuplicateIDError,
    EnvNotFoundError,
    InvalidIDError,
    UnavailableError,
    UsageError,
    VersionError,
)
from envweave.registry.backends import EXPECTED as EXPECTED_BACKENDS
from envweave.registry.resolvers import LATER, RESOLVERS, resolver
from envweave.registry.vectors import EXECUTORS as VECTORS


class Tiny:
    """A tiny environment."""

    def __init__(self, *, size=1):
        self.size = size

    def reset(self, *, seed=None):
        return self.size

    def step(self, action: int):
        return self.size, 0.0, False, False, {}


@pytest.fixture(autouse=True)
def _forget():
    before = set(resolver("local").names())
    yield
    for name in set(resolver("local").names()) - before:
        ew.unregister(name)


def test_the_snippet_of_the_first_page_runs():
    ew.register("local://counter-v0", factory=lambda: ew.examples.CounterEnv())
    env = ew.make("local://counter-v0", autoreset=True)
    assert env.reset().obs.value == 0
    assert env.step({"delta": 1}).reward == 1.0


@pytest.mark.parametrize("registered", ["tiny", "local://tiny"])
@pytest.mark.parametrize("asked", ["tiny", "local://tiny", "LOCAL://tiny"])
def test_a_name_is_the_same_with_and_without_its_scheme(registered, asked):
    ew.register(registered, Tiny)
    assert ew.make(asked).id == "tiny#0"


def test_arguments_come_from_the_registration_the_id_and_the_call_in_this_order():
    ew.register("tiny", Tiny, kwargs={"size": 2})
    assert ew.make("tiny").reset().obs == 2
    assert ew.make("tiny?size=3").reset().obs == 3
    assert ew.make("tiny?size=3", size=4).reset().obs == 4


def test_a_factory_may_be_named_by_a_string():
    ew.register("counter-by-name", "envweave.envs.counter:CounterEnv", kwargs={"start": 2})
    assert ew.make("counter-by-name").reset().obs.value == 2


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(EnvNotFoundError, match="no environment named 'linewrold'") as caught:
        ew.make("linewrold")
    assert caught.value.hint == "did you mean 'lineworld'?"


def test_an_unknown_name_like_none_says_where_to_look():
    with pytest.raises(EnvNotFoundError) as caught:
        ew.make("zzzzqqqq")
    assert "envweave list" in caught.value.hint


@pytest.mark.parametrize("id", ["", "a b", "local://", "x@"])
def test_a_malformed_id_is_refused(id):
    with pytest.raises(InvalidIDError):
        ew.make(id)


def test_a_duplicate_is_refused_unless_it_is_meant():
    ew.register("tiny", Tiny)
    with pytest.raises(DuplicateIDError, match="'tiny' is registered already"):
        ew.register("tiny", ew.examples.CounterEnv)
    assert ew.make("tiny").reset().obs == 1
    ew.register("tiny", Tiny, kwargs={"size": 9}, overwrite=True)
    assert ew.make("tiny").reset().obs == 9


@pytest.mark.parametrize("id", ["ep://tiny", "pkg://a:b", "http://x", "tiny?size=1"])
def test_only_local_names_can_be_registered(id):
    with pytest.raises(UsageError, match="cannot register"):
        ew.register(id, Tiny)


@pytest.mark.parametrize("factory", [None, 3, Tiny()])
def test_a_factory_that_cannot_be_called_is_refused_at_once(factory):
    with pytest.raises(UsageError, match="factory"):
        ew.register("tiny", factory)


def test_a_numbered_version_is_honoured_or_refused_and_without_one_the_newest_is_meant():
    for number in (1, 2, 10):
        ew.register(f"tiny-v{number}", Tiny, kwargs={"size": number})
    assert ew.make("tiny-v2").reset().obs == 2
    assert ew.make("tiny").reset().obs == 10
    with pytest.raises(VersionError, match="no version v3") as caught:
        ew.make("tiny-v3")
    assert "tiny-v10" in caught.value.hint


def test_a_version_behind_the_name_is_honoured_or_refused():
    for version in ("1.9", "1.10"):
        ew.register(f"tiny@{version}", Tiny, kwargs={"size": int(version[2:])})
    assert ew.make("tiny@1.9").reset().obs == 9
    assert ew.make("tiny").reset().obs == 10
    with pytest.raises(VersionError, match=r"no version '2\.0'"):
        ew.make("tiny@2.0")
    with pytest.raises(VersionError):
        ew.make("counter@99")
    assert ew.make(f"counter@{ew.__version__}").reset().obs.value == 0


def test_pkg_imports_and_calls_and_checks_the_version_of_the_package():
    assert ew.make("pkg://envweave.envs.counter:CounterEnv?start=1").reset().obs.value == 1
    assert ew.make(f"pkg://envweave.envs.counter:CounterEnv@{ew.__version__}").reset().obs.value == 0
    with pytest.raises(VersionError):
        ew.make("pkg://envweave.envs.counter:CounterEnv@9.9")
    with pytest.raises(VersionError):
        ew.make("pkg://json:loads@1.0")
    with pytest.raises(EnvNotFoundError, match="no module 'no_such_module'"):
        ew.make("pkg://no_such_module:X")
    with pytest.raises(EnvNotFoundError, match="has no 'Nope'"):
        ew.make("pkg://envweave.envs.counter:Nope")
    with pytest.raises(InvalidIDError, match="no attribute"):
        ew.make("pkg://envweave.envs.counter")


@pytest.mark.parametrize("scheme", LATER)
def test_a_scheme_that_is_not_built_yet_says_so_and_advises_no_extra(scheme):
    with pytest.raises(UnavailableError, match=f"{scheme}:// environments are not in this version") as caught:
        ew.make(f"{scheme}://something/else")
    assert caught.value.hint
    assert "pip install" not in caught.value.hint


def test_what_is_advised_for_gymnasium_works():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(UnavailableError, match="gym://") as caught:
        ew.make("gym://CartPole-v1")
    call = caught.value.hint.partition(": ")[2]
    with eval(call, {"ew": ew, "gymnasium": gymnasium}) as env:
        assert env.reset(seed=0).obs is not None


def test_an_unknown_scheme_suggests_the_nearest():
    with pytest.raises(UnavailableError) as caught:
        ew.make("dokcer://x")
    assert caught.value.hint == "did you mean 'docker://'?"


def test_every_entry_of_the_tables_can_be_loaded():
    from envweave.core.lookup import load

    for target in (*RESOLVERS.values(), *VECTORS.values()):
        load(target)
    assert all(spec.source != "broken" for spec in ew.registry().values())


@pytest.mark.parametrize("backend", EXPECTED_BACKENDS)
def test_a_backend_that_is_not_built_yet_says_so(backend):
    for call in (lambda: ew.make("counter", backend=backend), lambda: ew.make_vector("counter", 2, backend=backend)):
        with pytest.raises(UnavailableError, match="not in this version"):
            call()


def test_an_unknown_backend_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        ew.make_vector("counter", 2, backend="thraed")
    assert caught.value.hint == "did you mean 'thread'?"


def test_a_factory_that_raises_is_an_env_error_with_its_cause():
    ew.register("bad", lambda: 1 / 0)
    with pytest.raises(ew.EnvError, match="ZeroDivisionError") as caught:
        ew.make("bad")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_type_error_inside_a_factory_is_the_authors_and_a_wrong_argument_the_callers():
    def factory(size=1):
        raise TypeError("inside")

    ew.register("bad", factory)
    with pytest.raises(ew.EnvError, match="TypeError: inside"):
        ew.make("bad")
    with pytest.raises(UsageError, match="unexpected keyword argument 'colour'") as caught:
        ew.make("bad", colour="red")
    assert "size" in caught.value.hint


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: object(), "has no `reset`"),
        (lambda: type("NoStep", (), {"reset": lambda self: 0})(), "has no `step`"),
        (lambda: Tiny, "the class Tiny"),
        (lambda: None, "has no `reset`"),
    ],
)
def test_what_is_not_an_environment_is_refused(made, message):
    ew.register("bad", made)
    with pytest.raises(BadResultError, match=message):
        ew.make("bad")


def test_a_spec_survives_json_and_makes_the_same_environment():
    spec = ew.register("tiny@1.0", Tiny, kwargs={"size": 5}, description="d", metadata={"a": [1]}, max_episode_steps=7)
    again = ew.EnvSpec.from_json(spec.to_json())
    assert again == spec
    assert ew.make(again).reset().obs == 5
    assert ew.EnvSpec.from_json(again.to_json()) == again


def test_types_in_a_spec_survive_json():
    from envweave.envs.counter import Count, Increment

    spec = ew.register("c", ew.examples.CounterEnv, action_type=Increment, observation_type=Count)
    assert ew.EnvSpec.from_json(spec.to_json()) == spec
    env = ew.make(ew.EnvSpec.from_json(spec.to_json()))
    env.reset()
    with pytest.raises(ew.InvalidActionError, match="delta"):
        env.step({"delta": "x"})


def test_a_spec_with_a_lambda_finds_its_factory_by_name_where_it_is_registered():
    spec = ew.register("tiny", lambda: Tiny(size=3))
    text = spec.to_json()
    assert json.loads(text)["factory"] is None
    assert ew.make(ew.EnvSpec.from_json(text)).reset().obs == 3
    ew.unregister("tiny")
    with pytest.raises(EnvNotFoundError):
        ew.make(ew.EnvSpec.from_json(text))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": 3}', "nonsense"])
def test_what_is_not_the_json_of_a_spec_is_refused(text):
    with pytest.raises(UsageError, match="not the JSON of a spec"):
        ew.EnvSpec.from_json(text)


def test_a_spec_of_a_newer_version_is_read_without_what_is_unknown():
    spec = ew.EnvSpec.from_json('{"id": "counter", "colour": "red", "factory": "envweave.envs.counter:CounterEnv"}')
    assert ew.make(spec).reset().obs.value == 0


def test_registry_and_spec_tell_what_there_is():
    ew.register("tiny", Tiny, description="hello")
    assert {"tiny", "counter", "lineworld", "nim", "rock-paper-scissors"} <= set(ew.registry())
    assert ew.spec("tiny").description == "hello"
    assert ew.spec("lineworld?size=7").kwargs == {"size": 7}
    assert ew.spec("counter").source == "envweave"


def test_options_of_make_are_checked_and_kept():
    with pytest.raises(UsageError, match="max_episode_steps is 0"):
        ew.make("counter", max_episode_steps=0)
    with pytest.raises(UsageError, match="deadline is -1"):
        ew.make("counter", deadline=-1)
    env = ew.make("counter", max_episode_steps=1, instance_id="mine")
    env.reset()
    assert env.step({"delta": 0}).truncated
    assert env.id == "mine"


def test_the_registry_works_from_a_fresh_process():
    code = "import envweave as ew; e = ew.make('lineworld?size=2'); print(e.reset(seed=1).obs.goal in (-2, 2))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"


@pytest.mark.parametrize(
    "id", ["tiny?x=" + "[" * 100_000, "tiny-v" + "9" * 5000, "pkg://.foo:bar", "pkg://a b:c", "tiny@" + "9" * 5000]
)
def test_an_outlandish_id_is_a_usage_error(id):
    ew.register("tiny", Tiny)
    with pytest.raises(UsageError):
        ew.make(id)


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (("1.9", "1.10"), "1.10"),
        (("1.0", "1.0-rc1", "1.0rc2", "0.9"), "1.0"),
        (("build-9", "build-10"), "build-10"),
        (("2024-02-01", "2024-01-15"), "2024-02-01"),
        (("²", "9" * 5000, "1.0"), "1.0"),
        (("latest", "0.1"), "0.1"),
    ],
)
def test_a_name_alone_means_its_newest_version(versions, newest):
    for version in versions:
        ew.register(f"tiny@{version}", Tiny)
    assert ew.spec("tiny").version == newest


@pytest.mark.parametrize(
    "field",
    ['"kwargs": 5', '"max_episode_steps": "3"', '"max_episode_steps": 1.5', '"deadline": NaN', '"deadline": "3"'],
)
def test_a_spec_with_a_field_of_the_wrong_type_is_refused(field):
    with pytest.raises(UsageError):
        ew.EnvSpec.from_json(f'{{"id": "counter", {field}}}')


def test_a_module_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ew.EnvError, match="cannot be imported: SyntaxError"):
        ew.make("pkg://broken_module:X")


def test_an_entry_point_whose_package_lacks_something_is_one_error_without_a_chain(tmp_path, monkeypatch):
    from importlib.metadata import EntryPoint

    from envweave.registry.resolvers.entry_points import loaded

    (tmp_path / "needy_plugin.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UnavailableError, match="'needy' of its package cannot be loaded: 'no_such_package' is not"
    ) as caught:
        loaded(EntryPoint("needy", "needy_plugin:Env", "envweave.envs"))
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
