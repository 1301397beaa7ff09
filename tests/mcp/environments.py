"""Environments with tools, for `envweave serve pkg://environments:…`."""

import asyncio
import os
import threading
from dataclasses import dataclass

from envweave.core.environment import AsyncEnvironment, Environment
from envweave.tools import Tool, ToolRegistry
from envweave.types import Action, Observation

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class Note(Action):
    text: str


@dataclass
class Seen(Observation):
    notes: int = 0


@dataclass
class Place:
    x: int
    y: int = 0


class Notebook(Environment[Note, Seen]):
    """A place for notes. A step writes one, and so does a tool; the third step ends the episode."""

    def __init__(self):
        self.notes = None
        self.busy = threading.Lock()

    def reset(self, *, seed=None):
        self.notes = []
        return Seen()

    def step(self, action):
        with self.alone():
            self.notes.append(action.text)
            steps = sum(not note.startswith("tool:") for note in self.notes)
            return Seen(notes=len(self.notes), reward=1.0, done=steps >= 3)

    def alone(self):
        """Two calls at once are an error of the server's."""
        assert self.busy.acquire(blocking=False), "two calls at once"
        self.busy.release()
        return self.busy

    @property
    def tools(self):
        return [self.write, self.read, self.move, self.fail, self.unspeakable, self.die]

    def write(self, text: str) -> int:
        """Write a note.

        Args:
            text: What to write.
        """
        with self.alone():
            self.notes.append(f"tool:{text}")
            return len(self.notes)

    def read(self) -> list[str]:
        """All notes."""
        return self.notes

    def move(self, to: Place, kind: str = "walk") -> Place:
        """Move somewhere."""
        return to

    def fail(self, why: str = "no reason") -> None:
        """Fails."""
        raise ValueError(why)

    def unspeakable(self):
        """Gives what JSON cannot carry."""
        return {1, 2}

    def die(self):
        """Ends the process."""
        os._exit(7)


class AsyncNotebook(AsyncEnvironment[Note, Seen]):
    """The same, awaited."""

    def __init__(self):
        self.notes = None
        self.tools = {"write": self.put, "read": self.look}

    async def reset(self, *, seed=None):
        self.notes = []
        return Seen()

    async def step(self, action):
        self.notes.append(action.text)
        return Seen(notes=len(self.notes))

    async def put(self, text: str) -> int:
        """Write a note."""
        await asyncio.sleep(0)
        self.notes.append(f"tool:{text}")
        return len(self.notes)

    def look(self) -> list[str]:
        """All notes."""
        return self.notes


class Shed(Environment):
    """The tools that the conformance suite asks for."""

    def __init__(self):
        self.tools = ToolRegistry(simple, image, audio, resource, mixed, error, DRAFT)

    def reset(self, *, seed=None):
        return {}

    def step(self, action):
        return {}, 0.0, False, False, {}


def simple() -> str:
    """A text."""
    return "This is a simple text response for testing."


def image():
    """A picture."""
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def audio():
    """A sound."""
    return {"type": "audio", "data": "UklGRiQAAABXQVZF", "mimeType": "audio/wav"}


def resource():
    """A file."""
    file = {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    }
    return {"type": "resource", "resource": file}


def mixed():
    """All of them."""
    file = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test":"data"}'}
    return ["Multiple content types test:", image(), {"type": "resource", "resource": file}]


def error():
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


for function, name in (
    (simple, "test_simple_text"),
    (image, "test_image_content"),
    (audio, "test_audio_content"),
    (resource, "test_embedded_resource"),
    (mixed, "test_multiple_content_types"),
    (error, "test_error_handling"),
):
    function.__name__ = name

DRAFT = Tool(
    name="json_schema_2020_12_tool",
    description="Its schema has words of the year 2020.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
    function=lambda **given: given,
)


class Stuck(Notebook):
    """Has a tool that does not return."""

    @property
    def tools(self):
        return {"stick": self.stick, "go": self.go}

    def stick(self):
        """Waits for ever."""
        threading.Event().wait()

    def go(self) -> str:
        """Goes on."""
        return "on"


class Muddled(Notebook):
    """Has tools that are none."""

    tools = (3,)


class Patient(Notebook):
    """Has a tool that waits until a file is there."""

    @property
    def tools(self):
        return [self.write, self.wait]

    def wait(self, path: str) -> str:
        """Waits."""
        open(f"{path}.waiting", "w").close()
        while not os.path.exists(path):
            threading.Event().wait(0.01)
        return "seen"
