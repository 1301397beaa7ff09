"""Checks of the course of an episode: what is asked and told, how it ends, and how the next one begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from envweave.errors import UnsupportedError, UsageError
from envweave.requests import EpisodeEnd, NeedAction, ToolCall
from envweave.testing.episode import PlayedEpisode
from envweave.testing.report import Problem, Problems, SkippedError, attempt, problem_of
from envweave.testing.trial import Trial


def check_requests(trial: Trial) -> Problems:
    """Somebody is asked to act until the end, and the end is told exactly once, as is each agent's own."""
    _ = trial.frames
    for episode in trial.episodes:
        problem = _asking(episode) or _ending(episode)
        if problem is not None:
            yield problem
            return


def _asking(episode: PlayedEpisode) -> Problem | None:
    fix = "leave need_action to the framework, or ask somebody after each step that does not end the episode"
    for frame in episode.frames:
        asked = [request for request in frame.pending if isinstance(request, NeedAction | ToolCall)]
        if frame.result.done and asked:
            return Problem(f"the episode is over, and yet there is a {asked[0].kind}", "ask nobody after the end")
        if not frame.result.done and not asked:
            return Problem(f"after a {frame.call} nobody is asked to act, and the episode is not over", fix)
        told = {request.agent_id for request in frame.result.requests if isinstance(request, NeedAction)}
        missing = [r.agent_id for r in asked if isinstance(r, NeedAction) and r.agent_id not in told]
        if missing and not any(isinstance(request, ToolCall) for request in asked):
            return Problem(f"{missing[0]} must act after a {frame.call} but is not told so", fix)
    return None


def _ending(episode: PlayedEpisode) -> Problem | None:
    ends = [r for frame in episode.steps for r in frame.result.requests if isinstance(r, EpisodeEnd)]
    whole = [end for end in ends if end.agent_id is None]
    if len(whole) != episode.ended:
        over = "is over" if episode.ended else "goes on"
        return Problem(
            f"the episode {over} and has {len(whole)} episode_end", "tell episode_end once, with the last step"
        )
    counted = Counter(end.agent_id for end in ends)
    twice = [agent for agent, times in counted.items() if times > 1]
    if twice:
        return Problem(f"{twice[0]} has {counted[twice[0]]} episode_end", "tell it once, when the agent leaves")
    return None


def check_tool_calls(trial: Trial) -> Problems:
    """An environment that asks for a tool has `respond` and goes on with the answer."""
    _ = trial.frames
    for episode in trial.episodes:
        failure = episode.failure
        if failure is not None and failure.call == "respond":
            fix = "write respond(self, request_id, value): it returns the rest of the step, or None"
            if isinstance(failure.error, UnsupportedError):
                yield Problem("it asks for a tool but has no method `respond` to take the answer", fix)
            else:
                yield problem_of(failure.error, "an answer may be None: " + fix, what="respond")
            return
    if not any(frame.call == "respond" for episode in trial.episodes for frame in episode.frames):
        raise SkippedError("it asked for no tool")


def check_episode_ends(trial: Trial) -> Problems:
    """Some episode ends by itself."""
    _ = trial.sound, trial.steps
    if any(episode.ended for episode in trial.episodes):
        return
    if all(episode.speechless is not None for episode in trial.episodes):
        raise SkippedError("no episode could be played far enough: see `action_schema`")
    message = f"no episode of {len(trial.episodes)} ended within {trial.max_steps} steps"
    yield Problem(message, "end it, register it with max_episode_steps=…, or check with a larger max_steps", "warning")


def check_step_after_end(trial: Trial) -> Problems:
    """A step after the end is refused, and with a `UsageError`."""
    _ = trial.sound
    ended = next((episode for episode in trial.episodes if episode.ended and episode.actions), None)
    if ended is None or not trial.replay(ended).ended:
        raise SkippedError("no episode ended, or not when it was played again")
    fix = "raise ResetNeededError"
    _, error = attempt(partial(trial.first.handle.step, ended.actions[-1]))
    if error is None:
        yield Problem("a step after the end of the episode is taken", fix)
    elif not isinstance(error, UsageError):
        yield problem_of(error, fix, what="a step after the end")


def check_fresh_episode(trial: Trial) -> Problems:
    """A reset after an episode begins one that is not over and has no steps yet."""
    ended = next((episode for episode in trial.episodes if episode.ended), trial.sound)
    trial.replay(ended)
    fresh = trial.first.replay(trial.seed, max_steps=0)
    if fresh.failure is not None:
        yield problem_of(fresh.failure.error, "see that reset works at any time", what="reset")
        return
    result = fresh.frames[0].result
    parts = result.observation.values() if trial.first.several else [result.observation]
    if result.done or any(_member(part, "done") is True for part in parts):
        yield Problem("reset returns an observation that says `done`", "set everything back in reset")
    state, _ = attempt(trial.first.handle.state)  # what it raises is a matter of `json`
    count = _member(state, "step_count")
    if isinstance(count, int) and count != 0:
        yield Problem(f"the state says step_count={count} right after a reset", "set step_count back in reset")


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
