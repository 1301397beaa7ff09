"""A project is written as a whole, or not at all."""

import pytest

from envweave.errors import UsageError
from envweave.scaffold import write
from envweave.scaffold.name import names_of
from envweave.scaffold.write import write_project

FILES = {".gitignore", "README.md", "maze.py", "pyproject.toml", "tests/test_maze.py"}


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_files_carry_the_name_and_nothing_of_the_template(tmp_path):
    written = write_project(names_of("maze"), tmp_path / "maze")
    assert names(tmp_path / "maze") == FILES
    assert len(written) == len(FILES)
    for path in written:
        text = path.read_text()
        assert not any(word in text for word in ("MY_ID", "my_env", "my-env", "MyEnv", "MyAction"))


def test_folders_on_the_way_are_made_and_an_empty_one_is_used(tmp_path):
    write_project(names_of("maze"), tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    write_project(names_of("maze"), tmp_path / "empty")
    assert names(tmp_path / "empty") == names(tmp_path / "a" / "b") == FILES


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is not empty"):
        write_project(names_of("maze"), tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        write_project(names_of("maze"), tmp_path / "mine")
    assert names(tmp_path) == {"mine"}


def test_a_failure_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    whole = write._template

    def breaks(names):
        yield from list(whole(names))[:3]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "_template", breaks)
    with pytest.raises(UsageError, match="cannot be written: no space left on device"):
        write_project(names_of("maze"), tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
