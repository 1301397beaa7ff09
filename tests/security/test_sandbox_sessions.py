"""One session against another, forks against those they come from, and code against the time between runs."""
# ruff: noqa: E501  (an attack is one line, however long)

import os
import threading
import time
from fnmatch import fnmatch

import pytest

from envweave.errors import EnvWeaveError, SandboxError
from envweave.sandbox import ExecutionResult, Limits, Sandbox
from support.need import need

THREAD = """
def tick():
    n = 0
    while True:
        n += 1
        with open("count", "a") as file:
            file.write("x")
        time.sleep(0.001)
threading.Thread(target=tick, daemon=True).start()
while not os.path.exists("count"):
    time.sleep(0.001)
"""
CHILD = """
if not os.fork():
    os.setsid()
    while True:
        with open("count", "a") as file:
            file.write("x")
        time.sleep(0.001)
while not os.path.exists("count"):
    time.sleep(0.001)
"""
HOPPER = """
for _ in range(3):
    if not os.fork():
        while True:
            with open("count", "a") as file:
                file.write("x")
            if os.fork():
                os._exit(0)
while not os.path.exists("count"):
    time.sleep(0.001)
"""
WAKER = """
def beat():
    while True:
        with open("count", "a") as file:
            file.write("x")
        for pid in strangers():
            os.kill(pid, signal.SIGCONT)
for _ in range(3):
    if not os.fork():
        beat()
while not os.path.exists("count"):
    time.sleep(0.001)
"""


def stands_still(session):
    before = session.read_file("count")
    session.list_files()
    session.write_file("else", b"")
    time.sleep(0.2)
    return session.read_file("count") == before


@pytest.mark.parametrize("left", [THREAD, CHILD, HOPPER, WAKER], ids=["thread", "daemon", "hopper", "waker"])
def test_what_a_run_leaves_behind_stands_still_until_the_next(session, left):
    assert session.run(left).success
    assert stands_still(session)


def test_processes_that_hop_from_one_to_the_next_are_caught_each_time(sandbox, arm):
    """Each lives for a moment and leaves a child: a look at who is there finds one that is gone when it is stopped."""
    for _ in range(30):
        with sandbox.start() as session:
            arm(session).run(HOPPER)
            before = session.read_file("count")
            time.sleep(0.03)
            assert session.read_file("count") == before


def test_processes_that_hop_do_not_outlive_a_restart(sandbox, arm):
    for _ in range(15):
        with sandbox.start() as session:
            assert arm(session).run(HOPPER + "\nos._exit(1)").state == "restarted"
            assert arm(session).run("time.sleep(0.01); strangers()").return_value == []


@pytest.mark.parametrize("left", [THREAD, CHILD], ids=["thread", "daemon"])
def test_a_run_too_short_to_notice_leaves_nothing_running_either(session, left):
    session.run(left)
    for _ in range(5):
        session.run("1")
    assert stands_still(session)


def test_a_thread_started_in_a_very_short_run_stands_still_after_it(session):
    session.run("""
def tick():
    while True:
        os.write(count, b"x")
count = os.open("count", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
thread = threading.Thread(target=tick, daemon=True)
""")
    session.run("thread.start()")
    assert stands_still(session)


def test_what_a_run_leaves_behind_goes_on_with_the_next(session):
    """It is stopped, not lost."""
    session.run(THREAD)
    before = len(session.read_file("count"))
    session.run(f"while os.path.getsize('count') < {before + 3}: time.sleep(0.001)")
    assert len(session.read_file("count")) > before


def test_asking_for_a_variable_leaves_nothing_running(session):
    session.run(THREAD + "\nx = 1")
    assert session.get("x") == 1
    session.variables()
    assert stands_still(session)


def test_forking_leaves_nothing_of_the_original_running(session):
    session.run(CHILD)
    with pytest.raises(EnvWeaveError):
        session.fork()
    assert stands_still(session)


def test_a_session_does_not_see_files_of_another(session, other, value):
    session.run("for name in ('/home/agent/work', '/tmp', '/dev/shm'): open(name + '/left', 'w').write('x')")
    assert (
        value(other, "[os.path.exists(name + '/left') for name in ('/home/agent/work', '/tmp', '/dev/shm')]")
        == [False] * 3
    )


def test_a_session_does_not_see_processes_of_another(session, other, value):
    session.run("child = subprocess.Popen(['/bin/sleep', '600'])")
    assert value(other, "strangers()") == []


def test_a_session_cannot_signal_another(session, other, value):
    session.run("x = 5")
    other.run("""
for pid in range(2, 5000):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
""")
    assert value(session, "x") == 5


def test_sessions_do_not_meet_on_an_abstract_socket(session, other, value):
    session.run("server = socket.socket(socket.AF_UNIX); server.bind('\\0envweave-meeting'); server.listen()")
    assert value(other, "attempt(socket.socket(socket.AF_UNIX).connect, '\\0envweave-meeting')") == "ECONNREFUSED"


def test_sessions_do_not_meet_in_system_v_shared_memory(session, other, value):
    assert value(session, "call('shmget', 4711, 4096, 0o1666)") >= 0
    assert value(other, "call('shmget', 4711, 4096, 0o666)") == "ENOENT"


def test_sessions_do_not_meet_in_system_v_queues(session, other, value):
    assert value(session, "call('msgget', 4711, 0o1666)") >= 0
    assert value(other, "call('msgget', 4711, 0o666)") == "ENOENT"


def test_a_session_cannot_change_what_another_imports(session, other, value):
    session.run("import json; json.dumps = None; open('random.py', 'w').write('raise SystemExit')")
    assert value(other, "import json, random; json.dumps([1])") == "[1]"


def test_a_session_that_dies_takes_no_other_with_it(session, other, value):
    other.run("x = 1")
    session.run("os.kill(os.getpid(), signal.SIGKILL)")
    assert value(other, "x") == 1


@pytest.fixture
def family(session):
    """A session, and two forks of it."""
    session.run("secret = 'nobody'")
    with session.fork() as first, session.fork() as second:
        yield {"original": session, "fork": first, "sibling": second}


PAIRS = [("fork", "original"), ("fork", "sibling"), ("original", "fork")]
UPWARDS = [pair for pair in PAIRS if pair != ("original", "fork")]
"""A session may end the forks that were made of it: see "Not covered" in envweave/sandbox/process.py."""


@pytest.mark.parametrize(("one", "another"), PAIRS)
def test_a_fork_and_its_family_do_not_read_each_others_memory(family, value, one, another):
    found = value(family[one], "[attempt(open, f'/proc/{pid}/mem', 'rb') for pid in strangers()]")
    assert len(found) == 2
    assert "allowed" not in found


@pytest.mark.parametrize(("one", "another"), PAIRS)
def test_a_fork_and_its_family_do_not_reach_each_others_files(family, value, one, another):
    family[another].run("open('private', 'w').write('x')")
    ways = value(
        family[one],
        "[attempt(os.stat, f'/proc/{pid}/{way}/home/agent/work/private') for pid in strangers() for way in ('root', 'cwd/../../..')]",
    )
    assert "allowed" not in ways


@pytest.mark.parametrize(("one", "another"), PAIRS)
def test_a_fork_and_its_family_do_not_write_each_others_files(family, one, another):
    family[one].run("[attempt(open, f'/proc/{pid}/root/home/agent/work/planted', 'w') for pid in strangers()]")
    assert "planted" not in family[another].list_files()


@pytest.mark.parametrize(("one", "another"), UPWARDS)
def test_a_fork_does_not_signal_its_family(family, value, one, another):
    family[another].run("x = 5")
    family[one].run("for pid in strangers(): attempt(os.kill, pid, signal.SIGKILL)")
    assert value(family[another], "x") == 5


def test_a_fork_of_a_fork_of_a_fork_and_so_on_cannot_signal_those_before_it(session, value):
    chain = [session]
    try:
        for _ in range(14):
            chain.append(chain[-1].fork())
        found = value(chain[-1], "[attempt(os.kill, pid, 0) for pid in strangers()]")
    finally:
        for each in chain[1:]:
            each.close()
    assert len(found) > 3
    assert "allowed" not in found


def test_a_fork_and_its_family_do_not_meet_on_an_abstract_socket(family, value):
    family["original"].run(
        "server = socket.socket(socket.AF_UNIX); server.bind('\\0envweave-meeting'); server.listen()"
    )
    assert (
        value(family["fork"], "attempt(socket.socket(socket.AF_UNIX).connect, '\\0envweave-meeting')") == "ECONNREFUSED"
    )


def test_a_fork_and_its_family_do_not_meet_in_system_v_shared_memory(family, value):
    assert value(family["fork"], "call('shmget', 4711, 4096, 0o1666)") >= 0
    assert value(family["original"], "call('shmget', 4711, 4096, 0o666)") == "ENOENT"


def test_the_end_of_a_fork_is_not_the_end_of_its_family(family, value):
    family["fork"].run("os.kill(os.getpid(), signal.SIGKILL)")
    family["fork"].close()
    assert value(family["original"], "secret") == value(family["sibling"], "secret") == "nobody"


def test_the_end_of_the_original_is_not_the_end_of_its_forks(family, value):
    family["original"].run("os.abort()")
    family["original"].close()
    assert value(family["sibling"], "secret") == "nobody"


def test_a_process_of_the_original_in_namespaces_of_its_own_ends_with_it(session, marker, marked, eventually):
    with session.fork():
        session.run(f"""
def go_away():
    assert call('unshare', 0x20000 | 0x40000000 | 0x8000000) == 0
subprocess.Popen(['{marker}', '600'], executable='/bin/sleep', preexec_fn=go_away)
""")
        assert eventually(lambda: marked(marker))
        session.close()
        assert eventually(lambda: not marked(marker))


def test_code_cannot_spoil_the_snapshot_it_comes_back_to(session, value):
    session.run("x = 5; open('kept', 'w').write('as it was')")
    with session.snapshot() as snapshot:
        session.run("""
x = 6
for pid in strangers():
    attempt(open, f"/proc/{pid}/root/home/agent/work/kept", "w")
    attempt(os.kill, pid, signal.SIGKILL)
""")
        try:
            session.restore(snapshot)
        except SandboxError:  # it could be ended, and that was noticed
            assert value(session, "x") == 6
        else:
            assert value(session, "x, open('kept').read()") == [5, "as it was"]


def test_code_cannot_spoil_the_state_it_is_rolled_back_to(make, value):
    session = make(after_kill="rollback")
    session.run("x = 5; open('kept', 'w').write('as it was')")
    result = session.run("""
x = 6
for pid in strangers():
    attempt(open, f"/proc/{pid}/root/home/agent/work/kept", "w")
    attempt(os.kill, pid, signal.SIGKILL)
os._exit(1)
""")
    if result.state == "restarted":  # it could be ended, and that was noticed
        assert value(session, "'x' in globals()") is False
    else:
        assert result.state == "rolled_back"
        assert value(session, "x, open('kept').read()") == [5, "as it was"]


LIE = """
here = worker()
send = type(here.channel).send
def lie(self, message, blob=b""):
    if message.get("op") == "hello":
        message = {**message, "pid": %s}
    send(self, message, blob)
type(here.channel).send = lie
"""


@pytest.mark.parametrize("pid", ["1", "'x'", "None", "[1]", "-1", "10**40", "os.getppid()", "{}"])
def test_a_fork_that_lies_about_its_process_harms_nobody(session, value, pid):
    session.run("x = 5")
    session.run(LIE % pid)
    try:
        session.fork().close()
    except EnvWeaveError:
        pass
    assert value(session, "x") == 5


def test_a_fork_that_never_answers_does_not_hold_up_the_host(make):
    session = make(limits=Limits(wall=1.0))
    session.run("os.register_at_fork(after_in_child=lambda: time.sleep(600))")
    began = time.monotonic()
    with pytest.raises(EnvWeaveError):
        session.fork()
    assert time.monotonic() - began < 30
    assert isinstance(session.run("1"), ExecutionResult)


def test_a_session_that_chatters_instead_of_forking_does_not_hold_up_the_host(make):
    session = make(limits=Limits(wall=1.0))
    session.run("""
def chatter():
    while True:
        os.write(100, frame({"op": "noise"}))
        time.sleep(0.1)
os.register_at_fork(before=chatter)
""")
    outcome = []

    def fork():
        try:
            outcome.append(session.fork())
        except EnvWeaveError as error:
            outcome.append(error)

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(30)
    assert outcome


def test_a_fork_that_fails_leaves_nothing_running(make):
    session = make(limits=Limits(wall=1.0))
    session.run("""
def run_on():
    while True:
        with open("/proc/self/cwd/count", "a") as file:
            file.write("x")
os.register_at_fork(after_in_child=run_on)
""")
    with pytest.raises(EnvWeaveError):
        session.fork()
    assert stands_still(session)


def test_forks_are_as_many_as_the_limit_says(make):
    session = make(limits=Limits(forks=3))
    forks = [session.fork() for _ in range(3)]
    with pytest.raises(EnvWeaveError):
        session.fork()
    for each in forks:
        each.close()


def test_a_thread_is_not_lost_in_a_fork_but_refused(session):
    session.run("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
    with pytest.raises(EnvWeaveError, match="thread"):
        session.fork()


def test_memory_shared_with_a_fork_is_refused(session):
    session.run("shared = mmap.mmap(-1, 4096)")
    with pytest.raises(EnvWeaveError, match="shared"):
        session.fork()


def test_a_socket_shared_with_a_fork_is_refused(session):
    session.run("ends = socket.socketpair()")
    with pytest.raises(EnvWeaveError, match="socket"):
        session.fork()


def test_two_sandboxes_at_once_do_not_disturb_each_other(make, value):
    one, two = make(), make(limits=Limits(memory_bytes=256 << 20))
    outcomes = []
    threads = [
        threading.Thread(
            target=lambda s=session: outcomes.append([s.run("sum(range(1000))").return_value for _ in range(50)])
        )
        for session in (one, two)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert outcomes == [[499500] * 50] * 2


def test_sessions_are_not_alike_in_their_dice(session, other, value):
    dice = "import random, uuid; [random.random(), str(uuid.uuid4()), os.urandom(8).hex()]"
    assert all(a != b for a, b in zip(value(session, dice), value(other, dice), strict=True))


def test_a_sandbox_that_is_closed_ends_its_forks_and_snapshots(marker, marked, eventually, sandbox):
    with Sandbox() as mine:
        session = mine.start()
        session.run("import subprocess")
        forks = [session.fork(), session.fork(), session.fork().fork()]
        session.snapshot()
        for each in forks:
            each.run(f"subprocess.Popen(['{marker}', '600'], executable='/bin/sleep')")
        assert eventually(lambda: len(marked(marker)) == 3)
    assert eventually(lambda: not marked(marker))


@pytest.mark.parametrize(("one", "another"), UPWARDS)
def test_a_fork_does_not_reach_files_of_its_family_through_programs(family, value, one, another):
    """A program that was started anew has lost what its parent had put up for itself."""
    family[another].run("open('private', 'w').write('x'); program = subprocess.Popen(['/bin/sleep', '600'])\nNone")
    ways = value(
        family[one],
        "[attempt(os.stat, f'/proc/{pid}/{way}/home/agent/work/private') for pid in strangers() for way in ('root', 'cwd/../../..')]",
    )
    assert "allowed" not in ways
    family[one].run("[attempt(open, f'/proc/{pid}/root/home/agent/work/planted', 'w') for pid in strangers()]")
    assert "planted" not in family[another].list_files()


def test_a_fork_that_says_to_be_the_first_process_leaves_no_group_behind(sandbox, arm):
    """The kernel lets it say so: it has the right to in its own user namespace."""
    session = arm(sandbox.start())
    session.run("""
here = worker()
send, encode = type(here.channel).send, type(here.channel).send.__globals__["encode"]
def lie(self, message, blob=b""):
    if message.get("op") == "hello":
        try:
            self.sock.sendmsg([encode(message, blob)], [(socket.SOL_SOCKET, 2, struct.pack("iII", 1, os.getuid(), os.getgid()))])
            return
        except OSError:
            pass
    send(self, message, blob)
type(here.channel).send = lie
""")
    groups = set(our_groups())
    if not groups:
        need("cgroups", "sessions have no control groups here")
    try:
        fork = session.fork()
    except EnvWeaveError:
        fork = None
    session.close()
    if fork is not None:
        fork.close()
    assert not set(our_groups()) - groups


def our_groups():
    found = ((top, name) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names)  # others come and go
    return [f"{top}/{name}" for top, name in found if fnmatch(name, f"envweave-*-{os.getpid()}-*")]
