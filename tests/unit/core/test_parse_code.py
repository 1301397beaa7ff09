"""Code that somebody else wrote is parsed within bounds, and without a word."""

import ast
import threading
import warnings

import pytest

from envweave.core.parse_code import LONGEST, UnreadableError, parse, parsed


def test_python_has_a_tree_and_anything_else_has_none():
    assert isinstance(parsed("x = 1"), ast.Module)
    assert isinstance(parsed("await f()"), ast.Module)
    for code in ("1 +", "nul\0byte", "x = '\ud800'"):
        assert parsed(code) is None
        with pytest.raises(SyntaxError):
            parse(code)


@pytest.mark.parametrize("code", ["-" * 100_000 + "1", "x=1\n" * LONGEST], ids=["deep", "long"])
def test_what_cannot_be_read_is_told_from_what_is_not_python(code):
    assert parsed(code) is None
    with pytest.raises(UnreadableError, match=r"the code (has|is) "):
        parse(code)


def test_odd_code_is_parsed_without_a_word_even_where_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed("print('\\d')") is not None
        with pytest.raises(SyntaxError):  # of anybody else
            ast.parse("print('\\d')")


def test_many_threads_leave_the_filters_of_others_as_they_are():
    before = _others()
    threads = [threading.Thread(target=lambda: [parsed("'\\d'") for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _others() == before


def _others():
    return [each for each in warnings.filters if "only looked at" not in str(each[3])]
