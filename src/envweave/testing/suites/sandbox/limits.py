"""Limits of resources, output and values."""

from __future__ import annotations

from typing import Any

import pytest

from envweave.sandbox import Limits
from envweave.testing.suites.sandbox.base import ENDLESS, MIB, Make, SandboxTests


class LimitTests(SandboxTests):
    """Limits of time, memory, processes and files."""

    @pytest.fixture
    def make_confined(self, make: Make) -> Make:
        if not self.confined:
            pytest.skip("memory, files and processes are not limited")
        return make

    def test_processor_time_is_limited(self, make: Make) -> None:
        assert hit(make, ENDLESS, cpu=0.4, grace=30) == ("cpu", 0.4)

    def test_processor_time_is_counted_for_each_run(self, make: Make) -> None:
        with make(limits=Limits(cpu=0.75, wall=60)).start() as session:
            for _ in range(4):
                assert session.run(
                    "import time\nend = time.process_time() + 0.25\nwhile time.process_time() < end: pass"
                ).success

    def test_processor_time_of_children_counts(self, make: Make) -> None:
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
        assert hit(make, code, cpu=0.5, grace=30) == ("cpu", 0.5)

    def test_waiting_takes_no_processor_time(self, make: Make) -> None:
        with make(limits=Limits(cpu=0.5, wall=60)).start() as session:
            assert session.run("import time; time.sleep(1)").success

    def test_memory_is_limited(self, make_confined: Make) -> None:
        assert hit(make_confined, "x = bytearray(1 << 30)", memory_bytes=128 * MIB) == ("memory_bytes", 128 * MIB)

    def test_memory_that_grows_slowly_is_limited(self, make_confined: Make) -> None:
        code = "x = []\nwhile True: x.append(bytearray(1 << 20))"
        assert hit(make_confined, code, memory_bytes=128 * MIB) == ("memory_bytes", 128 * MIB)

    def test_memory_of_children_counts(self, make_confined: Make) -> None:
        code = """
import os, time
for _ in range(8):
    if not os.fork():
        x = bytearray(b'x') * (50 << 20)
        time.sleep(60)
os.wait()
"""
        assert hit(make_confined, code, memory_bytes=160 * MIB) == ("memory_bytes", 160 * MIB)

    def test_threads_are_limited(self, make_confined: Make) -> None:
        code = """
import threading, time
stop = threading.Event()
for _ in range(100):
    threading.Thread(target=stop.wait, daemon=True).start()
time.sleep(60)
"""
        assert hit(make_confined, code, processes=16) == ("processes", 16)

    def test_processes_are_limited(self, make_confined: Make) -> None:
        code = "import os, time\nfor _ in range(100):\n    if not os.fork():\n        time.sleep(60)\ntime.sleep(60)"
        assert hit(make_confined, code, processes=16) == ("processes", 16)

    def test_open_files_are_limited(self, make_confined: Make) -> None:
        assert hit(make_confined, "f = [open('/dev/null') for _ in range(500)]", open_files=128) == ("open_files", 128)

    def test_the_size_of_a_file_is_limited(self, make_confined: Make) -> None:
        assert hit(make_confined, f"open('x', 'wb').write(b'x' * {3 * MIB})", file_bytes=2 * MIB) == (
            "file_bytes",
            2 * MIB,
        )

    def test_the_size_of_the_work_folder_is_limited(self, make_confined: Make) -> None:
        code = f"import time\nfor n in range(8):\n    open(str(n), 'wb').write(b'x' * {MIB})\ntime.sleep(60)"
        with make_confined(limits=Limits(wall=60, disk_bytes=4 * MIB)).start() as session:
            result = session.run(code)
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("disk_bytes", 4 * MIB)

    def test_a_limit_that_is_none_does_not_hold(self, make_confined: Make) -> None:
        limits = Limits(
            memory_bytes=None, file_bytes=None, disk_bytes=None, processes=None, open_files=None, files=None
        )
        with make_confined(limits=limits).start() as session:
            assert session.run(f"open('x', 'wb').write(b'x' * {70 * MIB})").return_value == 70 * MIB

    def test_a_limit_is_written_with_its_whole_value(self, make: Make) -> None:
        with make(limits=Limits(output_bytes=12_345_678, return_bytes=1_234_567)).start() as session:
            result = session.run("'x' * 2_000_000")
        assert str(result.limit) == "return_bytes=1234567"


class OutputTests(SandboxTests):
    """Output and values that are too large."""

    def test_output_keeps_its_head_and_its_tail_and_says_what_is_cut(self, make: Make) -> None:
        with make(limits=Limits(output_bytes=1000)).start() as session:
            result = session.run("print('HEAD' + 'x' * 100_000 + 'TAIL')")
        assert result.success
        assert result.stdout.startswith("HEADx")
        assert result.stdout.endswith("xTAIL\n")
        assert f"[{100_009 - 1000} bytes cut]" in result.stdout
        assert len(result.stdout) < 1100
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("output_bytes", 1000)

    def test_stderr_is_cut_in_the_same_way(self, make: Make) -> None:
        with make(limits=Limits(output_bytes=1000)).start() as session:
            result = session.run("import sys; n = sys.stderr.write('x' * 5000)")
        assert "[4000 bytes cut]" in result.stderr
        assert result.limit is not None
        assert result.limit.name == "output_bytes"

    def test_output_of_just_the_limit_is_not_cut(self, make: Make) -> None:
        with make(limits=Limits(output_bytes=1000)).start() as session:
            result = session.run("print('x' * 1000, end='')")
        assert result.stdout == "x" * 1000
        assert result.limit is None

    def test_a_value_that_is_too_large_is_cut_and_said(self, make: Make) -> None:
        with make(limits=Limits(return_bytes=1000)).start() as session:
            result = session.run("'x' * 100_000")
        assert result.success
        assert not result.return_is_data
        assert "cut" in result.return_value
        assert len(result.return_value) < 1100
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("return_bytes", 1000)

    def test_a_repr_that_is_too_large_is_cut_and_said(self, make: Make) -> None:
        with make(limits=Limits(return_bytes=1000)).start() as session:
            result = session.run("class Wide:\n    def __repr__(self): return 'w' * 5000\nWide()")
        assert len(result.return_value) < 1100
        assert result.limit is not None
        assert result.limit.name == "return_bytes"

    def test_a_list_that_is_too_large_is_cut_and_said(self, make: Make) -> None:
        with make(limits=Limits(return_bytes=1000)).start() as session:
            result = session.run("list(range(100_000))")
        assert not result.return_is_data
        assert result.return_value.startswith("[0, 1, 2")
        assert len(result.return_value) < 1100
        assert result.limit is not None
        assert result.limit.name == "return_bytes"

    def test_a_variable_that_is_too_large_is_read_cut(self, make: Make) -> None:
        with make(limits=Limits(return_bytes=1000)).start() as session:
            session.run("x = 'x' * 100_000")
            assert len(session.get("x")) < 1100


def hit(make: Make, code: str, **limits: Any) -> tuple[str, float] | None:
    """The limit that the code runs into."""
    with make(limits=Limits(**{"wall": 60, **limits})).start() as session:
        result = session.run(code)
        assert session.run("1 + 1").return_value == 2  # whatever happened, it goes on
    return (result.limit.name, result.limit.value) if result.limit else None
