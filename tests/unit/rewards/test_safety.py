"""Dangerous code is found by its syntax tree, named with its line, and what only looks like it is not punished."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envweave as ew
from envweave.rewards import DANGEROUS_PATTERNS, CodeSafetyTransform


def judge(ran, code, success=True, **options):
    seen = CodeSafetyTransform(**options)(ran(code=code, success=success))
    return seen.reward, seen.metadata.get("safety_violation")


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("import os", "import os"),
        ("import math, os", "import os"),
        ("import os.path as p", "import os"),
        ("from os import path", "import os"),
        ("from os.path import join as j", "import os"),
        ("from os import *", "import os"),
        ("def f():\n    import subprocess", "import subprocess"),
        ("import  \\\n  socket", "import socket"),
        ("eval('1')", "eval"),
        ("f = eval\nf('1')", "eval"),
        ("list(map(exec, ['a = 1']))", "exec"),
        ("compile('1', '', 'eval')", "compile"),
        ("__import__('os')", "__import__"),
        ("with open('f') as f: pass", "open"),
        ("print((open)('f'))", "open"),
        ("eval = eval\neval('1')", "eval"),
        ("lambda x=open: x", "open"),
        ("def f(open=open): return open", "open"),
        ("class A:\n    def open(self):\n        return open('f')", "open"),
        ("[open(name) for name in names]", "open"),
        ("getattr(__builtins__, 'ev' + 'al')('1')", "__builtins__"),
        ("().__class__.__bases__[0].__subclasses__()", "__bases__"),
        ("getattr(object, '__subclasses__')()", "__subclasses__"),
        ("getattr(object, '__sub' + 'classes__')()", None),
        ("getattr(object, f'__sub{\"\"}classes__')()", None),
        ("globals()['__built' 'ins__']", "__builtins__"),
        ("operator.attrgetter('__globals__')(f)", "__globals__"),
        ("f.__globals__", "__globals__"),
        ("import importlib\nimportlib.import_module('os')", "import importlib"),
        ("match 1:\n    case x: eval('1')", "eval"),
        ("async def f():\n    async with a as b:\n        await eval('x')", "eval"),
    ],
)
def test_a_danger_is_named_and_costs_the_penalty(ran, code, pattern):
    reward, violation = judge(ran, code)
    if pattern is None:  # put together while the code runs: out of reach, as the module says
        assert (reward, violation) == (0.0, None)
    else:
        assert reward == -1.0
        assert violation.partition(" (line ")[0] == pattern


@pytest.mark.parametrize(
    "code",
    [
        "print('open(')",
        "# import os\nx = 1",
        '"""eval(x)"""',
        "open = 5\nprint(open)",
        "def open(path): return path\nopen('f')",
        "def f(eval): return eval('1')",
        "f = lambda open: open",
        "class File:\n    def open(self): return 1\nFile().open()",
        "webbrowser.open('x')",
        "self.open()\nmodel.eval()\nre.compile('a')",
        "for open in doors: print(open)",
        "with door as open: print(open)",
        "from doors import open\nopen('x')",
        "from doors import door as open\nopen('x')",
        "[open for open in doors]",
        "{open: 1 for open in doors}",
        "try: pass\nexcept E as open: print(open)",
        "match door:\n    case [open, *exec]: print(open, exec)\n    case {'a': 1, **eval}: print(eval)",
        "if (open := 5): print(open)",
        "def f():\n    open = 1\n    def g(): return open\n    return g",
        "def f(): return open('x')\ndef open(path): return path",
        "from . import os",
        "from .os import path",
        "import oslo, osmium",
        "x.os.path",
        "import sys\nprint(sys.maxsize)",
        "print('__builtins__')",
        "x.__class__.__name__",
        "os = 3\nprint(os)",
        "open: int = 3\nprint(open)",
        "",
        "   \n",
        "x = '\\d'",
    ],
)
def test_what_is_harmless_costs_nothing(ran, code):
    assert judge(ran, code) == (0.0, None)


@pytest.mark.parametrize("code", ["1 +", "import os import", "nul\0byte", "x = '\ud800'"])
def test_what_is_not_python_never_ran_and_costs_nothing(ran, code):
    assert judge(ran, code, success=False) == (0.0, None)


def test_all_violations_are_listed_with_their_lines_and_the_penalty_is_paid_once(ran):
    seen = CodeSafetyTransform(penalty=-3.0)(ran(code="x = 1\nimport os\nimport os\neval(open('f').read())"))
    assert seen.reward == -3.0
    assert seen.metadata["safety_violation"] == "import os (line 2)"
    assert seen.metadata["safety_violations"] == [
        {"pattern": "import os", "line": 2},
        {"pattern": "import os", "line": 3},
        {"pattern": "eval", "line": 4},
        {"pattern": "open", "line": 4},
    ]


def test_the_patterns_of_openenv_are_among_ours():
    assert {"import os", "import subprocess", "eval", "exec", "__import__", "open"} <= set(DANGEROUS_PATTERNS)


def test_other_patterns_can_be_given(ran):
    own = {"patterns": ["import numpy.random", "input", "__doc__"]}
    assert judge(ran, "import os\nopen('f')", **own) == (0.0, None)
    assert judge(ran, "import numpy", **own) == (0.0, None)
    assert judge(ran, "from numpy import random", **own) == (-1.0, "import numpy.random (line 1)")
    assert judge(ran, "input()", **own) == (-1.0, "input (line 1)")
    assert judge(ran, "f.__doc__", **own) == (-1.0, "__doc__ (line 1)")


@pytest.mark.parametrize("patterns", ["import os", ["os.system"], ["eval("], [""], ["import "], [5], [r"import\s+os"]])
def test_a_pattern_without_a_meaning_is_refused(patterns):
    with pytest.raises(ew.UsageError, match="pattern") as caught:
        CodeSafetyTransform(patterns=patterns)
    assert caught.value.hint


@pytest.mark.parametrize("metadata", [{}, {"last_code": None}, {"last_code": b"import os"}])
def test_code_that_nobody_has_seen_is_not_safe_but_not_scored(metadata):
    seen = CodeSafetyTransform()(ew.Observation(metadata=metadata))
    assert (seen.reward, seen.metadata["rewards"]) == (None, {"code_safety": None})
    assert "no code to score" in seen.metadata["error"]["message"]
    assert "last_code" in seen.metadata["error"]["hint"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("-" * 100_000 + "1", id="signs"),
        pytest.param("+".join(["a"] * 50_000), id="sums"),
        pytest.param("a" + ".b" * 50_000, id="attributes"),
        pytest.param("lambda:" * 20_000 + "1", id="lambdas"),
        pytest.param("x = 1\n" * 100_000, id="length"),
    ],
)
def test_code_that_cannot_be_read_is_no_way_around_the_penalty(ran, code):
    for success in (True, False):
        assert judge(ran, code, success=success) == (-1.0, "unreadable code (line 1)")


def test_code_that_ran_although_it_is_not_python_here_is_not_scored(ran):
    seen = CodeSafetyTransform()(ran(code="print 1", success=True))
    assert (seen.reward, seen.metadata["rewards"]) == (None, {"code_safety": None})
    assert "the code ran" in seen.metadata["error"]["message"]


def test_nesting_that_python_can_still_parse_is_walked_without_recursion(ran):
    assert judge(ran, "(" * 190 + "eval" + ")" * 190)[0] == -1.0
    assert judge(ran, "+".join(["a"] * 300) + "+ eval")[0] == -1.0
    assert judge(ran, "lambda: " * 90 + "eval")[0] == -1.0


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("lambda:" * 90 + "(" + "open," * 21_000 + ")", id="names below lambdas"),
        pytest.param("[" + ",".join(["[open for x in y]"] * 6_000) + "]", id="comprehensions"),
        pytest.param("\n".join(f"def f{n}(open):\n return open" for n in range(4_500)), id="functions"),
        pytest.param("\n".join(f"a{n}=open" for n in range(11_000)), id="assignments"),
        pytest.param("import " + ".".join(["os"] * 50_000), id="a long name"),
        pytest.param("from os import (" + ",".join(["a"] * 50_000) + ")", id="imports"),
        pytest.param("getattr(a," * 90 + "'__mro__'" + ",'__mro__'" * 10_000 + ")" * 90, id="lookups"),
        pytest.param(
            "\n".join(" " * n + "def f():" for n in range(90)) + "\n" + " " * 90 + "open;" * 20_000, id="nested"
        ),
        pytest.param("class A:\n" + " open\n" * 18_000, id="a class"),
    ],
)
def test_no_code_takes_long(ran, code):
    assert len(code) > 90_000
    start = time.process_time()
    judge(ran, code)
    assert time.process_time() - start < 3


def test_warnings_of_the_parser_are_kept_quiet(ran):
    assert judge(ran, "print('\\d', 1 is 1)\nimport os") == (-1.0, "import os (line 2)")


@settings(deadline=None)
@given(st.text(alphabet="abo=():.,'\" \n\t[]{}penvl_import s\\#*"))
def test_any_text_is_judged(code):
    seen = CodeSafetyTransform()(ew.Observation(metadata={"last_code": code}))
    assert seen.reward in (0.0, -1.0)
