"""What `make` and `make_vector` accept, and how they refuse what is not an environment."""

import subprocess
import sys
from pathlib import Path

import pytest

import envweave as ew
from envweave.envs.lineworld import LineWorldEnv, Position
from envweave.errors import InvalidIDError, UsageError


def factory(size=2):
    return LineWorldEnv(size=size)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from envweave.envs.lineworld import LineWorldEnv\nclass Mine(LineWorldEnv): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        LineWorldEnv,
        factory,
        "envweave.envs.lineworld:LineWorldEnv",
        "lineworld",
        "./mine.py",
        "mine.py:Mine",
        Path("mine.py"),
        Path("mine.py:Mine"),
    ],
)
def test_make_takes_a_class_a_factory_a_module_and_a_file(folder, source):
    with ew.make(source, size=3) as env:
        observation = env.reset(seed=0).obs
        assert type(observation) is Position
        assert abs(observation.goal) == 3
    with ew.make_vector(source, 4, size=3) as vector:
        assert [abs(observation.goal) for observation in vector.reset(seed=0).obs] == [3] * 4


def test_make_takes_an_instance_and_a_vector_takes_several():
    made = LineWorldEnv(size=3)
    with ew.make(made) as env:
        assert env.unwrapped is made
        assert abs(env.reset(seed=0).obs.goal) == 3
    with ew.make_vector([LineWorldEnv(size=3), LineWorldEnv(size=4)]) as vector:
        assert [abs(observation.goal) for observation in vector.reset(seed=0).obs] == [3, 4]


@pytest.mark.parametrize("nonsense", [42, None, b"counter", {}, object()])
def test_what_is_no_environment_is_refused_with_a_hint(nonsense):
    for make in (lambda: ew.make(nonsense), lambda: ew.make_vector(nonsense, 2), lambda: ew.make_vector([nonsense])):
        with pytest.raises(InvalidIDError, match="a class, a function that makes one, or an instance"):
            make()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 3}, "'size' for an environment that is built already"),
        ({"backend": "subprocess"}, "an instance does not run 'subprocess'"),
        ({"docker_image": "image"}, "'docker_image' for an environment that is built already"),
    ],
)
def test_an_instance_takes_no_arguments_and_runs_here(options, said):
    with pytest.raises(UsageError, match=said) as caught:
        ew.make(LineWorldEnv(), **options)
    assert "class" in caught.value.hint


def test_one_instance_is_not_two_environments():
    with pytest.raises(UsageError, match="one instance for several environments") as caught:
        ew.make_vector(LineWorldEnv(), 2)
    assert "class" in caught.value.hint


def test_an_argument_that_a_class_does_not_take_is_named():
    with pytest.raises(UsageError, match=r"'sise'(.|\n)*it takes: size"):
        ew.make(LineWorldEnv, sise=3)


def test_a_class_of_the_main_module_or_of_a_function_does_not_run_in_a_subprocess():
    class Inner(LineWorldEnv):
        pass

    with pytest.raises(UsageError, match=r"'Inner' is known to this process only(.|\n)*put it into a module"):
        ew.make(Inner, backend="subprocess")
    code = """
import envweave as ew
from envweave.envs.lineworld import LineWorldEnv
class Mine(LineWorldEnv): ...
try:
    ew.make(Mine, backend="subprocess")
except ew.UsageError as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "put it into a module" in done.stdout
