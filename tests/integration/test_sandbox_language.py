"""A session is CPython: whatever a program may say in a module, it may say here."""

import importlib.util
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from envweave.errors import IsolationError
from envweave.sandbox import ExecutionResult, Sandbox, Session
from support.need import need


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(isolation="namespace") as made:
        try:
            made.report()
        except IsolationError as error:
            need("namespace", str(error))
        yield made


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Session]:
    with sandbox.start() as started:
        yield started


def run(session: Session, code: str) -> ExecutionResult:
    return session.run(textwrap.dedent(code))


def value(session: Session, code: str) -> Any:
    """What the last expression gives; the code must not fail."""
    result = run(session, code)
    assert result.exception is None, result.exception.traceback
    return result.return_value


def failure(session: Session, code: str) -> tuple[str, str]:
    """Type and message of what the code raises."""
    result = run(session, code)
    assert result.exception is not None
    return result.exception.type, result.exception.message


def traceback(session: Session, code: str) -> str:
    result = run(session, code)
    assert result.exception is not None
    return result.exception.traceback


# Classes.


def test_classes_with_inheritance_and_super(session: Session) -> None:
    code = """
    class Base:
        def __init__(self, n): self.n = n
        def double(self): return self.n * 2
    class Derived(Base):
        def __init__(self, n): super().__init__(n + 1)
        def double(self): return super().double() + 1
    Derived(4).double()
    """
    assert value(session, code) == 11


def test_a_class_of_an_earlier_run_can_be_derived_from(session: Session) -> None:
    run(session, "class Base:\n    def who(self): return type(self).__name__")
    assert value(session, "class Later(Base): pass\nLater().who()") == "Later"


def test_properties_and_descriptors(session: Session) -> None:
    code = """
    class Celsius:
        def __init__(self): self._t = 0
        @property
        def t(self): return self._t
        @t.setter
        def t(self, value): self._t = value * 10
        @staticmethod
        def s(): return 's'
        @classmethod
        def c(cls): return cls.__name__
    x = Celsius()
    x.t = 5
    [x.t, x.s(), x.c()]
    """
    assert value(session, code) == [50, "s", "Celsius"]


def test_metaclasses(session: Session) -> None:
    code = """
    class Meta(type):
        def __new__(mcls, name, bases, names, **kw):
            return super().__new__(mcls, name, bases, {**names, 'added': kw})
        def __getitem__(cls, key): return key * 2
    class Thing(metaclass=Meta, option=1): pass
    [Thing.added, Thing[21]]
    """
    assert value(session, code) == [{"option": 1}, 42]


def test_slots_and_init_subclass(session: Session) -> None:
    code = """
    seen = []
    class Base:
        __slots__ = ('a',)
        def __init_subclass__(cls, **kw): seen.append(cls.__name__)
    class Child(Base): __slots__ = ()
    x = Child()
    x.a = 1
    try: x.b = 2
    except AttributeError: seen.append('no b')
    seen
    """
    assert value(session, code) == ["Child", "no b"]


def test_abstract_classes_and_protocols(session: Session) -> None:
    code = """
    from abc import ABC, abstractmethod
    from typing import Protocol, runtime_checkable
    class A(ABC):
        @abstractmethod
        def f(self): ...
    @runtime_checkable
    class P(Protocol):
        def f(self): ...
    class B(A):
        def f(self): return 1
    try: A()
    except TypeError: refused = True
    [refused, isinstance(B(), P)]
    """
    assert value(session, code) == [True, True]


def test_dataclasses(session: Session) -> None:
    code = """
    from dataclasses import dataclass, field, replace, asdict
    @dataclass(order=True, frozen=True)
    class Point:
        x: int
        y: int = 2
        tags: list = field(default_factory=list, compare=False)
    asdict(replace(Point(1), y=5)), Point(1) < Point(2), repr(Point(3))
    """
    assert value(session, code) == [{"x": 1, "y": 5, "tags": []}, True, "Point(x=3, y=2, tags=[])"]


def test_dataclasses_with_annotations_as_text(session: Session) -> None:
    code = """
    from __future__ import annotations
    from dataclasses import dataclass
    @dataclass
    class Node:
        value: int
        next: Node | None = None
    Node(1, Node(2)).next.value
    """
    assert value(session, code) == 2


def test_annotations_can_be_resolved(session: Session) -> None:
    code = """
    import typing
    class Box:
        item: 'Box | None'
    def f(a: 'Box') -> int: ...
    typing.get_type_hints(f)['a'] is Box and 'item' in typing.get_type_hints(Box)
    """
    assert value(session, code) is True


def test_a_variable_can_be_annotated_at_the_top(session: Session) -> None:
    assert value(session, "x: int = 5\n__annotations__['x'].__name__") == "int"


def test_enums_and_named_tuples(session: Session) -> None:
    code = """
    from enum import Enum, auto
    from typing import NamedTuple
    class Colour(Enum):
        RED = auto()
        BLUE = auto()
    class Pair(NamedTuple):
        a: int
        b: int = 7
    [Colour['BLUE'].value, Colour.RED.name, Pair(1).b]
    """
    assert value(session, code) == [2, "RED", 7]


# Functions.


def test_generators_send_and_yield_from(session: Session) -> None:
    code = """
    def inner():
        got = yield 1
        return got * 2
    def outer():
        result = yield from inner()
        yield result
    g = outer()
    [next(g), g.send(21)]
    """
    assert value(session, code) == [1, 42]


def test_a_generator_goes_on_in_a_later_run(session: Session) -> None:
    run(session, "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\ng = count()\nnext(g)")
    assert value(session, "next(g), next(g)") == [1, 2]


def test_decorators_of_the_standard_library(session: Session) -> None:
    code = """
    from functools import lru_cache, wraps
    @lru_cache(maxsize=None)
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
    def twice(f):
        @wraps(f)
        def inner(*a, **k): return 2 * f(*a, **k)
        return inner
    @twice
    def one(): "says one"; return 1
    [fib(90), fib.cache_info().hits > 0, one(), one.__name__]
    """
    assert value(session, code) == [2880067194370816120, True, 2, "one"]


def test_closures_with_nonlocal(session: Session) -> None:
    code = """
    def counter():
        n = 0
        def up():
            nonlocal n
            n += 1
            return n
        return up
    up = counter()
    up(), up()
    """
    assert value(session, code) == [1, 2]
    assert value(session, "up()") == 3


def test_global_changes_variables_of_the_session(session: Session) -> None:
    run(session, "total = 0\ndef add(n):\n    global total\n    total += n")
    run(session, "add(5)")
    assert value(session, "add(6)\ntotal") == 11


def test_arguments_of_every_kind(session: Session) -> None:
    code = "def f(a, /, b, *rest, c, d=4, **more): return [a, b, list(rest), c, d, more]\nf(1, 2, 3, c=5, e=6)"
    assert value(session, code) == [1, 2, [3], 5, 4, {"e": 6}]


def test_recursion_sees_the_function_itself(session: Session) -> None:
    assert value(session, "def f(n): return 1 if n == 0 else n * f(n - 1)\nf(20)") == 2432902008176640000


# Statements and expressions.


def test_match_with_patterns_and_guards(session: Session) -> None:
    code = """
    def f(x):
        match x:
            case {'kind': 'a', **rest}: return ['map', rest]
            case [first, *others] if first: return ['list', first, others]
            case str() | bytes(): return 'text'
            case int(n): return n + 1
            case _: return None
    [f({'kind': 'a', 'n': 1}), f([1, 2, 3]), f('x'), f(4), f(None)]
    """
    assert value(session, code) == [["map", {"n": 1}], ["list", 1, [2, 3]], "text", 5, None]


def test_context_managers_of_both_kinds(session: Session) -> None:
    code = """
    from contextlib import contextmanager, ExitStack, suppress
    seen = []
    @contextmanager
    def note(name):
        seen.append(f'in {name}')
        try: yield name
        finally: seen.append(f'out {name}')
    with note('a') as a, ExitStack() as stack:
        stack.enter_context(note('b'))
        with suppress(ZeroDivisionError): 1 / 0
    seen
    """
    assert value(session, code) == ["in a", "in b", "out b", "out a"]


def test_comprehensions_see_variables_of_the_session(session: Session) -> None:
    run(session, "factor = 3")
    code = (
        "[[x * factor for x in range(3)], {x: factor for x in 'ab'}, sum(x * factor for x in range(4)), len({*'aab'})]"
    )
    assert value(session, code) == [[0, 3, 6], {"a": 3, "b": 3}, 18, 2]


def test_a_walrus_at_the_top_defines_a_variable(session: Session) -> None:
    assert value(session, "[y := 5, y ** 2]") == [5, 25]
    assert value(session, "any((hit := n) > 3 for n in range(10)) and hit") == 4
    assert session.variables() == {"y": "int", "hit": "int"}


def test_star_unpacking(session: Session) -> None:
    assert value(session, "a, *b, c = range(5)\n[a, *b, c], {**{'x': 1}, 'y': 2}, (*'ab', 'c')") == [
        [0, 1, 2, 3, 4],
        {"x": 1, "y": 2},
        ["a", "b", "c"],
    ]


def test_except_star_splits_groups(session: Session) -> None:
    code = """
    seen = []
    try:
        raise ExceptionGroup('many', [ValueError(1), TypeError(2), ExceptionGroup('in', [ValueError(3)])])
    except* ValueError as group:
        seen.append(len(group.exceptions))
    except* TypeError as group:
        seen.append(str(group.exceptions[0]))
    seen
    """
    assert value(session, code) == [2, "2"]


def test_try_else_finally_and_loops_with_else(session: Session) -> None:
    code = """
    seen = []
    for n in range(2):
        try: 1 / n
        except ZeroDivisionError: seen.append('zero')
        else: seen.append('fine')
        finally: seen.append('done')
    else:
        seen.append('all')
    seen
    """
    assert value(session, code) == ["zero", "done", "fine", "done", "all"]


def test_del_removes_a_variable(session: Session) -> None:
    run(session, "x = 1")
    run(session, "del x")
    assert failure(session, "x") == ("NameError", "name 'x' is not defined")


def test_f_strings_and_formats(session: Session) -> None:
    assert value(session, "n = 3.14159\nf'{n:.2f} {n=:.1f} {\"q\"!r:>5}'") == "3.14 n=3.1   'q'"


# The last expression.


def test_a_last_expression_may_have_many_lines(session: Session) -> None:
    assert value(session, "x = 1\n{\n    'a': [\n        x,\n        2,\n    ],\n}\n") == {"a": [1, 2]}


def test_a_last_expression_may_be_a_call_over_many_lines(session: Session) -> None:
    assert value(session, "sum(\n    n\n    for n in range(5)\n)") == 10


@pytest.mark.parametrize("code", ["5  # five", "5;", "5 ;  # five", "5\n\n# the end\n", "x = 4; x + 1", "(5\n)"])
def test_comments_and_semicolons_after_the_last_expression(session: Session, code: str) -> None:
    assert value(session, code) == 5


def test_only_a_last_expression_counts(session: Session) -> None:
    assert value(session, "5\nx = 6") is None


def test_an_expression_inside_a_block_does_not_count(session: Session) -> None:
    assert value(session, "if True:\n    5") is None


def test_a_text_alone_is_a_value(session: Session) -> None:
    assert value(session, "'just text'") == "just text"


def test_the_underscore_is_the_last_value(session: Session) -> None:
    value(session, "40 + 1")
    assert value(session, "_ + 1") == 42


def test_none_does_not_replace_the_last_value(session: Session) -> None:
    value(session, "41")
    run(session, "print('x')")
    assert value(session, "_") == 41


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("float('nan')", "nan"),
        ("[1, float('nan')]", "[1, nan]"),
        ("b'\\xff'", "b'\\xff'"),
        ("{1}", "{1}"),
        ("frozenset()", "frozenset()"),
        ("__import__('decimal').Decimal('1.10')", "Decimal('1.10')"),
        ("__import__('fractions').Fraction(1, 3)", "Fraction(1, 3)"),
        ("3 + 4j", "(3+4j)"),
        ("__import__('pathlib').PurePosixPath('a/b')", "PurePosixPath('a/b')"),
        ("{(1, 2): 3}", "{(1, 2): 3}"),
    ],
)
def test_a_value_without_a_json_form_is_told_by_its_repr(session: Session, code: str, expected: str) -> None:
    result = run(session, code)
    assert (result.return_value, result.return_is_data) == (expected, False)


def test_a_large_whole_number_keeps_all_its_digits(session: Session) -> None:
    assert value(session, "2 ** 2000") == 2**2000


def test_a_whole_number_that_python_will_not_write_harms_nothing(session: Session) -> None:
    result = run(session, "10 ** 50_000")
    assert result.success
    assert not result.return_is_data


# await.


def test_await_at_the_top(session: Session) -> None:
    code = "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n * 2\nx = await f(4)\nawait f(x)"
    assert value(session, code) == 16


def test_async_for_and_async_with_at_the_top(session: Session) -> None:
    code = """
    from contextlib import asynccontextmanager
    seen = []
    @asynccontextmanager
    async def note():
        seen.append('in')
        yield 'x'
        seen.append('out')
    async def numbers():
        for n in range(3): yield n
    async with note() as name:
        async for n in numbers():
            seen.append(n)
    seen
    """
    assert value(session, code) == ["in", 0, 1, 2, "out"]


def test_an_async_comprehension_at_the_top(session: Session) -> None:
    code = "async def numbers():\n    for n in range(3): yield n\n[n async for n in numbers()]"
    assert value(session, code) == [0, 1, 2]


def test_tasks_run_side_by_side(session: Session) -> None:
    code = """
    import asyncio
    met = asyncio.Event()
    async def one(): await met.wait(); return 1
    async def two(): met.set(); return 2
    await asyncio.gather(one(), two())
    """
    assert value(session, code) == [1, 2]


def test_a_task_can_be_made_before_the_first_await(session: Session) -> None:
    code = "import asyncio\nasync def f(): return 5\ntask = asyncio.create_task(f())\nawait task"
    assert value(session, code) == 5


def test_a_task_group_at_the_top(session: Session) -> None:
    code = """
    import asyncio
    async def f(n): return n
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(f(n)) for n in range(3)]
    [task.result() for task in tasks]
    """
    assert value(session, code) == [0, 1, 2]


def test_a_task_goes_on_with_the_next_await(session: Session) -> None:
    run(session, "import asyncio\nq = asyncio.Queue()\nasync def f():\n    while True: await q.put(1)")
    run(session, "async def echo(): return await q.get()\nawait asyncio.sleep(0)\ntask = asyncio.create_task(echo())")
    run(session, "await q.put('later')")
    assert value(session, "await task") == "later"


def test_asyncio_run_works_within_a_run(session: Session) -> None:
    code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nasyncio.run(f())"
    assert value(session, code) == 5
    assert value(session, "await f()") == 5
    assert value(session, "asyncio.run(f())") == 5


def test_an_exception_in_a_coroutine_has_its_lines(session: Session) -> None:
    said = traceback(session, "async def f():\n    raise ValueError('deep')\n\nawait f()")
    assert "line 4, in <module>" in said
    assert "line 2, in f" in said
    assert "asyncio" not in said


# Modules.


def test_modules_of_the_standard_library(session: Session) -> None:
    names = (
        "argparse ast asyncio base64 bisect calendar collections concurrent.futures configparser contextlib copy csv"
    )
    names += (
        " ctypes datetime decimal difflib email enum fractions functools gzip hashlib heapq html.parser http.client"
    )
    names += " inspect io itertools json logging lzma math multiprocessing operator os pathlib pickle platform pprint"
    names += " queue random re secrets shutil signal socket sqlite3 ssl statistics string struct subprocess tarfile"
    names += " tempfile textwrap threading time timeit traceback types typing unicodedata unittest urllib.parse uuid"
    names += " weakref xml.etree.ElementTree zipfile zlib zoneinfo"
    code = f"""
    import importlib
    missing = []
    for name in {names.split()!r}:
        try: importlib.import_module(name)
        except ImportError as error: missing.append([name, str(error)])
    missing
    """
    assert value(session, code) == []


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="there is no numpy here")
def test_numpy_can_be_imported(session: Session) -> None:
    assert value(session, "import numpy as np\nint(np.arange(10).sum()), np.linalg.det(np.eye(3)).item()") == [45, 1.0]


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="there is no numpy here")
def test_numpy_can_be_preloaded(sandbox: Sandbox) -> None:
    with Sandbox(isolation="namespace", preload=["numpy"]) as other, other.start() as one, other.start() as two:
        assert value(one, "import sys; 'numpy' in sys.modules") is True
        code = "import numpy as np\nfloat((np.ones((50, 50)) @ np.ones((50, 50))).sum())"
        assert value(one, code) == 125000.0
        dice = "import numpy as np\nfloat(np.random.random())"
        assert value(one, dice) != value(two, dice)


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="there is no numpy here")
def test_an_array_is_told_by_its_repr(session: Session) -> None:
    result = run(session, "import numpy as np\nnp.arange(3)")
    assert (result.return_value, result.return_is_data) == ("array([0, 1, 2])", False)


def test_an_installed_package_can_be_imported(session: Session) -> None:
    code = """
    from pydantic import BaseModel, ValidationError
    class Item(BaseModel):
        name: str
        price: float = 1.5
    try: Item(name=[])
    except ValidationError as error: wrong = error.error_count()
    Item(name='x').model_dump(), wrong
    """
    assert value(session, code) == [{"name": "x", "price": 1.5}, 1]


def test_a_module_that_the_code_wrote_can_be_imported(session: Session) -> None:
    run(session, "open('helper.py', 'w').write('def f(): return __name__')")
    assert value(session, "import helper\nhelper.f()") == "helper"


def test_a_package_that_the_code_wrote_can_be_imported_and_reloaded(session: Session) -> None:
    session.write_file("pack/__init__.py", "from .inner import X")
    session.write_file("pack/inner.py", "X = 1")
    assert value(session, "import pack\npack.X") == 1
    session.write_file("pack/inner.py", "X = 22")
    assert value(session, "import importlib\nimportlib.reload(pack.inner).X") == 22


def test_a_traceback_goes_through_a_module_that_the_code_wrote(session: Session) -> None:
    session.write_file("helper.py", "def f():\n    raise ValueError('inside')\n")
    said = traceback(session, "import helper\nhelper.f()")
    assert "helper.py" in said
    assert "raise ValueError('inside')" in said


def test_a_module_that_is_not_there_is_an_import_error(session: Session) -> None:
    kind, message = failure(session, "import no_such_module_here")
    assert (kind, message) == ("ModuleNotFoundError", "No module named 'no_such_module_here'")


def test_the_code_is_the_main_module(session: Session) -> None:
    code = (
        "seen = []\nif __name__ == '__main__':\n    seen.append('main')\nimport __main__\n[seen, __main__.seen is seen]"
    )
    assert value(session, code) == [["main"], True]


def test_classes_of_the_session_can_be_pickled(session: Session) -> None:
    code = """
    import pickle
    class Point:
        def __init__(self, x): self.x = x
    def f(): return 7
    back = pickle.loads(pickle.dumps(Point(5)))
    [back.x, type(back) is Point, pickle.loads(pickle.dumps(f))()]
    """
    assert value(session, code) == [5, True, 7]


def test_an_object_can_be_copied_deeply(session: Session) -> None:
    code = (
        "import copy\nclass A: pass\na = A(); a.me = a; a.n = [1]\nb = copy.deepcopy(a)\nb.me is b and b.n is not a.n"
    )
    assert value(session, code) is True


# Processes, threads and files.


def test_a_pool_of_processes(session: Session) -> None:
    code = """
    import multiprocessing
    def square(n): return n * n
    with multiprocessing.Pool(3) as pool:
        found = pool.map(square, range(10))
    found
    """
    assert value(session, code) == [n * n for n in range(10)]


def test_a_process_pool_executor(session: Session) -> None:
    code = """
    from concurrent.futures import ProcessPoolExecutor
    class Job:
        def __init__(self, n): self.n = n
    def work(job): return Job(job.n + 1)
    with ProcessPoolExecutor(2) as pool:
        found = [job.n for job in pool.map(work, [Job(1), Job(2)])]
    found
    """
    assert value(session, code) == [2, 3]


def test_a_process_with_a_queue(session: Session) -> None:
    code = """
    import multiprocessing
    def work(queue): queue.put('from the child')
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=work, args=(queue,))
    child.start()
    said = queue.get(timeout=30)
    child.join()
    said, child.exitcode
    """
    assert value(session, code) == ["from the child", 0]


def test_a_fork_of_the_code_answers_only_once(session: Session) -> None:
    code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'"
    assert value(session, code) == "parent"
    assert value(session, "1 + 1") == 2


def test_threads_locks_and_queues(session: Session) -> None:
    code = """
    import threading, queue
    todo, done, lock, total = queue.Queue(), queue.Queue(), threading.Lock(), 0
    def work():
        global total
        while (n := todo.get()) is not None:
            with lock: total += n
        done.put(threading.current_thread().name)
    threads = [threading.Thread(target=work, name=f't{n}') for n in range(4)]
    for t in threads: t.start()
    for n in range(100): todo.put(n)
    for t in threads: todo.put(None)
    for t in threads: t.join()
    total, sorted(done.queue)
    """
    assert value(session, code) == [4950, ["t0", "t1", "t2", "t3"]]


def test_a_program_can_be_run(session: Session) -> None:
    code = "import subprocess\nsubprocess.run(['echo', 'said'], capture_output=True, text=True, check=True).stdout"
    assert value(session, code) == "said\n"


def test_a_shell_with_a_pipe_can_be_run(session: Session) -> None:
    code = "import subprocess\nsubprocess.check_output('echo one two | wc -w', shell=True, text=True).strip()"
    assert value(session, code) == "2"


def test_python_can_be_run_by_the_code(session: Session) -> None:
    code = "import subprocess, sys\nsubprocess.check_output([sys.executable, '-c', 'print(6 * 7)'], text=True)"
    assert value(session, code) == "42\n"


def test_a_database_in_a_file(session: Session) -> None:
    run(session, "import sqlite3\ndb = sqlite3.connect('a.db')\ndb.execute('create table t (n integer, s text)')")
    run(session, "with db: db.executemany('insert into t values (?, ?)', [(1, 'a'), (2, 'b')])")
    assert value(session, "db.execute('select * from t order by n').fetchall()") == [[1, "a"], [2, "b"]]
    assert session.read_file("a.db").startswith(b"SQLite format 3")


def test_temporary_files_and_folders(session: Session) -> None:
    code = """
    import tempfile, os, pathlib
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, 'a').write_text('x')
        inside = os.listdir(folder)
    with tempfile.NamedTemporaryFile('w+') as file:
        file.write('text'); file.flush()
        text = open(file.name).read()
    inside, text, os.path.exists(folder)
    """
    assert value(session, code) == [["a"], "text", False]


def test_the_plain_temporary_folder_can_be_used(session: Session) -> None:
    assert value(session, "open('/tmp/x', 'w').write('abc')\nopen('/tmp/x').read()") == "abc"


def test_home_and_the_current_user_are_known(session: Session) -> None:
    code = "import os, pathlib, getpass\nstr(pathlib.Path.home()) == os.getcwd() and bool(getpass.getuser())"
    assert value(session, code) is True


def test_archives_and_csv(session: Session) -> None:
    code = """
    import csv, io, zipfile
    with zipfile.ZipFile('a.zip', 'w') as archive: archive.writestr('t.csv', 'a,b\\n1,2\\n')
    with zipfile.ZipFile('a.zip') as archive: rows = list(csv.DictReader(io.TextIOWrapper(archive.open('t.csv'))))
    rows
    """
    assert value(session, code) == [{"a": "1", "b": "2"}]


def test_signals_and_alarms_of_the_code(session: Session) -> None:
    code = """
    import signal, time
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while not rung: time.sleep(0.01)
    len(rung)
    """
    assert value(session, code) == 1


# Input, output, warnings.


def test_input_finds_the_end_at_once(session: Session) -> None:
    result = run(session, "input('name? ')")
    assert result.exception is not None
    assert result.exception.type == "EOFError"
    assert result.stdout == "name? "


def test_stdin_is_empty(session: Session) -> None:
    assert value(session, "import sys\nsys.stdin.read()") == ""


def test_text_of_every_kind_is_printed(session: Session) -> None:
    assert run(session, "print('zwölf €🙂', 'é', '中', sep='|')").stdout == "zwölf €🙂|é|中\n"


def test_a_lone_surrogate_is_printed_escaped(session: Session) -> None:
    assert run(session, r"print('\ud800')").stdout == "\\ud800\n"


def test_print_with_flush_and_end(session: Session) -> None:
    code = "import sys\nfor n in range(3): print(n, end=' ', flush=True)\nn = sys.stdout.write('end')"
    assert run(session, code).stdout == "0 1 2 end"


def test_stdout_can_be_redirected(session: Session) -> None:
    code = (
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out: print('caught')\nout.getvalue()"
    )
    result = run(session, code)
    assert (result.return_value, result.stdout) == ("caught\n", "")


def test_a_stdout_that_the_code_has_closed_harms_no_later_run(session: Session) -> None:
    run(session, "import sys, io\nsys.stdout = io.StringIO()\nsys.stdout.close()")
    assert value(session, "1 + 1") == 2


def test_much_output_is_cut_in_the_middle(session: Session) -> None:
    result = run(session, "for n in range(100_000): print(n)")
    assert result.stdout.startswith("0\n1\n")
    assert result.stdout.endswith("99999\n")
    assert "bytes cut" in result.stdout


def test_a_warning_goes_to_stderr_with_its_line(session: Session) -> None:
    result = run(session, "import warnings\nwarnings.warn('take care')")
    assert "UserWarning: take care" in result.stderr
    assert result.success


def test_a_syntax_warning_goes_to_stderr(session: Session) -> None:
    assert "SyntaxWarning" in run(session, "x = 5\nx is 5").stderr


def test_logging_goes_to_stderr(session: Session) -> None:
    assert "WARNING:root:beware" in run(session, "import logging\nlogging.warning('beware')").stderr


def test_help_prints(session: Session) -> None:
    result = run(session, "def f(n):\n    'Doubles n.'\nhelp(f)")
    assert "Doubles n." in result.stdout


def test_help_on_a_builtin_prints(session: Session) -> None:
    assert "Return the number of items" in run(session, "help(len)").stdout


# What goes wrong.


def test_a_traceback_goes_through_functions_of_earlier_runs(session: Session) -> None:
    run(session, "# a comment\ndef helper(n):\n    return 10 / n")
    said = traceback(session, "x = 1\nhelper(0)")
    assert 'File "<step 2>", line 2, in <module>' in said
    assert 'File "<step 1>", line 3, in helper' in said
    assert "    return 10 / n\n" in said
    assert "    helper(0)\n" in said


def test_a_syntax_error_shows_the_line_and_the_place(session: Session) -> None:
    result = run(session, "x = 1\ny = (2 +\n")
    assert result.exception is not None
    assert (result.exception.type, result.exit_code) == ("SyntaxError", 1)
    assert "line 2" in result.exception.traceback
    assert "y = (2 +" in result.exception.traceback
    assert "^" in result.exception.traceback


def test_code_with_a_syntax_error_does_not_run_at_all(session: Session) -> None:
    run(session, "x = 1\nif")
    assert session.variables() == {}


def test_an_indentation_error_is_named(session: Session) -> None:
    assert failure(session, "if True:\nx = 1")[0] == "IndentationError"


def test_return_and_yield_at_the_top_are_syntax_errors(session: Session) -> None:
    assert failure(session, "return 5")[0] == "SyntaxError"
    assert failure(session, "yield 5")[0] == "SyntaxError"


def test_a_null_byte_in_the_code_is_an_error_of_the_code(session: Session) -> None:
    assert failure(session, "x = 1\0")[0] in ("SyntaxError", "ValueError")


def test_code_that_cannot_be_encoded_is_an_error_of_the_code(session: Session) -> None:
    assert failure(session, "x = '\ud800'")[0] in ("SyntaxError", "UnicodeEncodeError")
    assert value(session, "1") == 1


def test_code_that_is_nested_too_deep_is_an_error_of_the_code(session: Session) -> None:
    assert not run(session, "(" * 5000 + ")" * 5000).success
    assert not run(session, "-" * 100_000 + "1").success
    assert value(session, "1") == 1


def test_endless_recursion_is_an_error_of_the_code(session: Session) -> None:
    result = run(session, "def f(): return f()\nf()")
    assert result.exception is not None
    assert result.exception.type == "RecursionError"
    assert "repeated" in result.exception.traceback
    assert value(session, "1") == 1


def test_exceptions_that_are_chained_are_both_shown(session: Session) -> None:
    said = traceback(
        session, "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('b') from error"
    )
    assert "ZeroDivisionError: division by zero" in said
    assert "direct cause" in said
    assert said.rstrip().endswith("ValueError: b")


def test_an_exception_during_another_shows_both(session: Session) -> None:
    said = traceback(session, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined")
    assert "During handling of the above exception" in said
    assert "envweave" not in said


def test_an_exception_group_shows_its_parts(session: Session) -> None:
    said = traceback(session, "raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])")
    assert "ValueError: a" in said
    assert "TypeError: b" in said


def test_exceptions_of_the_codes_own_classes_are_named(session: Session) -> None:
    code = "class OddError(ValueError):\n    def __str__(self): return f'odd: {self.args[0]}'\nraise OddError(3)"
    assert failure(session, code) == ("OddError", "odd: 3")


def test_notes_of_an_exception_are_shown(session: Session) -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.add_note('mind the gap')\n    raise"
    assert "mind the gap" in traceback(session, code)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("exit(3)", 3), ("quit()", 0), ("raise SystemExit('why')", 1), ("import sys\nsys.exit(256)", 0)],
)
def test_exits_end_the_run_and_not_the_session(session: Session, code: str, exit_code: int) -> None:
    run(session, "x = 1")
    result = run(session, code)
    assert (result.exit_code, result.success) == (exit_code, exit_code == 0)
    assert value(session, "x") == 1


def test_the_words_of_an_exit_are_told(session: Session) -> None:
    assert failure(session, "import sys\nsys.exit('gave up')") == ("SystemExit", "gave up")


def test_an_assertion_has_its_message(session: Session) -> None:
    assert failure(session, "assert 1 == 2, 'not equal'") == ("AssertionError", "not equal")


def test_a_keyboard_interrupt_of_the_codes_own_is_a_result(session: Session) -> None:
    assert failure(session, "raise KeyboardInterrupt")[0] == "KeyboardInterrupt"
    assert value(session, "1") == 1


# Looking at itself.


def test_the_source_of_a_function_can_be_had(session: Session) -> None:
    run(session, "x = 1\n\ndef f(n):\n    # a comment\n    return n * 2\n\ny = 2")
    code = "import inspect\ninspect.getsource(f)"
    assert value(session, code) == "def f(n):\n    # a comment\n    return n * 2\n"


def test_the_caller_can_be_inspected(session: Session) -> None:
    code = "import inspect\ndef f(): return inspect.stack()[1].function\ndef g(): return f()\ng()"
    assert value(session, code) == "g"


def test_variables_can_be_looked_at_from_inside(session: Session) -> None:
    assert value(session, "x = 1\n[globals()['x'], vars()['x'], 'x' in dir(), locals() is globals()]") == [
        1,
        1,
        True,
        True,
    ]


def test_exec_eval_and_compile(session: Session) -> None:
    assert value(session, "exec('y = 6')\neval(compile('y * 7', 'a', 'eval'))") == 42


def test_doctests_of_the_session_can_be_run(session: Session) -> None:
    code = """
    import doctest
    def double(n):
        '''
        >>> double(2)
        4
        '''
        return n * 2
    doctest.testmod().attempted
    """
    assert value(session, code) == 1


def test_unit_tests_of_the_session_can_be_run(session: Session) -> None:
    code = """
    import unittest
    class T(unittest.TestCase):
        def test_a(self): self.assertEqual(1, 1)
        def test_b(self): self.assertEqual(1, 2)
    found = unittest.main(exit=False, argv=['x']).result
    found.testsRun, len(found.failures)
    """
    assert value(session, code) == [2, 1]


def test_calls_can_be_traced(session: Session) -> None:
    code = """
    import sys
    seen = []
    def f(): pass
    sys.settrace(lambda frame, *_: seen.append(frame.f_code.co_name))
    f()
    sys.settrace(None)
    'f' in seen
    """
    assert value(session, code) is True
