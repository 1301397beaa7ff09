"""One of our own servers, with an environment for trying connections. Its argument is the settings, as JSON."""

import json
import os
import sys
import time

from envweave.errors import InvalidActionError
from envweave.requests import ToolCall
from envweave.results import StepResult
from envweave.server.app import create_app
from envweave.server.run import serve
from envweave.server.settings import Settings


class Walker:
    """Adds up what it is told, ends at 5, and does odd things on demand."""

    runs = 0

    def __init__(self, *, start=0, build=0.0):
        time.sleep(build)
        self._start = start
        self._at = start

    def reset(self, *, seed=None, start=None, sleep=0.0):
        time.sleep(sleep)
        self._at = self._start if start is None else start
        return self._at, {"seed": seed}

    def step(self, action: int | str):
        type(self).runs += 1
        if isinstance(action, str):
            return self._odd(*action.split())
        self._at += action
        return self._at, float(action), self._at >= 5, False, {"runs": self.runs}

    def _odd(self, name, value="0"):
        if name == "sleep":
            time.sleep(float(value))
            return self.step(1)
        if name == "exit":
            os._exit(3)
        if name == "raise":
            raise ZeroDivisionError("on demand")
        if name == "refuse":
            raise InvalidActionError("not for me")
        if name == "large":
            return "x" * int(value), 0.0, False, False, {}
        return StepResult(self._at, requests=(ToolCall(tool_name=name, arguments={"value": value}),))

    def respond(self, request_id, value):
        return value, 1.0, False, False, {}

    def render(self):
        return f"at {self._at}"

    @property
    def state(self):
        return {"at": self._at, "runs": self.runs}

    def snapshot(self):
        return self._at

    def restore(self, snapshot):
        self._at = snapshot


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    app = create_app(Walker, env_name="walker", **chosen)
    serve(app, Settings(**chosen), "127.0.0.1", 0, lambda url: print(url, flush=True))
