"""Checks of chance: what a seed fixes, what it may change, and what must not depend on anything else."""

from __future__ import annotations

from itertools import islice, zip_longest

from envweave.testing.chance import chance
from envweave.testing.episode import PlayedEpisode
from envweave.testing.life import reset_parameters
from envweave.testing.play import Player, Script
from envweave.testing.report import Problem, Problems, SkippedError, problem_of
from envweave.testing.trial import Trial

SEEDS = 20
"""How many seeds are tried before it is said that the seed does not matter."""

_STEPS_PER_SEED = 100
_SEEDED = "in reset, make random.Random(seed) and draw from that alone; set everything else back"
_UNSEEDED = "take `seed` in reset and draw from random.Random(seed) alone; set everything else back"
_NO_TIMES = "leave out what is different each time (clocks, ids, addresses), or live with this"


def check_seed_repeats(trial: Trial) -> Problems:
    """One instance plays the same episode for the same seed and actions, whatever the global generators say."""
    played = trial.sound
    runs = []
    for state in (1, 1, 2):
        with chance(state):
            runs.append(trial.replay(played))
    fix = _SEEDED if getattr(trial.first.handle, "takes_seed", True) else _UNSEEDED
    global_fix = f"do not use the module `random` or numpy.random itself: {fix}"
    found = [
        difference(runs[0], runs[1], "twice with the same seed and actions", fix),
        difference(runs[0], runs[2], "with another state of the global random generators", global_fix),
        None if played.refusals else difference(played, runs[0], "in a first and in a later episode", fix),
    ]
    problems = sorted(filter(None, found), key=lambda problem: problem.severity)  # an error before a warning
    yield from problems[:1]


def check_seed_repeats_across_instances(trial: Trial) -> Problems:
    """Two instances play the same episode for the same seed and actions."""
    second, played = trial.second, trial.sound
    _needs(trial, "seed_repeats")
    with chance(1):
        one = trial.replay(played)
    with chance(3):
        other = trial.replay(played, on=second)
    yield from _apart(one, other, "on two instances with the same seed and actions", _SEEDED)


def check_seed_matters(trial: Trial) -> Problems:
    """An environment that takes a seed plays different episodes for some of twenty seeds."""
    played = trial.sound
    _needs(trial, "seed_repeats")
    env = trial.first.env
    if "seed" not in reset_parameters(env) and not callable(getattr(env, "seed", None)):
        raise SkippedError("its reset takes no seed")
    for actions in ([], played.actions[:_STEPS_PER_SEED]):
        seen = set()
        for seed in range(trial.seed, trial.seed + SEEDS):
            episode = trial.first.replay(seed, actions, max_steps=trial.max_steps)
            if episode.failure is not None and episode.failure.call == "reset":
                yield problem_of(episode.failure.error, f"try it: env.reset(seed={seed})", what="reset")
                return
            seen.add(tuple((frame.observation, frame.verdict, frame.info) for frame in episode.frames))
        if len(seen) > 1:
            return
    fix = "use the seed in reset, or drop the parameter (Gymnasium wants it in any case: without chance, ignore this)"
    yield Problem(f"reset takes a seed, but {SEEDS} seeds give the same episode", fix, "warning")


def check_refused_action(trial: Trial) -> Problems:
    """An action that was refused with `InvalidActionError` has changed nothing."""
    _ = trial.sound
    _needs(trial, "seed_repeats")
    tried = [episode for episode in trial.episodes if episode.refusals]
    if not tried:
        raise SkippedError("no action was refused")
    fix = "look at the action before anything is changed or drawn, and raise InvalidActionError first"
    pairs = ((episode, trial.replay(episode)) for episode in tried)
    found = (problem for pair in pairs for problem in _apart(*pair, "with refused actions and without", fix))
    yield from islice(found, 1)


def check_interleaving(trial: Trial) -> Problems:
    """Two instances that take turns play the same as each alone."""
    players = trial.first, trial.second
    _ = trial.sound, trial.steps
    _needs(trial, "seed_repeats", "seed_repeats_across_instances")
    if getattr(trial.first.env, "SUPPORTS_CONCURRENT_SESSIONS", True) is False:
        raise SkippedError("it says SUPPORTS_CONCURRENT_SESSIONS = False")
    played = trial.episodes[0], trial.episodes[-1]
    alone = [trial.replay(episode, on=player) for player, episode in zip(players, played, strict=True)]
    together = _together(players, played, trial.max_steps)
    fix = "keep all that changes in the instance: no globals, no attributes of the class, no random.seed"
    pairs = zip(alone, together, strict=True)
    found = (problem for pair in pairs for problem in _apart(*pair, "alone and beside another instance", fix))
    yield from islice(found, 1)


def _together(players: tuple[Player, ...], played: tuple[PlayedEpisode, ...], max_steps: int) -> list[PlayedEpisode]:
    again = [PlayedEpisode(episode.seed) for episode in played]
    games = [
        player.unfold(new, Script(old.actions), max_steps)
        for player, new, old in zip(players, again, played, strict=True)
    ]
    for _ in zip_longest(*games):  # one call of each in turn
        pass
    return again


def _needs(trial: Trial, *names: str) -> None:
    for name in names:
        if trial.failed(name):
            raise SkippedError(f"cannot be told while `{name}` has a finding")


def _apart(one: PlayedEpisode, other: PlayedEpisode, when: str, fix: str) -> Problems:
    """The difference, if it is more than one in `info`: that is for `seed_repeats` to say."""
    problem = difference(one, other, when, fix)
    if problem is not None and problem.severity == "error":
        yield problem


def difference(one: PlayedEpisode, other: PlayedEpisode, when: str, fix: str) -> Problem | None:
    """The first place where two episodes part, or None; a difference in `info` alone is a warning."""
    told: Problem | None = None
    for number, (left, right) in enumerate(zip(one.frames, other.frames, strict=False)):
        where = f"step {number}" if number else "reset"
        for part in ("observation", "verdict"):
            before, after = getattr(left, part), getattr(right, part)
            if before != after:
                name = "observation" if part == "observation" else "[reward, terminated, truncated]"
                return Problem(f"{name} of {where} differs {when}: {before} and {after}", fix)
        if told is None and left.info != right.info:
            told = Problem(f"info of {where} differs {when}: {left.info} and {right.info}", _NO_TIMES, "warning")
    if len(one.frames) != len(other.frames):
        failure = other.failure or one.failure
        reason = f": {failure.error}" if failure is not None else ""
        return Problem(f"an episode of {len(one.frames) - 1} steps has {len(other.frames) - 1} {when}{reason}", fix)
    return told
