"""Work that would change this process for good, done in a child of it."""

import errno
import json
import os
from collections.abc import Callable
from typing import Any


def in_child(work: Callable[[], object], fork: Callable[[], int] = os.fork) -> Any:
    """What `work` returns in a forked child, as JSON; the errno's name if it fails with one; or how the child ended."""
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.write(writer, json.dumps(_outcome(work)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        text = answers.read()
    _, ended = os.waitpid(pid, 0)
    return json.loads(text) if text else f"ended with {ended}"


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except BaseException as error:
        return repr(error)
