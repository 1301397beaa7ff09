"""From one name to the names of a project."""

import pytest

from envweave.errors import UsageError
from envweave.scaffold.name import names_of


@pytest.mark.parametrize(
    ("name", "module", "project", "stem"),
    [
        ("my_env", "my_env", "my-env", "My"),
        ("my-env", "my_env", "my-env", "My"),
        ("maze", "maze", "maze", "Maze"),
        ("tic-tac-toe", "tic_tac_toe", "tic-tac-toe", "TicTacToe"),
        ("env", "env", "env", "Env"),
        ("go2", "go2", "go2", "Go2"),
    ],
)
def test_the_names_follow_from_the_one_that_is_given(name, module, project, stem):
    found = names_of(name)
    assert (found.id, found.module, found.project, found.stem) == (name, module, project, stem)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "'' is no name", "my_env"),
        ("2048", "'2048' is no name", "my_env"),
        ("MyEnv", "'MyEnv' is no name", "my_env"),
        ("a b", "'a b' is no name", "a_b"),
        ("a/b", "'a/b' is no name", "a_b"),
        ("../x", "'../x' is no name", ": x"),
        ("_x", "'_x' is no name", ": x"),
        ("x-", "'x-' is no name", ": x"),
        ("a__b", "'a__b' is no name", "a_b"),
        ("spiel-größe", "is no name", "spiel_gr_e"),
        ("x\n", "is no name", ": x"),
        ("class", "is a word of Python", "class_env"),
        ("json", "would hide Python's own module", "json_env"),
        ("rich", "would hide a module that is installed here", "my_rich"),
        ("envweave", "would hide a module that is installed here", "my_envweave"),
        ("tests", "would hide a module that is installed here", "my_tests"),
        ("echo", "there is an environment 'echo' already", "my_echo"),
        ("rock-paper-scissors", "there is an environment", "my_rock_paper_scissors"),
    ],
)
def test_a_bad_name_is_refused_with_a_better_one(name, message, hint):
    with pytest.raises(UsageError) as caught:
        names_of(name)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_folder_of_that_name_where_we_stand_does_not_count(tmp_path, monkeypatch):
    (tmp_path / "my_game").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert names_of("my_game").module == "my_game"


def test_the_template_is_filled_with_them():
    text = "MY_ID my_env my-env MyEnv(MyAction) -> MyObservation, MyEnvironment"
    assert names_of("sea-battle").filled(text) == (
        "sea-battle sea_battle sea-battle SeaBattleEnv(SeaBattleAction) -> SeaBattleObservation, MyEnvironment"
    )
