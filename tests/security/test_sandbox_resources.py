"""Code that wants all there is of something: time, memory, disk, output, stack, patience."""
# ruff: noqa: E501  (an attack is one line, however long)

import resource
import time

import pytest

from envweave.sandbox import ExecutionResult, Limits

MIB = 1 << 20


def test_an_endless_loop_ends_at_the_time_limit(session):
    result = session.run("while True: pass", timeout=0.3)
    assert (result.success, result.limit.name, result.limit.value) == (False, "wall", 0.3)


def test_processor_time_is_limited_over_all_processes(make):
    session = make(limits=Limits(cpu=0.4))
    result = session.run("[os.fork() for _ in range(2)]\nwhile True: pass", timeout=60)
    assert result.limit.name == "cpu"


def test_processor_time_of_children_that_have_ended_counts(make):
    session = make(limits=Limits(cpu=0.5))
    result = session.run(
        """
while True:
    if not os.fork():
        until = time.process_time() + 0.05
        while time.process_time() < until: pass
        os._exit(0)
    os.wait()
""",
        timeout=60,
    )
    assert result.limit.name == "cpu"


def test_sleeping_is_no_way_around_the_time_limit(session):
    assert session.run("time.sleep(600)", timeout=0.3).limit.name == "wall"


def test_memory_is_limited_and_the_session_survives_it(session):
    session.run("x = 5")
    result = session.run("y = bytearray(2 << 30)")
    assert (result.exception.type, result.limit.name, result.state) == ("MemoryError", "memory_bytes", "kept")
    assert session.run("x").return_value == 5


@pytest.mark.parametrize(
    "hoard",
    [
        "held = []\nwhile True: held.append(mmap.mmap(-1, 16 << 20)); held[-1].write(b'x' * (16 << 20))",
        "held = []\nwhile True:\n held.append(os.memfd_create('m'))\n os.write(held[-1], b'x' * (16 << 20))",
        "while True:\n if not os.fork():\n  held = bytearray(b'x') * (100 << 20)\n  time.sleep(600)\n time.sleep(0.05)",
        "libc.shmat.restype = ctypes.c_void_p\nwhile True:\n at = libc.shmat(call('shmget', 0, 16 << 20, 0o1600), None, 0)\n ctypes.memset(at, 1, 16 << 20)",
        "held = []\nwhile True:\n r, w = os.pipe(); held.append((r, w))\n call('fcntl', w, 1031, 1 << 20); os.set_blocking(w, False); os.write(w, b'x' * (1 << 20))",
        "held = []\nwhile True:\n a, b = socket.socketpair(); held.append((a, b)); a.setblocking(False)\n while attempt(a.send, b'x' * 100_000) == 'allowed': pass",
    ],
    ids=["shared mapping", "memfd", "children", "system v", "pipes", "sockets"],
)
def test_memory_in_any_disguise_is_limited_too(make, hoard):
    session = make(limits=Limits(memory_bytes=192 * MIB, file_bytes=None, disk_bytes=256 * MIB))
    result = session.run(hoard, timeout=20)
    assert not result.success
    assert result.limit.name in ("memory_bytes", "open_files", "processes")
    assert session.run("1").return_value == 1


CHILDREN = """
def large():
    found = []
    for pid in strangers():
        with open(f"/proc/{pid}/status") as lines:
            found += [pid for line in lines if line.startswith("RssAnon") and int(line.split()[1]) > 90_000]
    return found
for n in range(6):
    child = os.fork()
    if not child:
        held = bytearray(b"x") * (100 << 20)
        open(f"full-{n}", "w").close()
        time.sleep(600)
    while not os.path.exists(f"full-{n}") and not os.waitpid(child, os.WNOHANG)[0]:
        time.sleep(0.01)
len(large())
"""


def test_many_children_cannot_hold_more_than_the_memory_limit(make):
    result = make(limits=Limits(memory_bytes=192 * MIB)).run(CHILDREN, timeout=60)
    assert not result.success or result.return_value < 3


def test_memory_that_a_child_could_not_have_is_named(make):
    result = make(limits=Limits(memory_bytes=192 * MIB)).run(CHILDREN, timeout=60)
    assert result.limit.name == "memory_bytes"


def test_the_limit_of_memory_fired_earlier_is_not_blamed_for_a_later_death(make, arm):
    session = make(limits=Limits(memory_bytes=192 * MIB))
    session.run(
        "held = []\nwhile True: held.append(mmap.mmap(-1, 16 << 20)); held[-1].write(b'x' * (16 << 20))", timeout=20
    )
    result = arm(session).run("os._exit(3)")
    assert (result.exit_code, result.limit) == (3, None)


def test_memory_locked_or_made_huge_is_no_way_around_the_limit(session):
    result = session.run("libc.mlockall(3)\nheld = []\nwhile True: held.append(bytearray(16 << 20))", timeout=30)
    assert not result.success
    assert result.limit.name == "memory_bytes"


def test_disk_is_limited_over_all_writable_places(session, value):
    written = value(
        session,
        """
total = 0
for place in ("/home/agent/work", "/tmp", "/dev/shm", "/home/agent"):
    for n in range(100):
        try:
            with open(f"{place}/file-{n}", "wb", buffering=0) as file:
                for _ in range(16):
                    total += file.write(bytes(1 << 20))
        except OSError as error:
            break
total
""",
    )
    assert 32 * MIB <= written <= 64 * MIB


def test_a_full_disk_is_named(session):
    result = session.run("for n in range(10): open(f'{n}', 'wb').write(bytes(20 << 20))")
    assert result.limit.name == "disk_bytes"


def test_the_number_of_files_is_limited_and_named(make):
    session = make(limits=Limits(files=200))
    result = session.run("for n in range(1000): open(f'{n}', 'w').close()")
    assert result.limit.name == "files"


def test_a_single_file_is_limited_and_named(make):
    session = make(limits=Limits(file_bytes=MIB))
    result = session.run("open('large', 'wb').write(bytes(2 << 20))")
    assert result.limit.name == "file_bytes"
    assert session.list_files()["large"] <= MIB


def test_a_file_of_holes_is_limited_as_well(session):
    assert session.run("open('large', 'wb').truncate(1 << 40)").limit.name == "file_bytes"


def test_deep_folders_do_not_trouble_the_host(session):
    session.run("""
for _ in range(2000):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/home/agent/work")
""")
    assert isinstance(session.list_files(), dict)


def test_more_files_than_are_listed_do_not_trouble_the_host(make):
    session = make(limits=Limits(files=None))
    session.run("for n in range(12_000): os.mknod(f'{n}')", timeout=60)
    assert len(session.list_files()) <= 12_000


def test_open_files_are_limited_and_named(session):
    result = session.run("held = []\nwhile True: held.append(open('/dev/null'))")
    assert result.limit.name == "open_files"


@pytest.mark.parametrize("kind", ["RLIMIT_DATA", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"])
def test_limits_cannot_be_raised(session, value, kind):
    code = f"""
try:
    resource.setrlimit(resource.{kind}, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    outcome = "raised"
except (ValueError, OSError):
    outcome = "refused"
outcome, resource.getrlimit(resource.{kind})[1]
"""
    outcome, hard = value(session, code)
    assert outcome == "refused"
    assert hard != resource.RLIM_INFINITY


def test_limits_of_another_process_cannot_be_set(session, value):
    assert value(session, "call('prlimit64', 1, resource.RLIMIT_NOFILE, (ctypes.c_ulong * 2)(1, 1), None)") == "EPERM"


def test_an_output_flood_is_cut_and_named(session):
    result = session.run("for _ in range(100_000): print('x' * 100)", timeout=60)
    assert result.success
    assert result.limit.name == "output_bytes"
    assert len(result.stdout) < 70_000
    assert "cut" in result.stdout


def test_an_output_flood_of_a_program_ends_at_the_time_limit(session):
    result = session.run("subprocess.run(['/usr/bin/yes'], stdout=2)", timeout=0.5)
    assert result.limit.name == "wall"
    assert len(result.stderr) < 70_000


def test_output_written_between_runs_is_no_longer_than_output_within_one(session):
    session.run(
        "def flood():\n while True: os.write(1, b'x' * 4096)\nthreading.Thread(target=flood, daemon=True).start()"
    )
    assert len(session.run("time.sleep(0.1)").stdout) < 70_000


def test_recursion_without_end_is_an_exception(session):
    result = session.run("def f(): return f()\nf()")
    assert (result.exception.type, result.state) == ("RecursionError", "kept")
    assert len(result.exception.traceback) < 20_000


@pytest.mark.parametrize(
    "overflow",
    [
        "sys.setrecursionlimit(10**9)\nclass A:\n def __getattr__(self, name): return getattr(self, name + 'x')\nA().x",
        "sys.setrecursionlimit(10**9)\ndef f(): return max([1], key=lambda _: f())\nf()",
        "x = None\nfor _ in range(10**6): x = [x]\nrepr(x)",
        "import json\njson.loads('[' * 10**6)",
        "import pickle\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\npickle.dumps(x)",
        "eval('-' * 10**6 + '1')",
        "eval('(' * 10**5 + ')' * 10**5)",
        "import ast\nast.parse('a' + '.b' * 10**5)",
        "compile('x = ' + '+'.join(['1'] * 200_000), '', 'exec')",
    ],
)
def test_an_overflow_of_the_stack_is_a_result(session, overflow):
    assert isinstance(session.run(overflow, timeout=20), ExecutionResult)
    assert session.run("1 + 1", timeout=30).return_value == 2


@pytest.mark.parametrize(
    "source",
    [
        "(" * 200_000,
        "-" * 1_000_000 + "1",
        "a" + ".b" * 100_000,
        "x=1\n" * 200_000,
        "\0",
        "\ud800",
        "#" * (4 << 20),
        "if 1:\n" + " " * 10**6,
    ],
)
def test_source_of_any_kind_is_a_result(session, source):
    assert isinstance(session.run(source, timeout=20), ExecutionResult)
    assert session.run("1 + 1", timeout=30).return_value == 2


@pytest.mark.parametrize(
    "expression",
    [
        "'x' * (100 << 20)",
        "10 ** 1_000_000",
        "[0] * 10_000_000",
        "{n: str(n) for n in range(200_000)}",
        "b'x' * (50 << 20)",
        "set(range(500_000))",
        "bytearray(50 << 20)",
        "type('Long', (), {'__repr__': lambda self: 'x' * (50 << 20)})()",
        "type('x' * 1_000_000, (), {})()",
        "[['x' * 1000] * 1000] * 1000",
    ],
)
def test_a_gigantic_value_is_cut_to_its_limit(session, expression):
    result = session.run(expression, timeout=60)
    assert len(str(result.return_value)) < 200_000
    assert session.run("1 + 1").return_value == 2


@pytest.mark.parametrize(
    "trick",
    [
        "class A:\n def __repr__(self): raise SystemExit\nA()",
        "class A:\n def __repr__(self): return 5\nA()",
        "class A:\n def __repr__(self): raise BaseException(self)\nA()",
        "class S(str):\n def __len__(self): return -1\n def __getitem__(self, k): raise KeyError\nclass A:\n def __repr__(self): return S('x')\nA()",
        "class D(dict):\n def items(self): raise ValueError\nD(a=1)",
        "class L(list):\n __class__ = property(lambda self: int)\n def __iter__(self): raise ValueError\nL([1])",
        "class S(str):\n def __str__(self): return 'lie'\n def encode(self, *a): raise ValueError\nS('x')",
        "class I(int):\n def bit_length(self): return -5\n def __repr__(self): return 'lie'\nI(7)",
        "class K(str):\n def __hash__(self): raise ValueError\n def __eq__(self, o): raise ValueError\n{'a': 1, 'k': K('x')}",
        "x = []; x.append(x); x",
        "x = {}; x['x'] = x; x",
        "float('nan')",
        "[float('inf'), -float('inf')]",
        "lambda: 0",
        "(n for n in range(3))",
        "sys.modules",
        "globals()",
        "type('A', (type,), {'__instancecheck__': lambda *_: 1/0, '__repr__': lambda *_: 1/0})('B', (), {})",
        "class A:\n def __getattribute__(self, name): raise KeyError(name)\nA()",
        "object.__new__(type('A', (), {'__class__': property(lambda s: 1/0)}))",
        "threading.Lock()",
        "NotImplemented",
        "{1: 2, (3, 4): 5}",
        "{'a': b'bytes'}",
    ],
)
def test_a_value_that_is_no_data_is_told_as_text_or_fails_in_itself(session, trick):
    result = session.run(trick, timeout=30)
    assert isinstance(result, ExecutionResult)
    assert result.state == "kept"
    assert session.run("1 + 1").return_value == 2


def test_a_repr_without_end_ends_at_the_time_limit(session):
    assert session.run("class A:\n def __repr__(self):\n  while True: pass\nA()", timeout=0.3).limit.name == "wall"


@pytest.mark.parametrize(
    "error",
    [
        "class E(Exception):\n def __str__(self): raise ValueError\nraise E",
        "class E(Exception):\n def __str__(self): return 5\nraise E",
        "class E(Exception):\n def __str__(self): return 'x' * (50 << 20)\nraise E",
        "class E(Exception):\n def __str__(self): raise self\nraise E",
        "class M(type):\n __name__ = property(lambda self: 1/0)\nclass E(Exception, metaclass=M): pass\nraise E",
        "class M(type):\n __name__ = property(lambda self: object())\nclass E(Exception, metaclass=M): pass\nraise E",
        "E = type('x' * 1_000_000, (Exception,), {})\nraise E('y' * 1_000_000)",
        "class E(Exception):\n __cause__ = property(lambda self: self)\nraise E",
        "class E(Exception):\n __traceback__ = property(lambda self: 1/0)\nraise E",
        "class E(Exception):\n __notes__ = property(lambda self: 1/0)\nraise E",
        "e = Exception()\nfor _ in range(20_000):\n n = Exception(); n.__cause__ = e; e = n\nraise e",
        "e = None\nfor _ in range(5000):\n try:\n  raise Exception('x' * 1000) from e\n except Exception as f: e = f\nraise e",
        "a, b = Exception(1), Exception(2)\na.__cause__, b.__cause__ = b, a\nraise a",
        "raise ExceptionGroup('g', [ExceptionGroup('h', [ValueError('x' * 10_000)] * 1000)] * 1000)",
        "exec('\\n' * 10**6 + 'raise ValueError')",
        "raise OSError(10**30, 'x')",
        "raise UnicodeDecodeError('utf-8', b'\\xff' * 10**7, 0, 1, '\\ud800')",
        "raise SyntaxError('x', ('f\\0', 10**30, -5, '\\ud800' * 1000))",
        "raise KeyboardInterrupt",
        "raise BaseException",
        "raise GeneratorExit",
    ],
)
def test_an_exception_of_any_kind_is_a_bounded_result(session, error):
    result = session.run(error, timeout=30)
    assert not result.success
    told = result.exception.type + result.exception.message + result.exception.traceback
    assert len(told) < 100_000
    told.encode()
    assert session.run("1 + 1", timeout=30).return_value == 2


@pytest.mark.parametrize(
    "code",
    [
        r"os.write(1, bytes(range(256)))",
        r"os.write(1, b'\xf0\x9f\x98')",
        r"print('\ud800\udfff')",
        r"print('\x1b[2J\x1b]0;owned\x07\x1b[31m')",
        r"'\ud800' * 10",
        r"{'\ud800': ['\udfff', '\x00']}",
        r"raise ValueError('\ud800\x1b[31m')",
        r"raise type('\ud800', (Exception,), {})('x')",
        r"globals()['\ud800'] = 1; globals()['a b'] = 2; globals()[5] = 3",
        r"open('\udcff\x1b[31m\n', 'w').close(); open(b'\xff\xfe', 'w').close()",
    ],
)
def test_text_of_any_kind_comes_out_as_text_that_can_be_encoded(session, code):
    result = session.run(code)
    everything = [
        result.stdout,
        result.stderr,
        str(result.return_value),
        str(result.exception),
        *session.variables(),
        *session.list_files(),
    ]
    for text in everything:
        text.encode()


def test_names_of_files_that_are_no_text_are_listed_and_read(session):
    session.run(r"open(b'\xff\xfe', 'w').write('x'); open('ok', 'w').write('y')")
    assert session.read_file("ok") == b"y"
    assert len(session.list_files()) == 2


def test_hash_collisions_are_the_codes_own_time(session):
    result = session.run(
        "class K:\n def __hash__(self): return 1\n def __eq__(self, o): return False\n{K(): n for n in range(100_000)}",
        timeout=0.5,
    )
    assert result.limit.name == "wall"


def test_a_large_file_is_read_no_further_than_allowed(make):
    session = make(limits=Limits(disk_bytes=8 * MIB))
    session.run("open('holes', 'wb').truncate(32 << 20)")
    with pytest.raises(Exception, match="bytes"):
        session.read_file("holes")


def test_a_host_that_is_flooded_keeps_its_memory(session):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    session.run("while True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)", timeout=1.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_time_is_told_by_the_hosts_clock(session):
    began = time.monotonic()
    result = session.run("time.monotonic = time.time = lambda: 0.0\ntime.sleep(0.2)")
    assert 0.15 < result.duration <= time.monotonic() - began
