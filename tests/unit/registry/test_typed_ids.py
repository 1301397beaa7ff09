"""IDs as people type them: `module:Class`, `./file.py`, a folder, the name of a file."""

import os
import pickle
import sys

import pytest

import envweave as ew
from envweave.errors import EnvNotFoundError, UsageError, VersionError

GAME = '''
class {name}:
    """A game."""

    def __init__(self, size=1):
        self.size = size

    def reset(self, *, seed=None):
        return self.size

    def step(self, action: int):
        return self.size, 1.0, True, False, {{}}
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with some files, none of which is on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    (tmp_path / "wordgame.py").write_text(GAME.format(name="WordGame"))
    (tmp_path / "two_games.py").write_text(GAME.format(name="Chess") + GAME.format(name="Go"))
    (tmp_path / "no_game.py").write_text(
        "from wordgame import WordGame\nclass _Hidden(WordGame): pass\n"
        "def make_game(size=1): return WordGame(size)\nNUMBER = 3"
    )
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("id", ["wordgame.py", "./wordgame.py", "./wordgame.py:WordGame", "file://wordgame.py"])
def test_a_file_is_an_environment(folder, id):
    with ew.make(id) as env:
        assert env.reset().obs == 1
        assert env.id == f"{folder}/wordgame.py:WordGame#0"
    assert ew.make(f"{id}?size=3").reset().obs == 3
    assert ew.make(f"{id}?size=3", size=4).reset().obs == 4
    with ew.make_vector(id, 2) as envs:
        assert [row.obs for row in envs.reset().results] == [1, 1]


def test_an_absolute_path_and_a_home_folder_are_fine(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    for id in (f"{folder}/wordgame.py", "~/wordgame.py"):
        assert ew.spec(id).id == f"{folder}/wordgame.py:WordGame"


def test_a_function_of_a_file_is_a_factory(folder):
    assert ew.make("./no_game.py:make_game?size=5").reset().obs == 5


def test_the_class_is_the_one_that_is_imported_elsewhere(folder):
    sys.path.append(str(folder))
    import wordgame

    assert type(ew.make("./wordgame.py").unwrapped) is wordgame.WordGame


def test_the_spec_of_a_file_survives_json_pickle_and_another_folder(folder, monkeypatch):
    spec = ew.spec("./wordgame.py?size=2")
    assert spec.description == "A game."
    monkeypatch.chdir("/")
    for again in (ew.EnvSpec.from_json(spec.to_json()), pickle.loads(pickle.dumps(spec)), ew.spec(spec.id)):
        assert again.factory == spec.factory == f"{folder}/wordgame.py:WordGame"
        assert ew.make(again, size=2).reset().obs == 2


def test_module_and_class_need_no_scheme():
    assert ew.make("envweave.envs.counter:CounterEnv?start=1").reset().obs.value == 1
    assert ew.spec("envweave.envs.counter:CounterEnv") == ew.spec("pkg://envweave.envs.counter:CounterEnv")
    with pytest.raises(VersionError):
        ew.make("envweave.envs.counter:CounterEnv@9.9")


@pytest.mark.parametrize(
    ("id", "message", "hint"),
    [
        ("two_games.py", "has 2 environment classes", "name one: two_games.py:Chess, two_games.py:Go"),
        ("./no_game.py", "has no environment class", "a function that makes one is named: ./no_game.py:function"),
        ("./no_game.py:NUMBER", "is a int, not a class", ""),
        ("./wordgame.py:WordGme", "has no 'WordGme'", "did you mean 'WordGame'?"),
        ("./wordgme.py", "no Python file './wordgme.py'", "did you mean './wordgame.py'?"),
        ("./wordgame", "no Python file './wordgame'", "did you mean './wordgame.py'?"),
        ("./zzzzz.py", "no Python file", "relative paths begin at"),
        ("./wordgame.py@1", "a file has no version '1'", "leave out @"),
        ("wordgame", "no environment named 'wordgame'", "did you mean './wordgame.py'?"),
        ("wordgame:WordGame", "no module 'wordgame'", "did you mean './wordgame.py:WordGame'?"),
        ("envweave.envs.nim", "no environment named", "did you mean 'envweave.envs.nim:NimEnv'?"),
        ("pkg://envweave.envs.nim", "has no attribute", "did you mean 'envweave.envs.nim:NimEnv'?"),
        ("_pytest.pathlib", "no environment named", "is named '_pytest.pathlib:Class'"),
        ("localhost:8000", "no environment named", "a server is named by its URL: http://localhost:8000"),
        (".", "'.' is a folder", "./two_games.py:Chess, ./two_games.py:Go, ./wordgame.py"),
    ],
)
def test_what_cannot_be_made_names_the_exact_form_to_use(folder, id, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        ew.make(id)
    assert hint in caught.value.hint


@pytest.mark.parametrize("id", ["./project", "project", "./project/"])
@pytest.mark.parametrize("place", ["my_env.py", "my_env/__init__.py", "src/my_env/__init__.py"])
def test_a_folder_with_a_project_names_the_environments_that_it_lists(folder, id, place):
    path = folder / "project" / place
    path.parent.mkdir(parents=True)
    path.write_text(GAME.format(name="MyEnv"))
    (folder / "project" / "pyproject.toml").write_text(
        '[project.entry-points."envweave.envs"]\nmy-env = "my_env:MyEnv"'
    )
    with pytest.raises(EnvNotFoundError) as caught:
        ew.make(id)
    named = caught.value.hint.split("'")[1]
    assert os.path.normpath(named) == f"project/{place}:MyEnv"
    assert ew.make(named).reset().obs == 1


def test_a_folder_without_environments_says_how_to_name_a_file(folder):
    (folder / "empty").mkdir()
    (folder / "empty" / "broken.py").write_text("def (")
    with pytest.raises(EnvNotFoundError) as caught:
        ew.make("./empty")
    assert "./file.py:Class" in caught.value.hint


def test_a_file_that_is_not_python_is_not_an_environment(folder):
    (folder / "notes.txt").write_text("")
    with pytest.raises(EnvNotFoundError, match="no Python file"):
        ew.make("./notes.txt")
