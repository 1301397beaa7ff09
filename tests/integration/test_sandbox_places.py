"""Where files of the host appear in a session."""

from pathlib import Path

from envweave.sandbox import Sandbox


def test_a_readable_folder_below_the_temporary_one_is_seen_and_the_temporary_one_is_still_the_sessions_own(
    tmp_path: Path,
):
    """An interpreter may lie there, too."""
    (tmp_path / "data").write_text("of the host")
    tmp_path.chmod(0o755)
    with Sandbox(readable=[str(tmp_path)], min_isolation="namespace") as sandbox, sandbox.start() as session:
        code = f"open('{tmp_path}/data').read(), open('/tmp/own', 'w').write('x'), open('/tmp/own').read()"
        assert session.run(code).return_value == ["of the host", 1, "x"]
        assert session.run(f"open('{tmp_path}/data', 'w')").exception.type in ("OSError", "PermissionError")
        assert session.run(f"open('{tmp_path}/new', 'w')").exception.type in ("OSError", "PermissionError")
        with session.fork() as fork:
            assert fork.run(code).return_value == ["of the host", 1, "x"]
            assert fork.run(f"open('{tmp_path}/new', 'w')").exception.type in ("OSError", "PermissionError")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_is_not_named_is_not_there(tmp_path: Path):
    (tmp_path / "named").mkdir()
    (tmp_path / "named").chmod(0o755)
    (tmp_path / "secret").write_text("of the host")
    with Sandbox(readable=[str(tmp_path / "named")], min_isolation="namespace") as sandbox, sandbox.start() as session:
        assert session.run(f"import os; os.listdir('{tmp_path}')").return_value == ["named"]
