"""Who has started what, and whether that one still lives."""

import os
import re
import subprocess
import sys

import pytest

from envweave.core import process_identity
from envweave.providers.base import is_stray, labels

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux can tell")


def test_we_are_a_number_and_a_time_of_birth():
    assert re.fullmatch(rf"{os.getpid()}\.[1-9]\d*", process_identity.own_identity())
    assert not process_identity.is_dead(process_identity.own_identity())
    assert not process_identity.is_dead(str(os.getpid()))


def test_the_world_is_the_same_for_all_processes_of_this_machine():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from envweave.core.process_identity import machine_id, own_identity; print(machine_id(), own_identity())",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    world, other = done.stdout.split()
    assert world == process_identity.machine_id()
    assert other != process_identity.own_identity()
    assert process_identity.is_dead(other)
    assert process_identity.is_dead(other.partition(".")[0])


def test_a_number_that_another_process_has_now_is_not_its_owner():
    pid = os.getpid()
    assert process_identity.is_dead(f"{pid}.{process_identity.start_time(pid) + 1}")
    assert not process_identity.is_dead(f"{pid}.0")  # its birth was not known


def test_a_process_that_nobody_has_waited_for_yet_counts_as_there():
    child = os.fork()
    if child == 0:
        os._exit(0)
    born = process_identity.start_time(child)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert not process_identity.is_dead(f"{child}.{born}")
    finally:
        os.waitpid(child, 0)
    assert process_identity.is_dead(f"{child}.{born}")


@pytest.mark.parametrize("owner", ["", ".", "self", "self.1", "1.x", "x.1", "-1", "../1", "1 .2", "²", "1.²", "1/2"])
def test_of_what_is_no_owner_nobody_can_tell(owner):
    assert not process_identity.is_dead(owner)


def test_strays_are_of_this_world():
    own = labels()
    dead = {**own, "envweave.owner": "4194304.1"}
    assert not is_stray(own)
    assert is_stray(dead)
    assert not is_stray({**dead, "envweave.world": "4026531836.0123456789ab"})
    assert not is_stray({"envweave.owner": "4194304.1"})
    assert not is_stray({})


def test_labels_have_the_form_that_docker_and_kubernetes_take():
    for name, value in labels().items():
        assert re.fullmatch(r"[a-z.]+", name)
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)
