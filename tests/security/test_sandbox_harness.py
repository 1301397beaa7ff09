"""Code that turns on the interpreter it runs in, and on the functions it was given."""
# ruff: noqa: E501  (an attack is one line, however long)

import threading
import time

import pytest

from envweave.errors import EnvWeaveError
from envweave.sandbox import ExecutionResult, Limits

SABOTAGE = [
    "import builtins\nfor name in list(vars(builtins)): delattr(builtins, name)",
    "import builtins\nbuiltins.__dict__.clear()",
    "import builtins\nbuiltins.isinstance = builtins.len = builtins.getattr = lambda *_: 1 / 0",
    "import builtins\nbuiltins.compile = builtins.eval = builtins.exec = lambda *_, **__: 'owned'",
    "import builtins\nbuiltins.BaseException = builtins.Exception = builtins.KeyboardInterrupt = int",
    "import builtins\nbuiltins.__import__ = lambda *_: 1 / 0",
    "import builtins\nbuiltins.open = builtins.print = builtins.str = None",
    'import json\njson.dumps = lambda *_, **__: \'{"op": "result"}\'',
    "import json\njson.dumps = lambda *_, **__: 1 / 0",
    "import json, json.decoder, json.encoder\njson.loads = json.decoder = json.encoder = None",
    "json.encoder.c_make_encoder = None\njson.JSONEncoder.default = lambda s, o: os._exit(5)",
    "import socket\nsocket.socket.sendall = socket.socket.recvmsg = lambda *_: 1 / 0",
    "import socket\nsocket.socket.sendall = lambda *_: None",
    "struct.Struct = struct.pack = struct.unpack = None",
    "os.getpid = lambda: 1",
    "os.getpid = lambda: 0\nos._exit = lambda code: None",
    "os.write = os.read = os.close = os.fork = os.kill = None",
    "sys.modules.clear()",
    "for name in list(sys.modules): sys.modules[name] = None",
    "sys.modules['__main__'] = None\nsys.modules['builtins'] = None",
    "sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear()",
    "class Finder:\n @staticmethod\n def find_spec(*_): raise SystemExit\nsys.meta_path.insert(0, Finder)",
    "sys.settrace(lambda *_: 1 / 0)\nthreading.settrace(lambda *_: 1 / 0)",
    "def trace(frame, event, arg):\n frame.f_locals.clear(); return trace\nsys.settrace(trace)\nhere = sys._getframe()\nwhile here: here.f_trace = trace; here = here.f_back",
    "sys.setprofile(lambda *_: 1 / 0)",
    "sys.addaudithook(lambda *_: 1 / 0)",
    "sys.addaudithook(lambda name, _: os._exit(4) if name.startswith('compile') else None)",
    "sys.excepthook = sys.unraisablehook = sys.displayhook = lambda *_: os._exit(6)",
    "sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None",
    "sys.stdout = type('Out', (), {'flush': lambda self: 1 / 0, 'write': lambda *_: 1 / 0})()",
    "class Out:\n def flush(self):\n  raise KeyboardInterrupt\nsys.stdout = sys.__stdout__ = Out()",
    "sys.exit = quit = exit = None\nsys.setrecursionlimit(60)",
    "sys.set_int_max_str_digits(640)\nsys.setswitchinterval(100)",
    "for number in signal.valid_signals() - {9, 19}: signal.signal(number, signal.SIG_IGN)",
    "for number in signal.valid_signals() - {9, 19}: signal.signal(number, lambda *_: 1 / 0)",
    "signal.signal = None\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001); signal.pthread_sigmask(signal.SIG_BLOCK, {14})",
    "import atexit\natexit.register(lambda: os.write(100, b'x'))\natexit._run_exitfuncs()",
    "gc.disable(); gc.freeze(); gc.callbacks.append(lambda *_: 1 / 0)",
    "gc.set_threshold(1)\nclass Bad:\n def __del__(self): globals()['bad'] = Bad(); 1 / 0\nbad = Bad(); del bad",
    "for each in gc.get_objects():\n if type(each) is dict and '_step' in each: each.clear()",
    "for each in gc.get_objects():\n if type(each).__name__ in ('Worker', 'Mail', 'Namespace', 'Channel', 'Interrupts'): each.__dict__.clear()",
    "type(worker()).serve = type(worker())._run = None\ntype(worker()).__dict__",
    "worker().namespace.run = lambda code: 'owned'",
    "worker().mail._step = 'owned'",
    "worker()._pid = -1",
    "worker().interrupts._arrived = None\nworker().interrupts._open = False",
    "worker().channel.sock = None",
    "worker().value_bytes = 1 << 40",
    "os.register_at_fork(before=lambda: 1 / 0, after_in_parent=lambda: 1 / 0, after_in_child=lambda: 1 / 0)",
    "import linecache, traceback\nlinecache.cache = None\ntraceback.TracebackException = None\n1 / 0",
    "import ast, inspect, types\nast.Expression = ast.Expr = inspect.CO_COROUTINE = types.ModuleType = None",
    "import asyncio\nasyncio.new_event_loop = asyncio.set_event_loop = lambda *_: 1 / 0\nasync def f(): pass\nawait f()",
    "import asyncio\nasyncio.get_running_loop().close()\nawait asyncio.sleep(0)",
    "import reprlib\nreprlib.Repr.repr = lambda *_: 5\nobject()",
    "import threading\nthreading.Lock = threading.Condition = threading.current_thread = lambda: 1 / 0",
    "os.chdir('/proc'); os.environ.clear(); os.umask(0o777)",
    "globals().clear()",
    "__builtins__ = None",
    "ctypes.memset(id(worker()), 0, 16)",
    "ctypes.pythonapi.Py_Finalize()",
    "ctypes.pythonapi.PyGILState_Release(1)",
    "import faulthandler\nfaulthandler.dump_traceback_later(0.01, exit=True); time.sleep(0.05)",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))",
    "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (0, 0))\nx = bytearray(1 << 20)",
    "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
]


@pytest.mark.parametrize("sabotage", SABOTAGE)
def test_sabotage_of_the_interpreter_stays_within_its_session(session, other, sabotage):
    """It may spoil what comes later in this session, never the host or another session."""
    assert isinstance(session.run(sabotage, timeout=3), ExecutionResult)
    assert isinstance(session.run("1 + 1", timeout=1), ExecutionResult)
    for ask in (session.variables, lambda: session.get("x"), lambda: session.set("x", 1), session.list_files):
        try:
            ask()
        except EnvWeaveError:
            pass
    session.write_file("still", b"served")
    assert session.read_file("still") == b"served"
    assert other.run("1 + 1").return_value == 2


@pytest.mark.parametrize(
    "sabotage",
    ["os.kill(os.getpid(), 9)", "import builtins\nbuiltins.__dict__.clear()", "worker().channel.sock = None"],
)
def test_after_a_kill_the_interpreter_is_a_fresh_one(session, sabotage):
    session.run(sabotage, timeout=2)
    session.run("import ctypes; ctypes.string_at(0)", timeout=2)
    while session.run("import os; os._exit(1)", timeout=2).state != "restarted":
        pass
    assert session.run("len([1, 2]) + 1").return_value == 3


@pytest.mark.parametrize("name", ["envweave", "pytest", "_pytest", "__main__.pytest"])
def test_no_module_of_the_host_is_found(session, value, name):
    assert value(session, f"{name!r} in sys.modules") is False
    assert (
        value(
            session,
            f"[each for each in gc.get_objects() if type(each).__name__ == 'module' and each.__name__ == {name!r}]",
        )
        == []
    )


def test_frames_lead_to_the_worker_and_no_further(session, value):
    files = value(
        session,
        """
here, found = sys._getframe(), []
while here:
    found.append(here.f_code.co_filename)
    here = here.f_back
found
""",
    )
    assert all(each.startswith(("<envweave ", "<step ", "<string>")) for each in files)


@pytest.fixture
def tooled(make, canary):
    """With functions of the host that know a secret."""
    events = []
    secret = f"of the tool: {canary}"

    class Refusal(Exception):
        def __init__(self):
            super().__init__("refused")
            self.secret = secret

    def greet(name):
        local_secret = secret  # noqa: F841
        events.append(name)
        return f"hello {name}"

    def fail(kind):
        local_secret = secret  # noqa: F841
        raise {
            "value": ValueError("as told"),
            "own": Refusal(),
            "exit": SystemExit(3),
            "interrupt": KeyboardInterrupt(),
            "key": KeyError("k"),
        }[kind]

    release = threading.Event()
    session = make(
        tools={
            "greet": greet,
            "fail": fail,
            "slow": lambda: release.wait(30) and "late",
            "odd": lambda: object(),
            "size": lambda text: len(text),
        },
        limits=Limits(tool_calls=20, grace=10),
    )
    session.set("backwards", secret[::-1])
    yield session, events, release
    release.set()


def test_a_secret_of_a_tool_is_not_in_the_memory_of_the_code(tooled, value):
    session, _, _ = tooled
    assert value(session, "greet('x'); holds(backwards)") == 0


def test_a_tool_has_nothing_to_follow_to_the_host(tooled, value):
    session, _, _ = tooled
    assert value(session, "sorted(type(cell.cell_contents).__name__ for cell in greet.__closure__)") == ["Mail", "str"]
    assert value(session, "greet.__globals__.get('__name__')").startswith("envweave.sandbox.guest")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("value", "ValueError"),
        ("own", "ToolError"),
        ("exit", "ToolError"),
        ("interrupt", "ToolError"),
        ("key", "KeyError"),
    ],
)
def test_a_tool_that_raises_tells_no_more_than_type_and_message(tooled, canary, kind, told):
    session, _, _ = tooled
    result = session.run(f"fail({kind!r})")
    assert result.exception.type == told
    assert canary not in str(result)
    assert "local_secret" not in str(result)
    assert __file__ not in str(result)


def test_what_a_tool_raised_has_no_frame_of_the_host(tooled, value):
    session, _, _ = tooled
    assert (
        value(
            session,
            """
try:
    fail("value")
except ValueError as caught:
    error, here, found = caught, caught.__traceback__, []
    while here:
        found.append(here.tb_frame.f_code.co_filename)
        here = here.tb_next
all(each.startswith(("<step", "<envweave")) for each in found) and error.__cause__ is None and vars(error) == {}
""",
        )
        is True
    )


@pytest.mark.parametrize(
    "name", ["__class__", "__init__", "greet.__globals__", "os.system", "eval", "", "greet\0", "tools"]
)
def test_only_tools_that_were_given_can_be_called(tooled, name):
    session, events, _ = tooled
    session.set("name", name)
    result = session.run("worker().mail.call(name, ('x',), {})")
    assert result.exception.type == "NameError"
    assert events == []


def test_a_tool_cannot_be_called_when_no_code_is_run(tooled):
    session, events, _ = tooled
    session.run("""
def later():
    while True:
        try:
            greet("late")
        except BaseException:
            pass
        os.write(100, frame({"op": "call", "id": old, "call": 99, "name": "greet", "args": ["forged"], "kwargs": {}}))
old = worker().mail._step
thread = threading.Thread(target=later, daemon=True)
""")
    session.run("None")
    session.run("thread.start()")
    time.sleep(0.1)
    seen = len(events)
    time.sleep(0.2)
    assert len(events) == seen


def test_a_call_in_the_name_of_an_older_run_is_not_made(tooled):
    session, events, _ = tooled
    session.run("old = worker().mail._step")
    session.run(
        "os.write(100, frame({'op': 'call', 'id': old, 'call': 1, 'name': 'greet', 'args': ['forged'], 'kwargs': {}})); time.sleep(0.1)"
    )
    assert events == []


def test_calls_of_tools_are_as_many_as_the_limit_says(tooled):
    session, events, _ = tooled
    result = session.run("for n in range(100):\n try: greet(n)\n except RuntimeError: pass")
    assert len(events) == 20
    assert result.limit.name == "tool_calls"


def test_calls_from_many_threads_are_as_many_as_the_limit_says(tooled):
    session, events, _ = tooled
    session.run(
        """
def call_it(n):
    try:
        greet(n)
    except RuntimeError:
        pass
threads = [threading.Thread(target=call_it, args=(n,)) for n in range(40)]
for each in threads: each.start()
for each in threads: each.join()
""",
        timeout=30,
    )
    assert len(events) == 20


def test_an_answer_that_comes_after_its_run_does_not_reach_the_next(tooled):
    session, _, release = tooled
    asked = threading.Timer(0.3, session.interrupt)
    asked.start()
    result = session.run("slow()", timeout=20)
    asked.join()
    assert not result.success
    release.set()
    assert session.run("greet('next')", timeout=20).return_value == "hello next"


def test_a_value_of_a_tool_that_is_no_data_is_refused(tooled):
    session, _, _ = tooled
    assert session.run("odd()").exception.type == "TypeError"


@pytest.mark.parametrize(
    "argument",
    [
        "object()",
        "lambda: 0",
        "float('nan')",
        "b'x'",
        "{1: 2}",
        "type('S', (str,), {})('x')",
        "(x := [], x.append(x))[0]",
    ],
)
def test_arguments_arrive_as_data_or_not_at_all(tooled, argument):
    session, events, _ = tooled
    assert isinstance(session.run(f"greet({argument})"), ExecutionResult)
    assert all(type(each) in (str, int, float, list, dict, bool, type(None)) for each in events)


def test_gigantic_arguments_are_refused_or_kill_and_never_reach_the_host(tooled):
    session, _, _ = tooled
    result = session.run("size('x' * (64 << 20))", timeout=30)
    assert not result.success
    assert session.run("1 + 1", timeout=30).return_value == 2


def test_a_flood_of_slow_calls_holds_up_nobody_for_ever(make):
    gate = threading.Event()
    session = make(tools={"slow": lambda: gate.wait(60)}, limits=Limits(tool_wall=0.3, tool_calls=50))
    result = session.run(
        """
question = {"op": "call", "id": worker().mail._step, "name": "slow", "args": [], "kwargs": {}}
for n in range(40): os.write(100, frame({**question, "call": n}))
while True: pass
""",
        timeout=1,
    )
    gate.set()
    assert not result.success
    assert session.run("1 + 1").return_value == 2


def test_waiting_for_a_tool_in_one_thread_gives_another_no_endless_time(make):
    gate = threading.Event()
    session = make(tools={"slow": lambda: gate.wait(0.2)}, limits=Limits(tool_calls=20))
    result = session.run(
        """
def call_on():
    while True:
        slow()
threading.Thread(target=call_on, daemon=True).start()
while True: pass
""",
        timeout=0.5,
    )
    assert not result.success
    assert result.limit is not None
