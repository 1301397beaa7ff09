"""The values of expressions, exceptions and variables as data."""

from __future__ import annotations

from typing import Any

import pytest

from envweave.sandbox import Session
from envweave.testing.suites.sandbox.base import MIB, Make, SandboxTests


class ValueTests(SandboxTests):
    """What a run returns as values and exceptions."""

    def test_text_without_a_line_end_is_stdout_too(self, session: Session) -> None:
        assert session.run("print('half', end='')").stdout == "half"

    def test_bytes_that_are_no_text_are_shown_escaped(self, session: Session) -> None:
        assert session.run(r"import os; n = os.write(1, b'\xff\xfe')").stdout == r"\xff\xfe"

    @pytest.mark.parametrize(
        "value",
        [
            True,
            0,
            -17,
            2.5,
            "text",
            "zwölf €🙂",
            "",
            [],
            {},
            [1, [2, [3]]],
            {"a": [1, {"b": None}], "c": "d"},
            "\0\x1b[31m",
            {"data": 1, "repr": 2},
        ],
        ids=repr,
    )
    def test_the_value_of_a_last_expression_comes_back_as_data(self, session: Session, value: Any) -> None:
        result = session.run(repr(value))
        assert result.return_value == value
        assert type(result.return_value) is type(value)
        assert result.return_is_data

    def test_a_tuple_comes_back_as_a_list(self, session: Session) -> None:
        result = session.run("1, (2, 3)")
        assert result.return_value == [1, [2, 3]]
        assert result.return_is_data

    def test_none_is_no_value(self, session: Session) -> None:
        assert session.run("None").return_value is None

    def test_a_statement_has_no_value(self, session: Session) -> None:
        assert session.run("x = 5").return_value is None

    def test_no_code_at_all_is_a_success(self, session: Session) -> None:
        assert session.run("").success

    @pytest.mark.parametrize("code", ["{1}", "b'x'", "1j", "float('inf')", "{1: 2}", "range(3)", "...", "[b'x']"])
    def test_a_value_that_is_no_data_comes_back_as_its_repr(self, session: Session, code: str) -> None:
        result = session.run(code)
        assert result.return_value == repr(eval(code))
        assert not result.return_is_data

    def test_an_object_comes_back_as_its_repr(self, session: Session) -> None:
        result = session.run("class Thing:\n    def __repr__(self): return 'a thing'\nThing()")
        assert (result.return_value, result.return_is_data) == ("a thing", False)

    def test_a_repr_that_raises_is_told_and_harms_nothing(self, session: Session) -> None:
        result = session.run("class Bad:\n    def __repr__(self): raise RuntimeError('no')\nBad()")
        assert result.success
        assert "Bad" in result.return_value
        assert session.run("1").return_value == 1

    def test_a_subclass_of_a_data_type_is_not_taken_for_data(self, session: Session) -> None:
        result = session.run("class Sly(str): pass\nSly('x')")
        assert (result.return_value, result.return_is_data) == ("'x'", False)

    def test_a_value_that_contains_itself_comes_back_as_text(self, session: Session) -> None:
        result = session.run("a = []\na.append(a)\na")
        assert not result.return_is_data
        assert result.return_value.startswith("[[")

    def test_text_that_cannot_be_encoded_comes_back_escaped(self, session: Session) -> None:
        assert session.run(r"'\ud800'").return_value == r"\ud800"

    def test_what_was_printed_before_an_exception_is_kept(self, session: Session) -> None:
        assert session.run("print('first')\n1 / 0").stdout == "first\n"

    def test_what_was_defined_before_an_exception_is_kept(self, session: Session) -> None:
        session.run("x = 1\n1 / 0")
        assert session.get("x") == 1

    def test_a_traceback_has_the_lines_of_the_code_with_their_numbers(self, session: Session) -> None:
        result = session.run("def f():\n    return 1 / 0\n\n\nf()")
        assert result.exception is not None
        assert "line 5, in <module>" in result.exception.traceback
        assert "line 2, in f" in result.exception.traceback
        assert "return 1 / 0" in result.exception.traceback
        assert result.exception.traceback.rstrip().endswith("ZeroDivisionError: division by zero")

    @pytest.mark.parametrize(
        "code", ["1 / 0", "raise SystemExit(3)", "x = = 1", "await nothing", "import nothing_there"]
    )
    def test_a_traceback_has_no_line_of_ours(self, session: Session, code: str) -> None:
        result = session.run(code)
        assert result.exception is not None
        assert "envweave" not in result.exception.traceback
        assert "namespace" not in result.exception.traceback

    def test_the_exception_of_a_tool_has_no_line_of_ours(self, make: Make) -> None:
        def fail() -> None:
            raise ValueError("from outside")

        with make(tools={"fail": fail}).start() as session:
            result = session.run("fail()")
        assert result.exception is not None
        assert "envweave" not in result.exception.traceback
        assert "line 1, in <module>" in result.exception.traceback

    def test_an_exception_that_cannot_be_shown_is_still_named(self, session: Session) -> None:
        code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad"
        result = session.run(code)
        assert result.exception is not None
        assert result.exception.type == "Bad"

    @pytest.mark.parametrize(("code", "exit_code"), [("3", 3), ("'words'", 1), ("0", 0), ("", 0)])
    def test_an_exit_is_a_result_with_its_code(self, session: Session, code: str, exit_code: int) -> None:
        result = session.run(f"x = 1\nimport sys\nsys.exit({code})")
        assert (result.exit_code, result.success, result.state) == (exit_code, exit_code == 0, "kept")
        assert session.get("x") == 1

    def test_a_whole_number_of_any_size_is_told(self, session: Session) -> None:
        for power in (30, 5000):
            assert str(session.run(f"10 ** {power}").return_value) == "1" + "0" * power
        session.run("big = [10 ** 5000]")
        assert session.get("big") == "[1" + "0" * 5000 + "]"

    def test_input_finds_an_empty_stdin(self, session: Session) -> None:
        result = session.run("input('name? ')")
        assert result.exception is not None
        assert result.exception.type == "EOFError"
        assert session.run("import sys\nsys.stdin.read()").return_value == ""


class VariableTests(SandboxTests):
    """Reading and setting variables."""

    def test_variables_are_listed_with_their_types(self, session: Session) -> None:
        session.run("a = 1\nb = 'x'\nclass C: pass\nc = C()\ndef f(): pass")
        assert session.variables() == {"a": "int", "b": "str", "C": "type", "c": "C", "f": "function"}

    def test_modules_tools_and_private_names_are_not_listed(self, make: Make) -> None:
        with make(tools={"look": len}).start() as session:
            session.run("import os\n_hidden = 1\nshown = 2\nshown")
            assert session.variables() == {"shown": "int"}

    def test_a_new_session_has_no_variables(self, session: Session) -> None:
        assert session.variables() == {}

    def test_all_variables_are_listed_however_many(self, session: Session) -> None:
        session.run("globals().update({f'a_rather_long_name_{n}': n for n in range(5000)})")
        assert len(session.variables()) == 5000

    def test_a_variable_can_be_read_as_data(self, session: Session) -> None:
        session.run("x = {'a': [1, 2]}")
        assert session.get("x") == {"a": [1, 2]}

    def test_a_variable_that_is_no_data_is_read_as_its_repr(self, session: Session) -> None:
        session.run("x = {1, 2}")
        assert session.get("x") == "{1, 2}"

    def test_a_variable_that_is_none_is_none(self, session: Session) -> None:
        session.run("x = None")
        assert session.get("x") is None

    def test_a_variable_can_be_set(self, session: Session) -> None:
        session.set("x", {"a": [1, 2.5, None, "é"]})
        assert session.run("x['a']").return_value == [1, 2.5, None, "é"]

    def test_a_large_value_can_be_set(self, session: Session) -> None:
        session.set("x", "y" * (2 * MIB))
        assert session.run("len(x)").return_value == 2 * MIB
