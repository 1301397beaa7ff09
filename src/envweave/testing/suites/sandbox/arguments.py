"""Wrong arguments, which are refused with a hint."""

from __future__ import annotations

from typing import Any

import pytest

from envweave.errors import UsageError
from envweave.sandbox import Sandbox, Session
from envweave.testing.suites.sandbox.base import Make, SandboxTests


class ArgumentTests(SandboxTests):
    """Wrong arguments are refused and change nothing."""

    def test_reading_a_variable_that_is_not_there_is_refused(self, session: Session) -> None:
        with pytest.raises(UsageError, match="no variable named 'y'") as caught:
            session.get("y")
        assert caught.value.hint

    @pytest.mark.parametrize("name", ["", "a b", "1a", "for", "a.b", "None", "x;y"])
    def test_what_is_no_name_cannot_be_read_or_set(self, session: Session, name: str) -> None:
        with pytest.raises(UsageError):
            session.get(name)
        with pytest.raises(UsageError):
            session.set(name, 1)

    @pytest.mark.parametrize("value", [{1, 2}, b"x", float("nan"), object(), {1: 2}])
    def test_a_variable_takes_data_only(self, session: Session, value: Any) -> None:
        session.set("x", "before")
        with pytest.raises(UsageError):
            session.set("x", value)
        assert session.get("x") == "before"

    @pytest.mark.parametrize("timeout", [1e7, 1e12])
    def test_a_timeout_may_be_very_long(self, session: Session, timeout: float) -> None:
        assert session.run("1", timeout=timeout).return_value == 1

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True], ids=repr)
    def test_a_wrong_timeout_is_refused(self, session: Session, timeout: Any) -> None:
        with pytest.raises(UsageError) as caught:
            session.run("1", timeout=timeout)
        assert caught.value.hint

    @pytest.mark.parametrize("path", ["../out.txt", "/abs.txt", "", "a/../../b"])
    def test_files_at_the_start_stay_in_the_work_folder(self, make: Make, path: str) -> None:
        with pytest.raises(UsageError):
            make(files={path: b"x"}).start()

    @pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "", ".", "a\0b"])
    def test_a_path_that_leads_out_is_refused(self, session: Session, path: str) -> None:
        with pytest.raises(UsageError):
            session.read_file(path)
        with pytest.raises(UsageError):
            session.write_file(path, "x")

    @pytest.mark.parametrize("data", [5, None, ["a"]], ids=repr)
    def test_contents_of_a_file_are_bytes_or_text(self, session: Session, data: Any) -> None:
        with pytest.raises(UsageError):
            session.write_file("a.txt", data)
        assert session.list_files() == {}

    @pytest.mark.parametrize("code", [None, 5, b"1", ["1"]], ids=repr)
    def test_code_is_text(self, session: Session, code: Any) -> None:
        with pytest.raises(UsageError):
            session.run(code)

    @pytest.mark.parametrize("wrong", [{"tools": {"a b": len}}, {"tools": {"x": 3}}, {"files": {"a": 5}}], ids=str)
    def test_wrong_tools_and_files_of_a_session_are_refused_before_it_starts(
        self, sandbox: Sandbox, wrong: Any
    ) -> None:
        with pytest.raises(UsageError):
            sandbox.start(**wrong)

    def test_a_file_outside_of_the_work_folder_is_refused_and_no_session_is_left(self, sandbox: Sandbox) -> None:
        with pytest.raises(UsageError):
            sandbox.start(files={"../outside": "x"})
        with sandbox.start() as session:
            assert session.run("1").return_value == 1

    @pytest.mark.parametrize("code", [None, 5, b"1"], ids=repr)
    def test_definitions_are_text(self, session: Session, code: Any) -> None:
        with pytest.raises(UsageError):
            session.define(code)

    @pytest.mark.parametrize("longest", [0, -1, 1.5, True, None, 1 << 40], ids=repr)
    def test_the_length_of_a_description_is_a_number_within_bounds(self, session: Session, longest: Any) -> None:
        with pytest.raises(UsageError) as caught:
            session.describe(longest)
        assert caught.value.hint
