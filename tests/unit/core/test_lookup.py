"""`module:name` and `file.py:name`, and what is said about a package that is missing."""

import subprocess
import sys

import pytest

from envweave.core.lookup import address, load
from envweave.errors import EnvError, UnavailableError, UsageError


@pytest.fixture(autouse=True)
def _modules(monkeypatch):
    """Leave no modules and no folders behind."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["json", "json:", ":loads", "a b:c", ".json:loads", "a:b:c"])
def test_what_is_not_of_the_form_is_refused(target):
    with pytest.raises(UsageError, match="is not of the form 'module:attribute'"):
        load(target)


def test_a_wrong_attribute_suggests_the_nearest():
    with pytest.raises(UnavailableError, match="module 'json' has no 'laods'") as caught:
        load("json:laods")
    assert caught.value.hint == "did you mean 'loads'?"


def test_a_missing_package_of_an_extra_is_one_error_without_a_chain(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import no_such_package.part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnavailableError) as caught:
        load("needy:X", extra="client")
    assert str(caught.value) == "'no_such_package' is not installed\nhint: pip install 'envweave[client]'"
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_a_missing_import_of_the_users_own_module_is_an_error_that_names_both(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError, match="'needy' cannot be imported: there is no module 'no_such_package'"):
        load("needy:X")


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [
        ("msgspec", "ew.make('http://127.0.0.1:1')", "client"),
        ("websockets", "ew.make_vector('http://127.0.0.1:1', 2)", "client"),
        ("docker", "ew.make('echo', backend='docker_http')", "docker"),
        ("kubernetes", "ew.make('k8s://x')", "kubernetes"),
        ("fastapi", "__import__('envweave.server').server.create_app('echo')", "server"),
    ],
)
def test_a_missing_extra_is_one_traceback_and_a_hint(missing, call, extra):
    code = f"import sys; sys.modules[{missing!r}] = None\nimport envweave as ew\n{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert done.stderr.splitlines()[-2:] == [
        f"envweave.errors.UnavailableError: {missing!r} is not installed",
        f"hint: pip install 'envweave[{extra}]'",
    ]


def test_a_file_is_imported_under_its_own_name_and_finds_its_neighbours(tmp_path):
    (tmp_path / "neighbour_of_it.py").write_text("WORD = 'word'")
    (tmp_path / "by_path.py").write_text("from neighbour_of_it import WORD\nclass Game: pass")
    game = load(f"{tmp_path}/by_path.py:Game")
    assert game.__module__ == "by_path"
    assert sys.modules["by_path"].WORD == "word"
    assert load("by_path:Game") is game


def test_a_file_in_a_package_is_its_submodule(tmp_path):
    folder = tmp_path / "some_package" / "inner"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").write_text("")
    (folder.parent / "words.py").write_text("WORD = 'word'")
    (folder / "game.py").write_text("from ..words import WORD\nclass Game: word = WORD")
    game = load(f"{folder}/game.py:Game")
    assert (game.__module__, game.word) == ("some_package.inner.game", "word")
    (folder / "__init__.py").write_text("")
    assert load(f"{folder}/__init__.py:__name__") == "some_package.inner"


def test_files_of_one_name_do_not_disturb_each_other(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(f"class Game: name = {name!r}")
    (tmp_path / "json.py").write_text("class Game: name = 'ours'")
    names = [load(f"{tmp_path}/{path}:Game.name") for path in ("first/same_name.py", "second/same_name.py", "json.py")]
    assert names == ["first", "second", "ours"]
    assert load("json:loads")("1") == 1


@pytest.mark.parametrize("path", ["by_path.py", "second/by_path.py", "a b/my-game.py"])
def test_what_a_file_defines_is_found_again_by_its_address_in_any_process(tmp_path, path):
    for each in ("by_path.py", path):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text("class Game: pass")
        game = load(f"{tmp_path}/{each}:Game")
    assert address(game) == f"{tmp_path}/{path}:Game"
    assert load(address(game)) is game
    code = f"from envweave.core.lookup import load; print(load({address(game)!r}).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Game\n"


def test_a_file_is_run_once_even_if_it_is_the_program_itself(tmp_path):
    (tmp_path / "program.py").write_text(
        "import os\nfrom envweave.core.lookup import load\nprint('run')\nclass Game: pass\n"
        "assert load(os.path.abspath(__file__) + ':Game') is Game\n"
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "run\n"


def test_a_file_that_raises_is_named_and_not_kept(tmp_path):
    (tmp_path / "raises_at_import.py").write_text("1 / 0")
    for _ in range(2):
        with pytest.raises(EnvError, match=r"raises_at_import.py' cannot be imported: ZeroDivisionError"):
            load(f"{tmp_path}/raises_at_import.py:Game")
    (tmp_path / "raises_at_import.py").write_text("class Game: pass")
    assert load(f"{tmp_path}/raises_at_import.py:Game")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnavailableError, match=r"there is no file '.*/nowhere.py'"):
        load(f"{tmp_path}/nowhere.py:Game")
