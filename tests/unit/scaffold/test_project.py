"""All files of a project are written, or none."""

import pytest

from envweave.errors import UsageError
from envweave.scaffold import project
from envweave.scaffold.names import derive_names
from envweave.scaffold.project import write_project

FILES = {".gitignore", "README.md", "maze.py", "pyproject.toml", "tests/test_maze.py"}


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_no_placeholder_is_left_in_the_files(tmp_path):
    written = write_project(derive_names("maze"), tmp_path / "maze")
    assert names(tmp_path / "maze") == FILES
    assert len(written) == len(FILES)
    for path in written:
        text = path.read_text()
        assert not any(word in text for word in ("MY_ID", "my_env", "my-env", "MyEnv", "MyAction"))


def test_missing_parent_folders_are_created_and_an_empty_folder_is_used(tmp_path):
    write_project(derive_names("maze"), tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    write_project(derive_names("maze"), tmp_path / "empty")
    assert names(tmp_path / "empty") == names(tmp_path / "a" / "b") == FILES


def test_a_folder_that_is_not_empty_is_left_unchanged(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is not empty"):
        write_project(derive_names("maze"), tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        write_project(derive_names("maze"), tmp_path / "mine")
    assert names(tmp_path) == {"mine"}


def test_a_failure_leaves_no_files(tmp_path, monkeypatch):
    template = project._template

    def breaks(names):
        yield from list(template(names))[:3]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(project, "_template", breaks)
    with pytest.raises(UsageError, match=r"cannot write .*: no space left on device"):
        write_project(derive_names("maze"), tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
