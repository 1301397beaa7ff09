"""A thing that several hold is closed by the last of them; an interpreter is a fresh session for each episode."""

import gc
import os
import pickle
import signal
import threading
from collections import UserDict

import pytest

from envweave.envs.interpreter import Interpreter, Prelude
from envweave.envs.shared import Share, _Counted
from envweave.errors import ClosedError, ResetNeededError, SandboxError


class Thing:
    """Knows how often it was closed, and by whom."""

    def __init__(self):
        self.closed = threading.Event()
        self.closers = []

    def close(self):
        self.closers.append(threading.current_thread().name)
        self.closed.set()


def test_the_last_holder_closes():
    first = Share.new(Thing())
    second = first.again()
    thing = first.resource
    first.release()
    assert not thing.closers
    second.release()
    assert len(thing.closers) == 1


def test_a_part_is_given_back_once():
    share = Share.new(Thing())
    other = share.again()
    share.release()
    share.release()
    assert not share.resource.closers
    other.release()
    assert len(share.resource.closers) == 1


def test_a_part_that_was_given_back_cannot_be_shared_again():
    share = Share.new(Thing())
    share.release()
    with pytest.raises(ClosedError):
        share.again()
    assert len(share.resource.closers) == 1


def test_who_forgets_to_leave_is_left_for():
    share = Share.new(Thing())
    thing = share.resource
    del share
    gc.collect()
    assert thing.closed.wait(10)
    assert thing.closers == ["envweave-sweeper"]


def test_a_holder_that_is_part_of_a_circle_is_left_for():
    share = Share.new(Thing())
    thing = share.resource
    circle = [share]
    circle.append(circle)
    del share, circle
    gc.collect()
    assert thing.closed.wait(10)


def test_what_is_known_by_a_key_is_made_once_while_somebody_holds_it():
    made = []

    def make():
        made.append(Thing())
        return made[-1]

    first, second = Share.of("test-key", make), Share.of("test-key", make)
    assert first.resource is second.resource
    first.release()
    assert Share.of("test-key", make).resource is second.resource
    second.release()
    gc.collect()
    assert made[0].closed.wait(10)
    third = Share.of("test-key", make)
    assert third.resource is not made[0]
    third.release()
    assert len(made) == 2


def test_what_cannot_be_made_is_not_remembered():
    with pytest.raises(ZeroDivisionError):
        Share.of("test-broken", lambda: 1 / 0)
    share = Share.of("test-broken", Thing)
    share.release()
    assert len(share.resource.closers) == 1


def test_many_threads_share_one_thing_and_it_is_closed_once():
    made = []
    begin = threading.Barrier(8)

    def make():
        made.append(Thing())
        return made[-1]

    def hold():
        begin.wait()
        for _ in range(200):
            share = Share.of("test-threads", make)
            assert not share.resource.closers
            share.again().release()
            share.release()

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(thing.closers) == 1 for thing in made)


def test_nobody_waits_while_another_thing_is_made():
    making, done = threading.Event(), threading.Event()

    def make():
        making.set()
        assert done.wait(10)
        return Thing()

    shares = []
    slow = threading.Thread(target=lambda: shares.append(Share.of("test-slow", make)))
    slow.start()
    assert making.wait(10)
    first = Share.of("test-slow", Thing)  # the same one, even
    done.set()
    slow.join()
    assert shares[0].resource is first.resource
    for share in (first, *shares):
        share.release()
    assert len(first.resource.closers) == 1


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads is the point
def test_a_child_that_is_forked_while_the_lock_is_held_has_one_of_its_own():
    held, done = threading.Event(), threading.Event()

    def hold():
        with _Counted.LOCK:
            held.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            Share.of("test-fork", Thing).release()
            os._exit(0)
        finally:
            os._exit(1)
    done.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_close_that_raises_does_not_stop_the_sweeper():
    class Bad(Thing):
        def close(self):
            super().close()
            raise OSError

    first, second = Share.new(Bad()), Share.new(Thing())
    things = first.resource, second.resource
    del first
    gc.collect()
    assert things[0].closed.wait(10)
    del second
    gc.collect()
    assert things[1].closed.wait(10)


# Interpreters.


@pytest.fixture
def python():
    made = Interpreter()
    made.begin(prelude=Prelude())
    yield made
    made.close()


def test_interpreters_with_the_same_walls_share_a_sandbox_and_others_do_not():
    same = [Interpreter(), Interpreter(limits={}), Interpreter(sandbox={})]
    listed = [Interpreter(sandbox={"readable": ["/usr"]}), Interpreter(sandbox={"readable": ("/usr",)})]
    others = [
        Interpreter(limits={"wall": 3}),
        Interpreter(modules=("math",)),
        Interpreter(sandbox={"files": {"a": ""}}),
    ]
    assert len({id(each._sandbox.resource) for each in same}) == 1
    assert len({id(each._sandbox.resource) for each in listed}) == 1
    assert len({id(each._sandbox.resource) for each in (*same, *listed, *others)}) == 5
    for each in (*same, *listed, *others):
        each.close()


def test_the_prelude_is_there_at_the_beginning_and_after_a_kill(python):
    python.begin(prelude=Prelude("def twice(n): return 2 * n", {"context": "long", "answer": {"ready": False}}))
    code = "twice(2), context, answer, math.floor(1.5)"
    assert python.run(code).return_value == [4, "long", {"ready": False}, 1]
    python.run("context = answer = None\nimport os\nos._exit(1)")
    assert python.run(code).return_value == [4, "long", {"ready": False}, 1]
    assert set(python.variables()) == {"context", "answer"}


def test_the_prelude_is_there_again_after_a_question_has_ended_the_interpreter(python):
    python.begin(prelude=Prelude(values={"context": "long"}))
    hostile = "class Bad:\n    def __repr__(self):\n        import os\n        os._exit(1)\nbad = Bad()"
    python.run(hostile)
    with pytest.raises(SandboxError):
        python.describe(100)
    assert python.run("context").return_value == "long"
    assert python.run_and_inspect(hostile, names=(), longest=100, most=100)[1] is None
    assert python.run("context").return_value == "long"


def test_a_long_text_can_be_in_the_prelude(python):
    text = "grün " * 100_000
    python.begin(prelude=Prelude(values={"context": text}))
    assert python.run("len(context), context[:5]").return_value == [len(text), "grün "]


def test_a_module_that_is_not_there_is_named():
    python = Interpreter(modules=("no_such_module_here",))
    with pytest.raises(SandboxError, match="no_such_module_here"):
        python.begin(prelude=Prelude())
    python.close()


def test_a_module_within_a_package_is_imported():
    python = Interpreter(modules=("os.path", "xml.dom.minidom"))
    python.begin(prelude=Prelude())
    assert python.run("xml.dom.minidom.__name__, os.path.basename('/a/b')").return_value == ["xml.dom.minidom", "b"]
    python.close()


def test_what_there_is_no_episode_for_is_refused():
    python = Interpreter()
    assert not python.begun
    for call in (lambda: python.run("1"), lambda: python.describe(9), python.variables, python.fork, python.snapshot):
        with pytest.raises(ResetNeededError):
            call()
    python.close()
    python.close()
    for call in (lambda: python.run("1"), lambda: python.begin(prelude=Prelude()), python.fork, python.snapshot):
        with pytest.raises(ClosedError):
            call()


def test_a_closed_interpreter_takes_no_snapshot_to_resume(python):
    parked = python.snapshot()
    other = Interpreter()
    other.close()
    with pytest.raises(ClosedError):
        other.resume(parked)


def test_a_snapshot_does_not_leave_its_process(python):
    with pytest.raises(TypeError, match="cannot leave its process"):
        pickle.dumps(python.snapshot())


def test_functions_answer_in_a_fork_in_place_of_those_before(python):
    python.begin(tools={"who": lambda: "original"}, prelude=Prelude())
    twin = python.fork({"who": lambda: "twin"})
    assert python.run("who()").return_value == "original"
    assert twin.run("who()").return_value == "twin"
    twin.run("import os; os._exit(1)")
    assert twin.run("who()").return_value == "twin"
    other = python.fork({"stranger": len})
    assert other.run("who()").return_value == "original"
    assert not other.run("stranger").success
    other.close()
    twin.close()


def test_a_fork_of_a_killed_interpreter_has_its_prelude_after_a_kill_of_its_own(python):
    python.begin(prelude=Prelude(values={"context": "long"}))
    python.run("import os; os._exit(1)")
    twin = python.fork()
    assert twin.run("context").return_value == "long"
    twin.run("import os; os._exit(1)")
    assert twin.run("context").return_value == "long"
    twin.close()


def test_a_run_whose_episode_is_ended_elsewhere_is_an_error_and_the_next_episode_knows_nothing_of_it(python):
    for end in (lambda: python.begin(prelude=Prelude()), python.close):
        started = threading.Event()
        python.begin(tools={"started": started.set}, prelude=Prelude())
        caught = []

        def work(caught=caught):
            try:
                python.run("started()\nwhile True: pass")
            except ClosedError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert started.wait(30)
        end()
        thread.join()
        assert len(caught) == 1


def test_an_interpreter_that_is_closed_while_it_begins_keeps_no_session(python):
    other = Interpreter()

    class Tools(UserDict):
        def keys(self):
            other.close()
            return super().keys()

    with pytest.raises(ClosedError):
        other.begin(tools=Tools(length=len), prelude=Prelude())
    assert not other.begun
    assert other._sandbox.resource is python._sandbox.resource
    assert len(python._sandbox.resource._living._cores) == 1


def test_a_stay_that_cannot_be_furnished_leaves_the_old_one_as_it_is(python):
    python.run("kept = 1")
    with pytest.raises(SandboxError):
        python.begin(prelude=Prelude("1 / 0"))
    assert python.run("kept").return_value == 1


def test_an_old_stay_that_does_not_end_well_leaves_the_new_one_furnished(python):
    def fail():
        raise SandboxError("it will not end")

    python._current.share.release, release = fail, python._current.share.release
    with pytest.raises(SandboxError, match="will not end"):
        python.begin(prelude=Prelude(values={"context": "long"}))
    assert python.run("context").return_value == "long"
    release()


def test_a_value_that_does_not_fit_is_named_with_its_size_and_the_limit():
    python = Interpreter(limits={"memory_bytes": 64 << 20})
    with pytest.raises(SandboxError) as caught:
        python.begin(prelude=Prelude(values={"context": "x" * (200 << 20)}))
    python.close()
    assert caught.value.message == f"context, a str of length {200 << 20}, does not fit into the memory of the session"
    assert "memory_bytes" in caught.value.hint
