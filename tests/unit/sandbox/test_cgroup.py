import subprocess
import sys

from envweave.sandbox import cgroup
from envweave.sandbox.waiting import BLOCKING, drive
from support.need import need


def test_a_group_whose_processes_are_slow_to_end_is_removed_later(monkeypatch):
    groups = cgroup.probe()
    if "pids" not in groups.parents:
        need("cgroups", f"no control groups can be made here: {groups.why}")
    monkeypatch.setattr(cgroup, "_TRIES", 1)
    group = groups.make(memory_bytes=None, processes=8)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        group.add(process.pid)
        drive(group.remove(BLOCKING))
        assert group.folders["pids"].exists()
    another = groups.make(memory_bytes=None, processes=8)
    assert not group.folders["pids"].exists()
    drive(another.remove(BLOCKING))
    assert not another.folders["pids"].exists()
