"""What tests of servers in containers share: environments that misbehave, and who has started what."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from envweave.client import HTTPEnvClient
from envweave.requests import EpisodeEnd
from support.engine import connect

FAULTS = Path(__file__).parent.parent / "integration" / "fault_scripts"
LABEL = "envweave.owner"


def until(happens, seconds=60.0):
    """What `happens` gives, once that is true."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)
    return found


def misbehaving(name, **variables):
    """Options of any container with our server: it serves an environment of the module `faulty` instead of its own."""
    return {
        "env_vars": {"ENV_ID": f"pkg://faulty:{name}", "PYTHONPATH": "/faults", **variables},
        "volumes": {str(FAULTS): "/faults:ro"},
    }


def running(program, **options):
    """Options of a container that runs a program in Python and not our server."""
    return {"extra": {"entrypoint": ["python3", "-u", "-c", program]}, **options}


def of(engine, pid=None):
    """The containers that a process has started on the daemon, this one if none is named."""
    own = f"{os.getpid() if pid is None else pid}."
    listed = engine.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return [each for each in listed if each.labels[LABEL].startswith(own)]


def only(engine):
    """The container that this process has started last, of those that run."""
    return [each for each in of(engine) if each.status == "running"][-1]


def ends(requests):
    return [request.reason for request in requests if isinstance(request, EpisodeEnd)]


class OverHTTP(HTTPEnvClient):
    """A client over plain HTTP."""


def names_of(url, pid=None):
    with closing(connect(url)) as engine:
        return {each.name for each in of(engine, pid)}


def envweave(*arguments, **variables):
    """The command, as it is typed."""
    return subprocess.run(
        [sys.executable, "-m", "envweave", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=100,
    )


def script(program, *arguments, **options):
    """A process that runs a program in Python and says when it is where the test wants it."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )
