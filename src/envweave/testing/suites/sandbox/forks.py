"""Forks, snapshots and rollback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from envweave.errors import ClosedError, SandboxError, UnsupportedError, UsageError
from envweave.sandbox import AsyncSession, Limits, Sandbox, Session
from envweave.testing.suites.sandbox.base import ENDLESS, Make, SandboxTests, in_thread


class ForkTests(SandboxTests):
    """Sessions that are forked, restored and rolled back."""

    @pytest.fixture(autouse=True)
    def _needs_forks(self) -> None:
        if not self.forks:
            pytest.skip("its sessions cannot be forked")

    def test_rollback_works_again_and_again(self, make: Make) -> None:
        with make(after_kill="rollback") as sandbox, sandbox.start() as session:
            for turn in range(5):
                session.run(f"x = {turn}")
                assert session.run("import os; x = None; os._exit(1)").state == "rolled_back"
                assert session.get("x") == turn

    def test_tools_work_after_a_rollback(self, make: Make) -> None:
        tools = {"double": lambda n: 2 * n}
        with make(after_kill="rollback", tools=tools) as sandbox, sandbox.start() as session:
            session.run("import os; os._exit(1)")
            assert session.run("double(21)").return_value == 42

    def test_what_cannot_be_rolled_back_is_restarted_and_says_so(self, make: Make) -> None:
        with make(after_kill="rollback") as sandbox, sandbox.start() as session:
            session.run("import os; ends = os.pipe()")
            assert session.run("os._exit(1)").state == "restarted"

    def test_a_fork_has_the_variables_and_the_files(self, session: Session) -> None:
        session.run("x = [1, 2]\nopen('a.txt', 'w').write('same')")
        with session.fork() as fork:
            assert fork.get("x") == [1, 2]
            assert fork.read_file("a.txt") == b"same"
            assert fork.run("open('a.txt').read()").return_value == "same"

    def test_a_fork_and_its_original_go_separate_ways(self, session: Session) -> None:
        session.run("x = [0]\nopen('a.txt', 'w').write('both')")
        with session.fork() as fork:
            fork.run("x.append('fork')\nopen('a.txt', 'w').write('fork')\nopen('f.txt', 'w').close()")
            session.run("x.append('original')\nopen('a.txt', 'w').write('original')\nopen('o.txt', 'w').close()")
            assert (fork.get("x"), session.get("x")) == ([0, "fork"], [0, "original"])
            assert (fork.read_file("a.txt"), session.read_file("a.txt")) == (b"fork", b"original")
            assert (set(fork.list_files()), set(session.list_files())) == ({"a.txt", "f.txt"}, {"a.txt", "o.txt"})

    def test_a_fork_has_the_temporary_files(self, session: Session) -> None:
        session.run("import tempfile, os\nname = tempfile.mkstemp()[1]\nopen(name, 'w').write('kept')")
        with session.fork() as fork:
            session.run("os.unlink(name)")
            assert fork.run("open(name).read()").return_value == "kept"

    def test_a_fork_outlives_its_original(self, session: Session) -> None:
        session.run("x = 1\nopen('a.txt', 'w').write('kept')")
        with session.fork() as fork:
            session.close()
            assert fork.run("x + 1").return_value == 2
            assert fork.read_file("a.txt") == b"kept"

    def test_the_original_outlives_its_fork(self, session: Session) -> None:
        session.run("x = 1")
        session.fork().close()
        assert session.run("x").return_value == 1

    def test_forks_can_be_forked_forty_times_over(self, session: Session) -> None:
        session.run("depth = 0\nopen('depth.txt', 'w').write('0')")
        with ExitStack() as stack:
            line = [session]
            for _ in range(40):
                line.append(stack.enter_context(line[-1].fork()))
                line[-1].run("depth += 1\nopen('depth.txt', 'w').write(str(depth))")
            assert [each.get("depth") for each in line] == list(range(41))
            assert [each.read_file("depth.txt") for each in line] == [b"%d" % depth for depth in range(41)]

    def test_a_line_of_forks_may_close_behind_itself(self, session: Session) -> None:
        session.run("depth = 0")
        here = session
        for _ in range(100):
            there = here.fork()
            here.close()
            here = there
            here.run("depth += 1")
        assert here.get("depth") == 100
        here.close()

    def test_forks_run_at_the_same_time(self, make: Make) -> None:
        together = threading.Barrier(3)
        sandbox = make(tools={"meet": lambda: together.wait(60) >= 0})
        with sandbox, sandbox.start() as one, one.fork() as two, two.fork() as three:
            running = [in_thread(partial(each.run, "meet()")) for each in (one, two, three)]
            assert [each.result(60).return_value for each in running] == [True] * 3

    def test_a_fork_has_the_tools(self, make: Make) -> None:
        sandbox = make(tools={"double": lambda n: 2 * n})
        with sandbox, sandbox.start() as session, session.fork() as fork:
            assert fork.run("double(21)").return_value == 42
            assert session.run("double(4)").return_value == 8

    def test_a_fork_has_limits_of_its_own(self, make: Make) -> None:
        sandbox = make(limits=Limits(wall=0.3, grace=10))
        with sandbox, sandbox.start() as session, session.fork() as fork:
            result = fork.run(ENDLESS)
            assert result.limit is not None
            assert result.limit.name == "wall"
            assert session.run("1").return_value == 1

    def test_the_death_of_a_fork_does_not_touch_the_original(self, session: Session) -> None:
        session.run("x = 1")
        with session.fork() as fork:
            assert fork.run("import os; os._exit(3)").state == "restarted"
            assert session.get("x") == 1

    def test_the_death_of_the_original_does_not_touch_the_fork(self, session: Session) -> None:
        session.run("x = 1")
        with session.fork() as fork:
            assert session.run("import os; os._exit(3)").state == "restarted"
            assert fork.get("x") == 1

    def test_a_fork_that_is_restarted_keeps_its_own_files(self, session: Session) -> None:
        with session.fork() as fork:
            fork.run("open('f.txt', 'w').write('fork')")
            fork.run("import os; os._exit(3)")
            assert fork.run("open('f.txt').read()").return_value == "fork"
            assert session.list_files() == {}

    def test_generators_go_on_from_where_they_were(self, session: Session) -> None:
        session.run("numbers = iter(n * n for n in range(100))\nnext(numbers), next(numbers)")
        with session.fork() as fork:
            assert fork.run("next(numbers)").return_value == 4
            assert fork.run("next(numbers)").return_value == 9
            assert session.run("next(numbers)").return_value == 4

    def test_an_open_file_goes_on_from_where_it_was(self, session: Session) -> None:
        session.run("open('a.txt', 'w').write('0123456789')\nf = open('a.txt', 'rb', buffering=0)\nf.read(3)")
        with session.fork() as fork:
            assert fork.run("f.read(2)").return_value == repr(b"34")
            assert session.run("f.read(2)").return_value == repr(b"34")

    def test_a_file_open_for_writing_writes_into_its_own_copy(self, session: Session) -> None:
        session.run("f = open('a.txt', 'w')\nf.write('both ')\nf.flush()")
        with session.fork() as fork:
            fork.run("f.write('fork')\nf.close()")
            session.run("f.write('original')\nf.close()")
            assert fork.read_file("a.txt") == b"both fork"
            assert session.read_file("a.txt") == b"both original"

    def test_what_was_written_and_not_flushed_is_in_both(self, session: Session) -> None:
        session.run("f = open('a.txt', 'w')\nf.write('buffered ')")
        with session.fork() as fork:
            fork.run("f.write('fork')\nf.close()")
            session.run("f.write('original')\nf.close()")
            assert fork.read_file("a.txt") == b"buffered fork"
            assert session.read_file("a.txt") == b"buffered original"

    def test_an_unnamed_temporary_file_is_carried(self, session: Session) -> None:
        session.run("import tempfile\nf = tempfile.TemporaryFile()\nf.write(b'0123456789')\nf.seek(4)")
        with session.fork() as fork:
            fork.run("f.write(b'FORK')")
            assert session.run("f.read().decode()").return_value == "456789"
            assert fork.run("f.seek(0); f.read().decode()").return_value == "0123FORK89"

    def test_a_memory_file_is_carried(self, session: Session) -> None:
        session.run("import os\nf = os.memfd_create('m')\nos.write(f, b'abcdef')\nos.lseek(f, 2, 0)")
        with session.fork() as fork:
            fork.run("os.write(f, b'XX')")
            assert session.run("os.pread(f, 10, 0).decode()").return_value == "abcdef"
            assert fork.run("os.pread(f, 10, 0).decode()").return_value == "abXXef"

    def test_a_database_is_carried(self, session: Session) -> None:
        session.run("import sqlite3\ndb = sqlite3.connect('a.db')\ndb.execute('create table t (n)')")
        session.run("db.execute('insert into t values (1)')\ndb.commit()")
        with session.fork() as fork:
            fork.run("db.execute('insert into t values (2)')\ndb.commit()")
            assert fork.run("db.execute('select count(*) from t').fetchone()[0]").return_value == 2
            assert session.run("db.execute('select count(*) from t').fetchone()[0]").return_value == 1

    def test_random_numbers_go_on_as_they_would_have(self, session: Session) -> None:
        session.run("import random; random.seed(7)")
        with session.fork() as fork:
            assert fork.run("random.random()").return_value == session.run("random.random()").return_value

    def test_a_fork_has_the_current_folder(self, session: Session) -> None:
        session.run("import os\nos.mkdir('below')\nos.chdir('below')\nopen('here.txt', 'w').write('x')")
        with session.fork() as fork:
            fork.run("open('fork.txt', 'w').write('x')")
            assert fork.run("sorted(os.listdir())").return_value == ["fork.txt", "here.txt"]
            assert session.run("os.listdir()").return_value == ["here.txt"]

    def test_a_fork_has_links_modes_and_times(self, session: Session) -> None:
        session.run("""
import os
open('a.sh', 'w').write('#!/bin/sh\\necho run')
os.chmod('a.sh', 0o755)
os.utime('a.sh', (1000, 2000))
os.symlink('a.sh', 'link')
os.mkdir('closed', 0o500)
""")
        with session.fork() as fork:
            assert fork.run("os.readlink('link')").return_value == "a.sh"
            assert fork.run("os.stat('a.sh').st_mode & 0o777, os.stat('a.sh').st_mtime").return_value == [0o755, 2000]
            assert fork.run("os.stat('closed').st_mode & 0o777").return_value == 0o500
            assert fork.run("import subprocess; subprocess.run(['./a.sh'])").stdout == "run\n"

    def test_a_fork_imports_modules_of_its_own_folder(self, session: Session) -> None:
        with session.fork() as fork:
            fork.write_file("helper.py", "ANSWER = 42")
            assert fork.run("import helper; helper.ANSWER").return_value == 42

    def test_a_fork_has_top_level_await_after_the_original_had_it(self, session: Session) -> None:
        code = "import asyncio\nawait asyncio.sleep(0)\n5"
        assert session.run(code).return_value == 5
        with session.fork() as fork:
            assert fork.run(code).return_value == 5
            assert session.run(code).return_value == 5

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()", "thread"),
            ("import socket\nends = socket.socketpair()", "socket"),
            ("import os\nends = os.pipe()", "pipe"),
            ("import subprocess\nchild = subprocess.Popen(['sleep', '300'])", "child"),
            ("import mmap\nm = mmap.mmap(-1, 4096)", "memory shared"),
            ("import mmap\nf = open('m', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)", "memory shared"),
            ("import asyncio\nt = asyncio.create_task(asyncio.sleep(300))\nawait asyncio.sleep(0)", "asyncio tasks"),
            ("import select\ne = select.epoll()", "eventpoll"),
        ],
        ids=["threads", "sockets", "pipes", "children", "shared memory", "shared file", "tasks", "epoll"],
    )
    def test_what_cannot_be_in_two_places_is_refused_with_its_name(
        self, session: Session, code: str, reason: str
    ) -> None:
        assert session.run(f"x = 1\n{code}").success
        with pytest.raises(UnsupportedError) as caught:
            session.fork()
        assert reason in caught.value.hint
        with pytest.raises(UnsupportedError):
            session.snapshot()
        assert session.get("x") == 1

    def test_once_the_obstacle_is_gone_a_fork_can_be_had(self, session: Session) -> None:
        session.run("import socket\nx = 1\none, other = socket.socketpair()")
        with pytest.raises(UnsupportedError):
            session.fork()
        session.run("one.close(); other.close()")
        with session.fork() as fork:
            assert fork.get("x") == 1

    def test_a_work_folder_that_cannot_be_copied_is_refused_with_its_name(self, session: Session) -> None:
        session.run("import os; os.mkfifo('a pipe')")
        with pytest.raises(UnsupportedError) as caught:
            session.fork()
        assert "a pipe" in caught.value.hint
        session.run("os.unlink('a pipe')")
        session.fork().close()

    def test_more_forks_than_the_limit_are_refused(self, make: Make) -> None:
        with make(limits=Limits(forks=2)) as sandbox, sandbox.start() as session:
            with session.fork(), session.fork() as second:
                for each in (session, second):
                    with pytest.raises(UnsupportedError):
                        each.fork()
            session.fork().close()

    def test_no_forks_can_be_the_rule(self, make: Make) -> None:
        with make(forks=False) as sandbox, sandbox.start() as session:
            with pytest.raises(UnsupportedError) as caught:
                session.fork()
            assert "forks=False" in caught.value.hint

    def test_a_snapshot_can_be_restored_many_times(self, session: Session) -> None:
        session.run("x = [0]\nopen('a.txt', 'w').write('before')")
        with session.snapshot() as snapshot:
            for turn in range(10):
                session.run(f"x.append({turn})\nopen('a.txt', 'w').write('after')\nopen('new.txt', 'w').close()")
                session.restore(snapshot)
                assert session.get("x") == [0]
                assert session.read_file("a.txt") == b"before"
                assert session.list_files() == {"a.txt": 6}

    def test_a_snapshot_starts_new_sessions(self, session: Session) -> None:
        session.run("x = 5")
        with session.snapshot() as snapshot:
            session.run("x = 6")
            with snapshot.start() as one, snapshot.start() as two:
                one.run("x += 10")
                assert (one.get("x"), two.get("x"), session.get("x")) == (15, 5, 6)

    def test_a_snapshot_outlives_its_session(self, session: Session) -> None:
        session.run("x = 5")
        with session.snapshot() as snapshot:
            session.close()
            with snapshot.start() as session:
                assert session.get("x") == 5

    def test_a_session_that_has_ended_can_be_restored(self, make: Make) -> None:
        with make(after_kill="end") as sandbox, sandbox.start() as session:
            session.run("x = 5")
            with session.snapshot() as snapshot:
                assert session.run("import os; os._exit(1)").state == "ended"
                session.restore(snapshot)
                assert session.get("x") == 5

    def test_tools_work_after_a_restore(self, make: Make) -> None:
        sandbox = make(tools={"double": lambda n: 2 * n})
        with sandbox, sandbox.start() as session, session.snapshot() as snapshot:
            session.restore(snapshot)
            assert session.run("double(21)").return_value == 42

    def test_a_closed_snapshot_cannot_be_restored(self, session: Session) -> None:
        session.run("x = 5")
        snapshot = session.snapshot()
        snapshot.close()
        with pytest.raises(ClosedError):
            session.restore(snapshot)
        with pytest.raises(ClosedError):
            snapshot.start()
        assert session.get("x") == 5

    def test_a_closed_session_cannot_be_restored(self, session: Session) -> None:
        with session.snapshot() as snapshot:
            session.close()
            with pytest.raises(ClosedError):
                session.restore(snapshot)

    def test_forks_and_snapshots_can_be_awaited(self, sandbox: Sandbox) -> None:
        async def use() -> None:
            async with started(sandbox) as session:
                await session.run("x = 1")
                snapshot = await session.snapshot()
                async with await session.fork() as fork:
                    await fork.run("x = 2")
                    await session.run("x = 3")
                    await session.restore(snapshot)
                    assert (await session.get("x"), await fork.get("x")) == (1, 2)
                async with snapshot, await snapshot.start() as another:
                    assert await another.get("x") == 1

        asyncio.run(use())

    def test_a_run_that_is_undone_is_no_birth(self, make: Make) -> None:
        with make(after_kill="rollback") as sandbox, sandbox.start() as session:
            assert session.run("import os; os._exit(1)").state == "rolled_back"
            assert session.births == 1

    def test_a_session_can_be_forked_after_a_long_text_was_cancelled(self, sandbox: Sandbox) -> None:
        async def cancel(session: Session) -> None:
            task = asyncio.create_task(session.aio.set("text", "é" * 1_000_000))
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError, SandboxError):
                await task

        with sandbox.start() as session:
            asyncio.run(cancel(session))
            with session.fork() as twin:
                assert twin.run("1").return_value == 1

    def test_a_fork_has_tools_of_its_own_under_the_names_it_knows(self, sandbox: Sandbox) -> None:
        with sandbox.start(tools={"who": lambda: "original", "same": lambda: 1}) as session:
            with session.fork(tools={"who": lambda: "fork"}) as twin, twin.fork() as third:
                assert session.run("who(), same()").return_value == ["original", 1]
                assert twin.run("who(), same()").return_value == ["fork", 1]
                assert third.run("who(), same()").return_value == ["fork", 1]
                assert third.run("import os; os._exit(1)").state == "restarted"
                assert third.run("who()").return_value == "fork"
            assert session.run("who()").return_value == "original"

    def test_a_snapshot_is_started_with_tools_of_ones_own(self, sandbox: Sandbox) -> None:
        with (
            sandbox.start(tools={"who": lambda: "original"}) as session,
            session.snapshot() as snapshot,
            snapshot.start(tools={"who": lambda: "first"}) as first,
            snapshot.start() as second,
        ):
            assert [each.run("who()").return_value for each in (first, second)] == ["first", "original"]

    @pytest.mark.parametrize("tools", [{"stranger": len}, {"who": 5}], ids=str)
    def test_a_fork_knows_no_tool_that_its_original_did_not(self, sandbox: Sandbox, tools: Any) -> None:
        with sandbox.start(tools={"who": lambda: "original"}) as session, session.snapshot() as snapshot:
            for fork in (session.fork, snapshot.start):
                with pytest.raises(UsageError):
                    fork(tools=tools)
            assert session.run("who()").return_value == "original"

    def test_a_fork_counts_its_births_from_those_of_its_original(self, sandbox: Sandbox) -> None:
        with sandbox.start() as session:
            session.run("import os; os._exit(1)")
            with session.fork() as twin:
                assert twin.births == 2
                twin.run("import os; os._exit(1)")
                assert (twin.births, session.births) == (3, 2)

    def test_an_async_fork_has_tools_of_its_own(self, sandbox: Sandbox) -> None:
        async def play() -> list[Any]:
            async with (
                await sandbox.aio.start(tools={"who": lambda: "original"}) as session,
                await session.fork(tools={"who": lambda: "fork"}) as twin,
                await session.snapshot() as snapshot,
                await snapshot.start(tools={"who": lambda: "start"}) as third,
            ):
                return [(await each.run("who()")).return_value for each in (session, twin, third)]

        assert asyncio.run(play()) == ["original", "fork", "start"]


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncIterator[AsyncSession]:
    async with await sandbox.aio.start() as session:
        yield session
