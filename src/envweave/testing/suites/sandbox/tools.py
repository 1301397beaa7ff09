"""Functions of the host that code in the sandbox calls."""

import asyncio
import threading
from typing import Any

import pytest

from envweave.sandbox import Limits
from envweave.testing.suites.base import PATIENCE
from envweave.testing.suites.sandbox.base import Make, SandboxTests, in_thread


class ToolTests(SandboxTests):
    """Calls that cross the boundary."""

    def test_a_tool_takes_arguments_and_gives_data_back(self, make: Make) -> None:
        def describe(*args: Any, **kwargs: Any) -> Any:
            return {"args": list(args), "kwargs": kwargs}

        with make(tools={"describe": describe}).start() as session:
            result = session.run("describe(1, 'zwölf', [None, 2.5], key={'a': True})")
        assert result.return_value == {"args": [1, "zwölf", [None, 2.5]], "kwargs": {"key": {"a": True}}}

    def test_a_tool_can_be_called_many_times(self, make: Make) -> None:
        with make(tools={"double": lambda n: 2 * n}).start() as session:
            assert session.run("sum(double(n) for n in range(200))").return_value == 39800

    def test_a_large_argument_and_a_large_result_cross(self, make: Make) -> None:
        with make(tools={"echo": lambda text: text}).start() as session:
            assert session.run("len(echo('x' * 500_000))").return_value == 500_000

    def test_an_async_tool_is_awaited(self, make: Make) -> None:
        async def double(n: int) -> int:
            await asyncio.sleep(0)
            return 2 * n

        with make(tools={"double": double}).start() as session:
            assert session.run("double(21)").return_value == 42

    def test_a_tool_that_takes_too_long_raises_timeout_error_inside(self, make: Make) -> None:
        release = threading.Event()
        with make(tools={"slow": lambda: release.wait(60)}, limits=Limits(tool_wall=0.3)).start() as session:
            result = session.run("try:\n    slow()\nexcept TimeoutError as error:\n    said = str(error)\nsaid")
            release.set()
        assert result.success
        assert "0.3" in result.return_value
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("tool_wall", 0.3)

    def test_a_late_answer_of_a_tool_is_dropped(self, make: Make) -> None:
        release = threading.Event()
        tools = {"slow": lambda: release.wait(60) and "late", "quick": lambda: "quick"}
        with make(tools=tools, limits=Limits(tool_wall=0.3)).start() as session:
            session.run("slow()")
            release.set()
            assert session.run("[quick() for _ in range(20)] == ['quick'] * 20").return_value is True

    def test_the_time_of_a_tool_is_not_the_time_of_the_code(self, make: Make) -> None:
        release = threading.Event()
        with make(tools={"slow": lambda: release.wait(60)}, limits=Limits(wall=1, grace=10)).start() as session:
            timer = threading.Timer(2.5, release.set)
            timer.start()
            result = session.run("slow()")
            timer.join()
        assert result.return_value is True
        assert result.limit is None
        assert result.duration > 1

    def test_tools_are_called_at_the_same_time_from_threads(self, make: Make) -> None:
        together = threading.Barrier(4)

        def meet(number: int) -> int:
            together.wait(60)
            return number * 10

        code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(meet, range(4)))
found
"""
        with make(tools={"meet": meet}).start() as session:
            assert session.run(code).return_value == [0, 10, 20, 30]

    def test_many_calls_from_many_threads_get_their_own_answers(self, make: Make) -> None:
        code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(echo, range(200)))
found == list(range(200))
"""
        with make(tools={"echo": lambda n: n}).start() as session:
            assert session.run(code).return_value is True

    def test_an_interrupt_while_a_tool_is_under_way_leaves_the_session_alive(self, make: Make) -> None:
        begun, release = threading.Event(), threading.Event()

        def slow() -> bool:
            begun.set()
            return release.wait(2 * PATIENCE)

        with make(tools={"slow": slow, "quick": lambda: 7}).start() as session:
            running = in_thread(lambda: session.run("x = 1\nslow()"))
            assert begun.wait(30)
            session.interrupt()
            result = running.result(PATIENCE)
            assert result.exception is not None
            assert result.exception.type == "KeyboardInterrupt"
            release.set()
            assert session.run("quick() + x").return_value == 8


class ToolResultTests(SandboxTests):
    """Results, exceptions and limits of tools."""

    def test_a_tool_can_be_called_from_a_function_of_an_earlier_run(self, make: Make) -> None:
        with make(tools={"double": lambda n: 2 * n}).start() as session:
            session.run("def f(n): return double(n) + 1")
            assert session.run("f(1)").return_value == 3

    def test_a_tool_that_returns_nothing_gives_none(self, make: Make) -> None:
        seen: list[int] = []
        with make(tools={"note": seen.append}).start() as session:
            assert session.run("note(5) is None").return_value is True
        assert seen == [5]

    def test_text_of_every_kind_crosses(self, make: Make) -> None:
        seen: list[str] = []

        def echo(text: str) -> str:
            seen.append(text)
            return text

        with make(tools={"echo": echo}).start() as session:
            assert session.run(r"t = '\0\n\x1b\u20ac🙂'; echo(t) == t").return_value is True
        assert seen == ["\0\n\x1b€🙂"]

    @pytest.mark.parametrize(
        "kind", [ValueError, KeyError, FileNotFoundError, TimeoutError, StopIteration, RuntimeError]
    )
    def test_an_exception_of_a_tool_arrives_as_the_same_builtin_exception(
        self, make: Make, kind: type[Exception]
    ) -> None:
        def fail() -> None:
            raise kind("reason")

        code = f"try:\n    fail()\nexcept {kind.__name__} as error:\n    caught = str(error)\ncaught"
        with make(tools={"fail": fail}).start() as session:
            assert session.run(code).return_value == str(kind("reason"))

    def test_an_exception_of_an_async_tool_arrives_too(self, make: Make) -> None:
        async def fail() -> None:
            raise ValueError("reason")

        with make(tools={"fail": fail}).start() as session:
            result = session.run("fail()")
        assert result.exception is not None
        assert (result.exception.type, result.exception.message) == ("ValueError", "reason")

    def test_an_exception_of_a_type_of_our_own_arrives_as_a_tool_error(self, make: Make) -> None:
        class OurError(Exception):
            pass

        def fail() -> None:
            raise OurError("reason")

        with make(tools={"fail": fail}).start() as session:
            result = session.run("fail()")
        assert result.exception is not None
        assert (result.exception.type, result.exception.message) == ("ToolError", "OurError: reason")

    @pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
    def test_a_tool_that_exits_ends_neither_side(self, make: Make, kind: type[BaseException]) -> None:
        def leave() -> None:
            raise kind("bye")

        with make(tools={"leave": leave}).start() as session:
            result = session.run("try:\n    leave()\nexcept Exception as error:\n    kind = type(error).__name__\nkind")
        assert result.return_value == "ToolError"

    def test_a_tool_called_with_wrong_arguments_raises_type_error(self, make: Make) -> None:
        with make(tools={"double": lambda n: 2 * n}).start() as session:
            result = session.run("double(1, 2)")
        assert result.exception is not None
        assert result.exception.type == "TypeError"

    def test_arguments_that_are_no_data_raise_type_error(self, make: Make) -> None:
        seen: list[Any] = []
        with make(tools={"note": seen.append}).start() as session:
            result = session.run("note(object())")
        assert result.exception is not None
        assert result.exception.type == "TypeError"
        assert seen == []

    def test_a_result_that_is_no_data_raises_type_error(self, make: Make) -> None:
        with make(tools={"bad": lambda: object()}).start() as session:
            result = session.run("bad()")
        assert result.exception is not None
        assert result.exception.type == "TypeError"
        assert "the result" in result.exception.message

    def test_a_result_becomes_data_where_it_can(self, make: Make) -> None:
        with make(tools={"pair": lambda: (1, (2, 3))}).start() as session:
            assert session.run("pair()").return_value == [1, [2, 3]]

    def test_more_calls_than_the_limit_are_refused(self, make: Make) -> None:
        seen: list[int] = []
        with make(tools={"note": seen.append}, limits=Limits(tool_calls=3)).start() as session:
            result = session.run("for n in range(10): note(n)")
        assert seen == [0, 1, 2]
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("tool_calls", 3)
        assert result.exception is not None
        assert result.exception.type == "RuntimeError"

    def test_the_limit_of_calls_holds_for_each_run(self, make: Make) -> None:
        with make(tools={"one": lambda: 1}, limits=Limits(tool_calls=3)).start() as session:
            for _ in range(3):
                assert session.run("one() + one() + one()").return_value == 3

    def test_no_calls_at_all_can_be_the_limit(self, make: Make) -> None:
        with make(tools={"one": lambda: 1}, limits=Limits(tool_calls=0)).start() as session:
            result = session.run("one()")
        assert result.limit is not None
        assert result.limit.name == "tool_calls"

    def test_help_tells_what_a_tool_does(self, make: Make) -> None:
        def search(query: str, most: int = 10) -> list[str]:
            """Find pages."""
            return []

        with make(tools={"search": search}).start() as session:
            said = session.run("help(search)").stdout
        assert "query: str, most: int = 10" in said
        assert "Find pages." in said

    def test_a_thread_that_still_waits_for_a_tool_when_the_run_ends_is_told(self, make: Make) -> None:
        begun, release = threading.Event(), threading.Event()

        def slow() -> None:
            begun.set()
            release.wait(60)

        code = """
import threading
said = []
def ask():
    try:
        slow()
    except RuntimeError as error:
        said.append(str(error))
thread = threading.Thread(target=ask)
thread.start()
begin()
"""
        with make(tools={"slow": slow, "begin": lambda: begun.wait(60)}).start() as session:
            assert session.run(code).return_value is True
            assert session.run("thread.join(30)\nsaid").return_value == ["the run has ended"]
            release.set()
