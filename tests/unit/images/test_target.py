"""IDs and project folders as build targets, and hints for anything else."""

import sys

import pytest

from envweave.core.ids import image_name
from envweave.errors import EnvNotFoundError, UsageError
from envweave.images.target import resolve_target

PROJECT = """
[project]
name = "Two_Games"
version = "1"
[project.entry-points."envweave.envs"]
chess = "games:Chess"
"go fish" = "games:GoFish"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_the_id_is_kept_as_given():
    assert resolve_target("echo").env_id == "echo"
    assert resolve_target("lineworld?size=7").env_id == "lineworld?size=7"
    assert resolve_target("pkg://envweave.envs.nim:NimEnv").env_id == "pkg://envweave.envs.nim:NimEnv"


def test_a_built_in_environment_needs_no_further_package():
    target = resolve_target("echo")
    assert target.project is None
    assert target.distribution is None


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("envweave-echo", "envweave-echo:latest"),
        ("My_Env", "my-env:latest"),
        ("envweave-a.b:C", "envweave-a-b-c:latest"),
        ("--", "env:latest"),
    ],
)
def test_a_tag_is_valid_for_docker(name, tag):
    assert image_name(name) == tag


def test_the_tag_does_not_contain_parameters():
    assert resolve_target("lineworld?size=7").tag == "envweave-lineworld:latest"


def test_the_tag_of_a_project_is_its_name(project):
    target = resolve_target(str(project), "chess")
    assert target.tag == "two-games:latest"
    assert target.env_id == "chess"
    assert target.project == project


def test_a_project_with_several_environments_requires_a_choice(project):
    with pytest.raises(UsageError, match="has 2 environments") as caught:
        resolve_target(str(project))
    assert caught.value.hint == "choose one with --env: chess, go fish"
    with pytest.raises(UsageError, match="has no environment 'ches'") as caught:
        resolve_target(str(project), "ches")
    assert caught.value.hint == "did you mean 'chess'?"


def test_a_project_without_environments_gets_a_hint(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    with pytest.raises(UsageError, match="lists no environment") as caught:
        resolve_target(str(tmp_path))
    assert "envweave.envs" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no pyproject.toml"),
        ("[project\n", "cannot read"),
        ("", "has no project.name"),
        ("project = 3\n", "has no project.name"),
        ("[project]\nname = 3\n", "has no project.name"),
        ("\x00", "cannot read"),
    ],
)
def test_a_folder_without_a_valid_pyproject_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        resolve_target(str(tmp_path))


def test_a_bare_name_is_an_id_before_it_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("echo", "chess"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(PROJECT)
    assert resolve_target("echo").project is None
    assert resolve_target("./echo", "chess").project == tmp_path / "echo"
    assert resolve_target("chess", "chess").project == tmp_path / "chess"
    with pytest.raises(EnvNotFoundError):
        resolve_target("ches")


@pytest.fixture
def word_game(tmp_path, monkeypatch):
    """A class in a file of the current folder, which no package contains."""
    (tmp_path / "word_game.py").write_text(
        "class WordGame:\n    def reset(self): ...\n    def step(self, action): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield tmp_path
    sys.modules.pop("word_game", None)


ENTRY_POINT = 'word_game = "word_game:WordGame" under [project.entry-points."envweave.envs"]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pkg://word_game:WordGame", "'word_game:WordGame' is not in an installed package"),
        ("word_game:WordGame", "'word_game:WordGame' is not in an installed package"),
        ("word_game.py:WordGame", "'word_game.py' is a file"),
        ("./word_game.py:WordGame", "'word_game.py' is a file"),
    ],
)
def test_a_class_without_a_project_gets_the_entry_point_that_it_needs(word_game, text, message):
    with pytest.raises(UsageError) as caught:
        resolve_target(text)
    assert caught.value.message.startswith(message)
    assert ENTRY_POINT in caught.value.hint
    assert "envweave build FOLDER" in caught.value.hint


@pytest.mark.parametrize("text", ["pkg://word_game:WordGame", "word_game:WordGame", "word_game.py", "./word_game.py"])
def test_a_class_in_a_project_gets_the_folder_to_build(word_game, text):
    (word_game / "pyproject.toml").write_text(PROJECT)
    with pytest.raises(UsageError) as caught:
        resolve_target(text)
    assert caught.value.hint == "build its project: envweave build ."


def test_a_file_in_a_package_in_the_src_layout_gets_the_folder_to_build(project, monkeypatch):
    monkeypatch.chdir(project)
    package = project / "src" / "games"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "chess.py").touch()
    with pytest.raises(UsageError) as caught:
        resolve_target("src/games/chess.py:Chess")
    assert caught.value.hint == "build its project: envweave build ."


def test_a_class_of_an_installed_package_is_built_without_a_scheme():
    assert resolve_target("envweave.envs.nim:NimEnv").tag == resolve_target("pkg://envweave.envs.nim:NimEnv").tag


def test_parameters_of_an_id_are_not_part_of_a_file_name():
    with pytest.raises(EnvNotFoundError, match="no environment named 'nowhere'"):
        resolve_target("nowhere?file=x.py")


def test_a_class_of_an_unknown_module_gets_the_form_of_an_id():
    with pytest.raises(EnvNotFoundError) as caught:
        resolve_target("nowhere_at_all:Env")
    assert "there is no module 'nowhere_at_all'" in caught.value.hint
    assert "pkg://module:Class" in caught.value.hint


def test_an_image_is_not_built_from_an_image():
    with pytest.raises(UsageError, match="docker://echo-env:latest is already an image"):
        resolve_target("docker://echo-env:latest")
