"""Runs whose files are damaged, gone, shared, or on a disk that is full."""

import errno
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from envweave.errors import RecordError
from envweave.record import Record, Recorder
from envweave.record.writers import lock_writer
from envweave.results import ResetResult, StepResult


def play(run, steps=3, **header):
    log = run.episode(env="x", **header)
    log.reset(ResetResult({"at": 0}, {}))
    for number in range(steps):
        log.step(number, StepResult({"at": number}, 0.5))
    log.end("terminated")
    return log.id


def in_child(act):
    """Run it in a forked process; its exit code is 0 if it did not raise."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("compress", [None, "gzip"])
@pytest.mark.parametrize("limit", range(1_000, 6_000, 250))
def test_every_episode_whose_end_was_acknowledged_is_there_once_after_a_full_disk(tmp_path, limit, compress):
    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        run = Recorder(tmp_path / "run", compress=compress)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))  # no file becomes larger
        ended = []
        for number in range(20):
            try:
                ended.append(play(run, task={"id": f"a task with a long name, number {number}" * 3}))
            except RecordError:
                pass
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ended += [play(run), play(run)]  # there is space again
        run.close()
        (tmp_path / "ended").write_text("\n".join(ended))

    in_child(fill)
    ended = (tmp_path / "ended").read_text().split()
    assert len(ended) >= 2
    record = Record(tmp_path / "run")
    ids = [episode.id for episode in record]
    assert len(set(ids)) == len(ids)
    for id in ended:
        assert record[id].end["reason"] == "terminated"
        assert len(record[id].steps) == 3
    for path in (tmp_path / "run").glob("*.idx"):
        path.unlink()
    assert [episode.id for episode in Record(tmp_path / "run")] == ids


def test_an_episode_that_is_ended_after_the_folder_was_deleted_is_refused(tmp_path):
    run = Recorder(tmp_path / "run")
    play(run)
    log = run.episode(env="x")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RecordError, match="no such file"):
        log.end("terminated")
    with pytest.raises(RecordError, match="no such file"):
        run.episode(env="x")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RecordError, match="no such file"):
        run.close()
    run.close()
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_recorder_closes_all_episodes_although_one_of_them_cannot_be_written(tmp_path):
    def act():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        run = Recorder(tmp_path)
        broken, fine = run.episode(env="x"), run.episode(env="x")
        fine.step(1, StepResult(None, 1.0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
        with pytest.raises(RecordError):
            broken.step("x" * 10_000, StepResult(None))
        with pytest.raises(RecordError):
            run.close()
        assert not list((tmp_path / "live").glob("*.lock"))

    in_child(act)
    assert sorted(len(episode.steps) for episode in Record(tmp_path)) == [0, 1]
    assert {episode.end["reason"] for episode in Record(tmp_path)} == {"unfinished"}


def test_every_open_episode_of_a_forked_process_is_one_of_its_own(tmp_path):
    run = Recorder(tmp_path)
    logs = [run.episode(env="x", seed=seed) for seed in range(2)]

    def child():
        for log in logs:
            log.step("child", StepResult(None, 1.0))
        for log in logs:
            log.end("terminated")
        run.close()

    in_child(child)
    for log in logs:
        log.end("terminated")
    run.close()
    found = [(episode.header["seed"], len(episode.steps), "parent" in episode.header) for episode in Record(tmp_path)]
    assert sorted(found) == [(0, 0, False), (0, 1, True), (1, 0, False), (1, 1, True)]


def test_a_writer_whose_lock_was_removed_while_it_waited_takes_another(tmp_path):
    """A reader takes the lock of a new writer before the writer does, finds nothing, and removes it."""
    import fcntl

    path = tmp_path / "w.lock"
    reader = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(reader, fcntl.LOCK_EX)
    taken: list[int] = []
    writer = threading.Thread(target=lambda: taken.append(lock_writer(tmp_path, "w")))
    writer.start()
    while path.exists() and not _waits_for_a_lock(os.getpid()):
        pass
    path.unlink()
    os.close(reader)
    writer.join()
    assert os.fstat(taken[0]).st_ino == path.stat().st_ino
    os.close(taken[0])


def _waits_for_a_lock(pid):
    """Whether a thread of a process waits in /proc/locks."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any(" -> " in line and f" {pid} " in line for line in lines)


TWO_WRITERS = """
import sys
from envweave.record import Recorder
from envweave.results import StepResult

for _ in range(20):
    with Recorder(sys.argv[1]) as run:
        for number in range(5):
            log = run.episode(env="x")
            log.step(number, StepResult(None, 1.0))
            log.end("terminated")
"""


def test_several_processes_write_to_one_folder_while_another_reads_it(tmp_path):
    with Recorder(tmp_path):
        pass
    command = [sys.executable, "-c", TWO_WRITERS, str(tmp_path)]
    writers = [subprocess.Popen(command) for _ in range(3)]
    counts = []
    while any(writer.poll() is None for writer in writers):
        record = Record(tmp_path)
        counts.append(len(record))
        assert all(len(episode.steps) == 1 and episode.end["reason"] == "terminated" for episode in record)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert counts == sorted(counts)
    record = Record(tmp_path)
    assert len({episode.id for episode in record}) == len(record) == 300
    assert len(record.description["writers"]) == 61


@pytest.mark.parametrize("damage", ["first line", "middle", "zeros", "binary", "no newline at the end"])
@pytest.mark.parametrize("with_index", [True, False])
def test_other_episodes_of_a_damaged_segment_are_read(tmp_path, damage, with_index):
    with Recorder(tmp_path) as run:
        ids = [play(run) for _ in range(4)]
    (path,) = tmp_path.glob("ep-*.jsonl")
    rows = Record(tmp_path).rows
    data = bytearray(path.read_bytes())
    start, length = rows[1].offset, rows[1].length
    match damage:
        case "first line":
            data[start : start + 10] = b"##########"
        case "middle":
            data[start + length // 2 : start + length // 2 + 20] = b"#" * 20
        case "zeros":
            data[start : start + length] = b"\0" * length
        case "binary":
            data[start : start + length] = os.urandom(length).replace(b"\n", b" ")
        case "no newline at the end":
            data[-1:] = b""
    path.write_bytes(data)
    if not with_index:
        next(tmp_path.glob("*.idx")).unlink()
    record = Record(tmp_path)
    if damage == "middle":
        assert [episode.is_intact for episode in record] == [True, False, True, True]
    whole = [ids[0], ids[2], ids[3]] if damage != "no newline at the end" else ids[:3]
    assert set(whole) <= set(_readable(record))


def _readable(record):
    for number in range(len(record)):
        try:
            episode = record[number]
            if episode.end and len(episode.steps) == 3:
                yield episode.id
        except RecordError:
            pass


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x1f\x8b\x08\0" + b"\1" * 30])
def test_episodes_before_the_damage_of_a_compressed_segment_are_read(tmp_path, damage):
    with Recorder(tmp_path, compress="gzip") as run:
        ids = [play(run) for _ in range(3)]
    (path,) = tmp_path.glob("ep-*.jsonl.gz")
    with path.open("r+b") as file:
        file.truncate(Record(tmp_path).rows[2].offset + 10)
        file.seek(0, os.SEEK_END)
        file.write(damage)
    next(tmp_path.glob("*.idx")).unlink()
    assert list(_readable(Record(tmp_path))) == ids[:2]


def test_damaged_names_are_found_again_from_the_episodes(tmp_path):
    with Recorder(tmp_path) as run:
        play(run, task={"id": "one"})
        play(run, task={"id": "two"})
    (names,) = tmp_path.glob("strings-*.jsonl")
    names.write_text('"one"\n"tw')
    record = Record(tmp_path)
    assert [record.names(number)["task"] for number in range(2)] == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"writers": 3, "envs": 4}'])
def test_a_damaged_description_is_replaced(tmp_path, content):
    with Recorder(tmp_path) as run:
        play(run)
    (tmp_path / "run.json").write_bytes(content)
    with Recorder(tmp_path) as run:
        play(run)
    assert len(Record(tmp_path)) == 2
    assert len(Record(tmp_path).description["writers"]) == 1


def test_a_folder_that_may_only_be_read_is_read():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        run = Recorder(Path(name) / "run")
        play(run)
        log = run.episode(env="x")

        def look():
            if os.getuid() == 0:  # who may write everywhere
                os.setuid(65534)
            else:
                (run.path / "live").chmod(0o555)
            assert len(Record(run.path)) == 1
            with pytest.raises(RecordError, match=r"cannot record to .*permission denied"):
                Recorder(run.path)

        in_child(look)
        (run.path / "live").chmod(0o755)
        log.end("closed")
        run.close()


@pytest.mark.parametrize("name", ["ep-{}-000.idx", "ep-{}-000.jsonl", "strings-{}.jsonl"])
def test_an_episode_that_cannot_be_moved_is_there_once_when_its_writer_is_gone(tmp_path, name):
    run = Recorder(tmp_path)
    full = tmp_path / name.format(run.writer)
    full.symlink_to("/dev/full")
    log = run.episode(env="x", task={"id": "t"})
    log.step(1, StepResult(None, 1.0))
    with pytest.raises(RecordError, match="no space left"):
        log.end("terminated")
    full.unlink()
    run.close()
    assert [(episode.id, episode.end["reason"]) for episode in Record(tmp_path)] == [(log.id, "terminated")]


def test_a_long_episode_is_moved_in_pieces(tmp_path):
    def act():
        run = Recorder(tmp_path)
        log = run.episode(env="x")
        result = StepResult(0, 1.0)
        for _ in range(300_000):
            log.step(1, result)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        log.end("terminated")
        run.close()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB

    in_child(act)
    record = Record(tmp_path)
    assert record.rows[0].steps == 300_000
    assert record.rows[0].length > 20_000_000


def test_an_error_number_has_a_hint(tmp_path):
    run = Recorder(tmp_path)
    assert "open files" in run.failure(OSError(errno.EMFILE, "Too many open files")).hint
    assert "space" in run.failure(OSError(errno.EDQUOT, "Disk quota exceeded")).hint
    run.close()


def test_a_row_of_the_index_holds_an_episode_of_more_than_4_gib():
    from envweave.record.index import IndexRow, read_rows

    try:
        packed = IndexRow(0, 2**33).pack()
    except struct.error as error:
        pytest.fail(str(error))
    assert len(packed) == 64
    assert next(read_rows(packed)).length == 2**33
