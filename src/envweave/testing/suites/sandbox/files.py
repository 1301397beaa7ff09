"""Files in the work folder of a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envweave.errors import UsageError
from envweave.sandbox import Session
from envweave.testing.suites.sandbox.base import MIB, Make, SandboxTests


class FileTests(SandboxTests):
    """Files that go in and out."""

    def test_files_are_there_at_the_start(self, make: Make) -> None:
        with make(files={"data.csv": b"a,b\n1,2\n", "deep/er/text.txt": "zwölf"}).start() as session:
            assert session.run("open('data.csv').read()").return_value == "a,b\n1,2\n"
            assert session.run("open('deep/er/text.txt', encoding='utf-8').read()").return_value == "zwölf"

    def test_each_session_gets_the_files_anew(self, make: Make) -> None:
        sandbox = make(files={"data.txt": "fresh"})
        with sandbox.start() as one:
            one.run("open('data.txt', 'w').write('used')")
            with sandbox.start() as other:
                assert other.read_file("data.txt") == b"fresh"

    def test_a_file_that_the_code_wrote_can_be_read(self, session: Session) -> None:
        session.run(r"open('out.bin', 'wb').write(bytes(range(256)))")
        assert session.read_file("out.bin") == bytes(range(256))

    def test_a_file_that_we_write_can_be_read_inside(self, session: Session) -> None:
        session.write_file("in.bin", bytes(range(256)))
        assert session.run("open('in.bin', 'rb').read() == bytes(range(256))").return_value is True

    def test_text_is_written_as_utf_8(self, session: Session) -> None:
        session.write_file("in.txt", "zwölf €")
        assert session.read_file("in.txt") == "zwölf €".encode()

    def test_a_file_can_be_written_below_folders_that_are_not_there(self, session: Session) -> None:
        session.write_file("a/b/c.txt", "deep")
        assert session.run("open('a/b/c.txt').read()").return_value == "deep"

    def test_a_file_that_we_wrote_can_be_changed_by_the_code(self, session: Session) -> None:
        session.write_file("a/b.txt", "ours")
        result = session.run("open('a/b.txt', 'a').write(' and theirs')\nopen('a/c.txt', 'w').close()")
        assert result.exception is None
        assert session.read_file("a/b.txt") == b"ours and theirs"

    def test_a_file_can_be_overwritten_by_a_shorter_one(self, session: Session) -> None:
        session.write_file("a.txt", "long text")
        session.write_file("a.txt", "short")
        assert session.read_file("a.txt") == b"short"

    def test_a_file_that_the_code_wrote_can_be_overwritten(self, session: Session) -> None:
        session.run("open('a.txt', 'w').write('theirs')")
        session.write_file("a.txt", "ours")
        assert session.run("open('a.txt').read()").return_value == "ours"

    def test_an_empty_file_is_a_file(self, session: Session) -> None:
        session.write_file("empty", b"")
        assert session.read_file("empty") == b""
        assert session.list_files() == {"empty": 0}

    def test_a_large_file_goes_in_and_out(self, session: Session) -> None:
        data = os.urandom(5 * MIB)
        session.write_file("large.bin", data)
        assert session.read_file("large.bin") == data

    def test_files_are_listed_with_their_sizes(self, session: Session) -> None:
        session.write_file("b.txt", "12")
        session.run("import os\nos.makedirs('d/e')\nopen('d/e/f.txt', 'w').write('123')\nos.mkdir('nothing')")
        assert session.list_files() == {"b.txt": 2, "d/e/f.txt": 3}

    def test_names_of_files_may_be_any_text(self, session: Session) -> None:
        session.write_file("zwölf €/a b\n.txt", "x")
        assert session.list_files() == {"zwölf €/a b\n.txt": 1}
        assert session.read_file("zwölf €/a b\n.txt") == b"x"

    def test_names_that_are_no_text_do_not_break_the_list(self, session: Session) -> None:
        session.run(r"open(b'\xff\xfe', 'wb').close()")
        assert len(session.list_files()) == 1

    def test_reading_a_file_that_is_not_there_is_refused(self, session: Session) -> None:
        with pytest.raises(UsageError, match=r"missing\.txt"):
            session.read_file("missing.txt")

    def test_a_folder_cannot_be_read_as_a_file(self, session: Session) -> None:
        session.run("import os; os.mkdir('folder')")
        with pytest.raises(UsageError):
            session.read_file("folder")

    def test_a_file_cannot_take_the_place_of_a_folder(self, session: Session) -> None:
        session.run("import os; os.mkdir('folder')")
        with pytest.raises(UsageError):
            session.write_file("folder", "x")
        assert session.run("os.path.isdir('folder')").return_value is True

    def test_a_symbolic_link_is_not_read(self, session: Session) -> None:
        session.run("import os; os.symlink('/etc/hostname', 'link')")
        with pytest.raises(UsageError, match="symbolic link"):
            session.read_file("link")

    def test_a_symbolic_link_to_a_folder_is_not_followed(self, session: Session, tmp_path: Path) -> None:
        session.run(f"import os; os.symlink({str(tmp_path)!r}, 'link')")
        with pytest.raises(UsageError):
            session.write_file("link/new.txt", "x")
        with pytest.raises(UsageError):
            session.read_file("link/new.txt")
        assert list(tmp_path.iterdir()) == []

    def test_writing_to_a_symbolic_link_replaces_the_link(self, session: Session, tmp_path: Path) -> None:
        target = tmp_path / "target.txt"
        target.write_text("untouched")
        session.run(f"import os; os.symlink({str(target)!r}, 'link')")
        session.write_file("link", "x")
        assert target.read_text() == "untouched"
        assert session.read_file("link") == b"x"

    def test_symbolic_links_are_not_listed(self, session: Session) -> None:
        session.run("import os; os.symlink('/etc', 'folder'); os.symlink('/etc/hostname', 'file')")
        assert session.list_files() == {}

    def test_a_fifo_cannot_be_read(self, session: Session) -> None:
        session.run("import os; os.mkfifo('pipe')")
        with pytest.raises(UsageError):
            session.read_file("pipe")
