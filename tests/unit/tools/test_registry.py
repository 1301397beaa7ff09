import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from inspect import iscoroutinefunction, signature

import pytest

import envweave as ew
from envweave.errors import UsageError
from envweave.sandbox import Sandbox
from envweave.tools import Tool, ToolError, ToolRegistry


def search(query: str, limit: int = 10) -> list[str]:
    """Search for something."""
    return [query] * limit


async def fetch(url: str) -> str:
    """Fetch a page."""
    await asyncio.sleep(0)
    return f"<{url}>"


def fail(why="no luck"):
    raise KeyError(why)


@pytest.mark.parametrize(
    "given",
    [(search, fetch), ([search, fetch],), ({"search": search, "fetch": fetch},), ([Tool.of(search)], (fetch,))],
)
def test_tools_come_as_functions_lists_mappings_or_tools(given):
    registry = ToolRegistry(*given)
    assert [tool.name for tool in registry] == ["search", "fetch"]
    assert "search" in registry
    assert "other" not in registry
    assert len(registry) == 2
    assert registry["search"].description == "Search for something."
    assert [schema["name"] for schema in registry.schemas()] == ["search", "fetch"]


def test_a_registry_is_made_of_others():
    assert len(ToolRegistry(ToolRegistry(search), ToolRegistry(fetch))) == 2


def test_the_decorator_leaves_the_function_what_it_is():
    registry = ToolRegistry()

    @registry.tool
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    @registry.tool(name="half", description="Half of it.")
    def halve(x: float) -> float:
        return x / 2

    assert double(2) == 4
    assert [tool.name for tool in registry] == ["double", "half"]
    assert registry["half"].description == "Half of it."
    assert registry.call("half", {"x": 3}) == 1.5


def test_a_name_is_given_once():
    with pytest.raises(UsageError, match="there is a tool 'search' already"):
        ToolRegistry(search, {"search": fetch})


@pytest.mark.parametrize("name", ["not a name", "class", "", 3, "get-sum"])
def test_a_name_is_one_that_python_can_call(name):
    with pytest.raises(UsageError, match="the name of a tool is"):
        ToolRegistry({name: search} if name != "" else Tool(name="", function=search))


@pytest.mark.parametrize("thing", [3, "search", [None], {"search": 3}])
def test_what_is_no_tool_is_refused(thing):
    with pytest.raises(UsageError, match="is not a tool"):
        ToolRegistry(thing)


def test_a_lambda_needs_a_name():
    with pytest.raises(UsageError, match="the name of a tool is '<lambda>'"):
        ToolRegistry(lambda x: x)
    assert ToolRegistry({"same": lambda x: x}).call("same", {"x": 1}) == 1


def test_a_call_is_checked_against_the_schema():
    registry = ToolRegistry(search)
    assert registry.call("search", {"query": "a", "limit": 2}) == ["a", "a"]
    for arguments, problem in (
        ({}, "search: query: field required"),
        ({"query": 1}, "search: query: input should be a valid string, got 1"),
        ({"query": "a", "colour": "red"}, "search: colour: unexpected keyword argument"),
        (["a"], "search: the arguments are ['a'], not an object"),
    ):
        with pytest.raises(ToolError) as caught:
            registry.call("search", arguments)
        assert str(caught.value).startswith(problem)
        assert caught.value.kind == "invalid_arguments"


def test_an_unknown_tool_has_a_near_one():
    with pytest.raises(ToolError, match="no tool named 'serch'\nhint: did you mean 'search'") as caught:
        ToolRegistry(search).call("serch", {})
    assert caught.value.kind == "not_found"


def test_what_a_tool_raises_is_the_cause_of_an_error_with_its_name():
    with pytest.raises(ToolError, match="fail: KeyError: 'no luck'") as caught:
        ToolRegistry(fail).call("fail")
    assert caught.value.kind == "failed"
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_long_text_of_what_a_tool_raises_is_cut():
    def shout() -> None:
        raise ValueError("x" * 1_000_000)

    with pytest.raises(ToolError) as caught:
        ToolRegistry(shout).call("shout")
    assert len(caught.value.message) < 10_100
    assert caught.value.message.endswith("characters left out]")


def test_a_tool_that_wants_to_end_the_process_does_not():
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ToolError, match="leave: SystemExit: 3"):
        ToolRegistry(leave).call("leave")


def test_an_error_survives_pickle():
    error = pickle.loads(pickle.dumps(ToolError("x: no", "a hint", kind="timeout")))
    assert (error.message, error.hint, error.kind) == ("x: no", "a hint", "timeout")


def test_an_async_tool_is_waited_for():
    assert ToolRegistry(fetch).call("fetch", {"url": "u"}) == "<u>"


def test_on_a_loop_a_tool_is_awaited_and_one_that_blocks_runs_beside_it():
    async def play():
        def where() -> int:
            return threading.get_ident()

        return await Tool.of(fetch).wait({"url": "u"}), await Tool.of(where).wait({}) == threading.get_ident()

    assert asyncio.run(play()) == ("<u>", False)


def test_functions_have_signatures_and_docstrings_and_raise_what_the_tool_raises():
    functions = ToolRegistry(search, fetch, fail).functions()
    assert str(signature(functions["search"])) == "(query: str, limit: int = 10) -> list[str]"
    assert functions["search"].__doc__ == "Search for something."
    assert functions["search"].__name__ == "search"
    assert functions["search"]("a", limit="2") == ["a", "a"], "checked, and of the declared type"
    assert iscoroutinefunction(functions["fetch"])
    with pytest.raises(KeyError, match="no luck"):
        functions["fail"]()
    with pytest.raises(TypeError, match=r"search\(\) missing a required argument: 'query'"):
        functions["search"]()
    with pytest.raises(ToolError, match="search: limit: input should be a valid integer"):
        functions["search"]("a", "many")


def test_code_in_a_sandbox_calls_them_and_sees_errors_by_name():
    with Sandbox(tools=ToolRegistry(search, fetch, fail).functions()) as sandbox, sandbox.start() as session:
        assert session.run("search('a', 2) + [fetch('u')]").return_value == ["a", "a", "<u>"]
        assert "Search for something." in session.run("print(search.__doc__)").stdout
        wrong = session.run("search('a', limit='many')")
        assert wrong.exception.type == "ToolError"
        assert wrong.exception.message.startswith("search: limit: input should be a valid integer")
        assert session.run("fail('x')").exception.type == "KeyError"


def test_a_tool_made_by_hand_is_called_with_the_properties_of_its_schema():
    schema = {"type": "object", "properties": {"a-b": {"type": "integer"}}, "required": ["a-b"]}
    tool = Tool(name="odd", function=lambda **given: given, input_schema=schema, source="def odd(a_b): ...")
    assert ToolRegistry(tool).call("odd", {"a-b": 1}) == {"a-b": 1}
    assert tool.as_function()(a_b=1) == {"a-b": 1}
    with pytest.raises(ToolError, match="odd: a-b: is required"):
        ToolRegistry(tool).call("odd", {})


def test_a_tool_under_another_name_says_that_name_and_has_no_source_of_the_old_one():
    registry = ToolRegistry({"find": Tool.of(search, source="def search(): ...")})
    with pytest.raises(ToolError, match="find: query: field required"):
        registry.call("find", {})
    assert registry["find"].source == ""
    assert registry["find"].as_function().__name__ == "find"


def test_the_repr_shows_names_only():
    assert repr(ToolRegistry(search, fetch)) == "ToolRegistry(search, fetch)"


class Shelf(ew.Environment):
    """Owns a registry of its own methods."""

    def __init__(self):
        self.books = []
        self.tools = ToolRegistry(self.put, {"take": self.remove})

    def reset(self, *, seed=None):
        self.books = ["first"]
        return self.books

    def step(self, action):
        return list(self.books), 0.0, False, False, {}

    def put(self, book: str) -> int:
        """Put a book there."""
        self.books.append(book)
        return len(self.books)

    def remove(self) -> str:
        return self.books.pop()


@pytest.mark.parametrize("described", [False, True])
def test_a_registry_copied_with_its_owner_calls_the_copy(described):
    shelf = Shelf()
    if described:
        shelf.tools.schemas()
    twin = copy.deepcopy(shelf)
    assert twin.tools.call("put", {"book": "a"}) == 1
    assert twin.tools.functions()["put"]("b") == 2
    assert (shelf.books, twin.books) == ([], ["a", "b"])
    assert twin.tools["put"].function.__self__ is twin
    assert twin.tools.schemas() == shelf.tools.schemas()
    assert twin.tools.call("take") == "b"


def test_a_registry_or_a_tool_copied_alone_has_an_owner_of_its_own():
    shelf = Shelf()
    registry = copy.deepcopy(shelf.tools)
    assert registry.call("put", {"book": "a"}) == 1
    assert registry["put"].function.__self__.tools is registry
    tool = copy.deepcopy(shelf.tools["put"])
    assert tool.invoke({"book": "b"}) == 1
    assert tool.function.__self__.tools["put"] is tool
    assert shelf.books == []


def test_a_copy_of_the_registry_takes_tools_of_its_own():
    registry = ToolRegistry(search)
    copy.deepcopy(registry).add(fetch)
    assert "fetch" not in registry


def test_the_tools_of_a_fork_are_its_own():
    with ew.make(Shelf) as env:
        env.reset()
        with env.fork() as twin:
            assert twin.unwrapped.tools.call("put", {"book": "second"}) == 2
            assert twin.step(0).obs == ["first", "second"]
            assert env.step(0).obs == ["first"]


def test_the_schemas_of_plain_types_are_built_when_they_are_needed():
    code = """
import sys
from envweave.tools import ToolRegistry

class Owner:
    def search(self, query: str, limit: int | None = None) -> list[str]: return [query]

registry = ToolRegistry(Owner().search)
assert "pydantic" not in sys.modules
assert registry.call("search", {"query": "a"}) == ["a"]
assert "pydantic" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
