"""What an environment must do: keep the contract, and play the same episodes on a server, in vectors and in forks."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from random import Random
from typing import Any, ClassVar

import pytest

from envweave.errors import UnsupportedError, UsageError
from envweave.registry.make import make
from envweave.registry.vectors import make_vector
from envweave.requests import ToolCall
from envweave.testing.check import check_env
from envweave.testing.episode import PlayedEpisode
from envweave.testing.play import Player
from envweave.testing.prints import fingerprint, observed
from envweave.testing.suites.base import Suite, import_path, shared

ROWS = 3


class EnvironmentSuite(Suite):
    """For an environment, which `env` names."""

    env: ClassVar[Any] = None
    """To be defined: an ID, an `EnvSpec`, a class or a factory."""
    kwargs: ClassVar[Mapping[str, Any]] = {}
    """Arguments of the environment."""
    seed: ClassVar[int] = 0
    """The first of the seeds of the episodes."""
    episodes: ClassVar[int] = 3
    max_steps: ClassVar[int] = 100
    """The longest episode that is played."""
    accepted: ClassVar[Collection[str]] = ()
    """The names of checks whose findings are known and accepted, such as `seed_matters`."""

    @pytest.fixture
    def source(self) -> Any:
        """What `env` names."""
        found = type(self).env  # through the class, where a function is not a method
        if found is None:
            pytest.fail(f"{type(self).__name__} does not define `env`\nhint: write env = 'my-env'", pytrace=False)
        return found

    @pytest.fixture
    def played(self, request: pytest.FixtureRequest, source: Any) -> list[PlayedEpisode]:
        """Episodes in this process with random actions, each with its own seed. The others are compared with them."""
        found = shared(request, "episodes", lambda: nullcontext(self._play(source)))
        if any(episode.failure is not None or not episode.steps for episode in found):
            pytest.skip("an episode cannot be played: see the checks")
        return found

    def test_it_keeps_the_contract(self, source: Any) -> None:
        """Fail with all errors that `check_env` finds and how to fix them; its warnings are warnings here too."""
        options = {"seed": self.seed, "episodes": self.episodes, "max_steps": self.max_steps, **self.kwargs}
        found = [finding for finding in check_env(source, **options).findings if finding.check not in self.accepted]
        errors = [str(finding) for finding in found if finding.severity == "error"]
        if errors:
            pytest.fail("\n".join(errors), pytrace=False)
        for finding in found:
            warnings.warn(str(finding), stacklevel=1)

    def test_a_server_gives_the_same_episodes(self, source: Any, played: list[PlayedEpisode]) -> None:
        with self._served(source) as env:
            for episode in played:
                first = shape(env.reset(seed=episode.seed))
                assert [first, *(shape(repeat(env, call)) for call in calls(episode))] == shapes(episode)

    @pytest.mark.parametrize("backend", ["inproc", "thread"])
    def test_a_vector_gives_the_same_episodes(self, source: Any, played: list[PlayedEpisode], backend: str) -> None:
        with make_vector(source, len(played), backend=backend, **self.kwargs) as vector:
            batch = vector.reset(seed=[episode.seed for episode in played])
            seen = [[shape(result)] for result in batch.results]
            waiting = [list(result.requests) for result in batch.results]
            for step in range(max(len(calls(episode)) for episode in played)):
                for row, episode in enumerate(played):
                    if step < len(calls(episode)):
                        kind, action = calls(episode)[step]
                        tool = next_tool_call(waiting[row]) if kind == "respond" else ""
                        reply = vector.respond(row, tool, None) if tool else vector.step([action], ids=[row])
                        seen[row].append(shape(reply.results[0]))
                        waiting[row] = list(reply.results[0].requests)
            assert seen == [shapes(episode) for episode in played]

    def test_a_fork_and_a_snapshot_continue_the_episode(self, source: Any, played: list[PlayedEpisode]) -> None:
        episode = max(played, key=lambda each: len(each.steps))
        half = len(calls(episode)) // 2
        before, after = calls(episode)[:half], calls(episode)[half:]
        expected = shapes(episode)[half + 1 :]
        with make(source, **self.kwargs) as env:
            env.reset(seed=episode.seed)
            for call in before:
                repeat(env, call)
            try:
                snapshot = env.snapshot()
                fork = env.fork()
            except UnsupportedError as error:
                pytest.skip(f"{error.message}: {error.hint}")
            with fork:
                assert [shape(repeat(fork, call)) for call in after] == expected
            assert [shape(repeat(env, call)) for call in after] == expected
            env.restore(snapshot)
            assert [shape(repeat(env, call)) for call in after] == expected

    def _play(self, source: Any) -> list[PlayedEpisode]:
        with make(source, **self.kwargs) as env:
            player = Player(env, env.unwrapped or env)
            seeds = range(self.seed, self.seed + ROWS)
            return [player.play(seed, self.max_steps, Random(f"suite {seed}")) for seed in seeds]

    @contextmanager
    def _served(self, source: Any) -> Iterator[Any]:
        """A handle on a server of its own."""
        path = {"env_vars": {"PYTHONPATH": import_path()}}
        try:
            handle = make(source, backend="subprocess", provider_options=path, **self.kwargs)
        except UsageError as error:  # a class that another process cannot import; a URL
            pytest.skip(f"{error.message}: {error.hint}")
        with handle:
            yield handle


def calls(episode: PlayedEpisode) -> list[tuple[str, Any]]:
    """The calls of an episode after its reset, with the actions of steps."""
    actions = iter(episode.actions)
    return [(frame.call, next(actions) if frame.call == "step" else None) for frame in episode.frames[1:]]


def repeat(env: Any, call: tuple[str, Any]) -> Any:
    """Make the same call once more; tool calls are answered with None."""
    kind, action = call
    return env.step(action) if kind == "step" else env.respond(next_tool_call(env.pending), None)


def next_tool_call(requests: Any) -> str:
    """The ID of the first tool call among requests."""
    return next(request.request_id for request in requests if isinstance(request, ToolCall))


def shape(result: Any) -> tuple[str, str]:
    """The observation, the reward and the flags of a result in a form that is equal on every backend."""
    return observed(result.observation)[0], fingerprint([result.reward, result.terminated, result.truncated])


def shapes(episode: PlayedEpisode) -> list[tuple[str, str]]:
    return [(frame.observation, frame.verdict) for frame in episode.frames]
