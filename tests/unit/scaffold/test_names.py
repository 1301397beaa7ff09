"""Names of a project, derived from one name."""

import pytest

from envweave.errors import UsageError
from envweave.scaffold.names import derive_names


@pytest.mark.parametrize(
    ("name", "module", "project", "class_prefix"),
    [
        ("my_env", "my_env", "my-env", "My"),
        ("my-env", "my_env", "my-env", "My"),
        ("maze", "maze", "maze", "Maze"),
        ("tic-tac-toe", "tic_tac_toe", "tic-tac-toe", "TicTacToe"),
        ("env", "env", "env", "Env"),
        ("go2", "go2", "go2", "Go2"),
    ],
)
def test_all_names_are_derived_from_the_given_one(name, module, project, class_prefix):
    found = derive_names(name)
    assert (found.id, found.module, found.project, found.class_prefix) == (name, module, project, class_prefix)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "'' is not a valid module name", "my_env"),
        ("2048", "'2048' is not a valid module name", "my_env"),
        ("MyEnv", "'MyEnv' is not a valid module name", "my_env"),
        ("a b", "'a b' is not a valid module name", "a_b"),
        ("a/b", "'a/b' is not a valid module name", "a_b"),
        ("../x", "'../x' is not a valid module name", "e.g. x"),
        ("_x", "'_x' is not a valid module name", "e.g. x"),
        ("x-", "'x-' is not a valid module name", "e.g. x"),
        ("a__b", "'a__b' is not a valid module name", "a_b"),
        ("spiel-größe", "is not a valid module name", "spiel_gr_e"),
        ("x\n", "is not a valid module name", "e.g. x"),
        ("class", "is a Python keyword", "class_env"),
        ("json", "would shadow a module of the standard library", "json_env"),
        ("rich", "would shadow an installed module", "my_rich"),
        ("envweave", "would shadow an installed module", "my_envweave"),
        ("tests", "would shadow an installed module", "my_tests"),
        ("echo", "an environment 'echo' already exists", "my_echo"),
        ("rock-paper-scissors", "an environment 'rock-paper-scissors' already exists", "my_rock_paper_scissors"),
    ],
)
def test_an_invalid_name_is_refused_with_a_suggestion(name, message, hint):
    with pytest.raises(UsageError) as caught:
        derive_names(name)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_folder_of_that_name_in_the_current_folder_is_ignored(tmp_path, monkeypatch):
    (tmp_path / "my_game").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert derive_names("my_game").module == "my_game"


def test_placeholders_are_replaced():
    text = "MY_ID my_env my-env MyEnv(MyAction) -> MyObservation, MyEnvironment"
    assert derive_names("sea-battle").fill(text) == (
        "sea-battle sea_battle sea-battle SeaBattleEnv(SeaBattleAction) -> SeaBattleObservation, MyEnvironment"
    )
