"""`envweave replay RUN [EPISODE]`: run recorded episodes again and compare."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from envweave.cli.options import Arguments, AsJSON, RunFolder, keyword_arguments, out, own_output, print_json
from envweave.errors import EnvWeaveError, RecordError, UnsupportedError
from envweave.record import Record, RecordedEpisode
from envweave.record.comparison import Difference
from envweave.record.header import digest_of
from envweave.record.replay import make_arguments
from envweave.record.replay import replay as replay_episode
from envweave.registry.make import make, spec


def replay(
    run: RunFolder,
    episode: Annotated[str | None, typer.Argument(help="A number or an ID; all episodes if absent.")] = None,
    on: Annotated[str | None, typer.Option(help="Where to run it: a backend such as subprocess, or a URL.")] = None,
    to_step: Annotated[int | None, typer.Option(min=0, help="Stop after this step.")] = None,
    arg: Arguments = None,
    as_json: AsJSON = False,
) -> int:
    """Run recorded episodes again with the same seed, task and actions; exit code 1 if a field differs."""
    record = Record(run)
    chosen = list(record) if episode is None else [record[int(episode) if episode.isdecimal() else episode]]
    rows: list[dict[str, Any]] = []
    for each in chosen:
        with own_output(as_json):
            try:
                difference = _replayed(each, on, to_step, keyword_arguments(arg))
            except (UnsupportedError, RecordError) as error:
                if episode is not None:
                    raise
                rows.append({"episode": each.id, "outcome": "skipped", "reason": error.message})
                continue
        rows.append(_row(each, difference))
        if not as_json:
            _show(each, difference)
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["outcome"] == "skipped":
                out.print(f"- {row['episode']}: {row['reason']}", markup=False)
    return int(any(row["outcome"] == "different" for row in rows))


def _replayed(
    episode: RecordedEpisode, on: str | None, to_step: int | None, arguments: dict[str, Any]
) -> Difference | None:
    id, options = make_arguments(episode.header)
    options |= arguments
    if on is not None and "://" in on:
        id, _ = on, options.pop("backend", None)
    elif on is not None:
        options["backend"] = on
    with make(id, **options) as env:
        return replay_episode(episode, env, to_step)


def _row(episode: RecordedEpisode, difference: Difference | None) -> dict[str, Any]:
    if difference is None:
        return {"episode": episode.id, "outcome": "equal", "steps": len(episode.steps)}
    found = {"step": difference.n, "path": difference.path}
    values = {"recorded": difference.recorded, "found": difference.found}
    return {"episode": episode.id, "outcome": "different", **found, **values, "code_changed": _code_changed(episode)}


def _show(episode: RecordedEpisode, difference: Difference | None) -> None:
    if difference is None:
        out.print(f"✓ {episode.id}: {len(episode.steps)} steps are equal", markup=False)
        return
    out.print(f"✗ {episode.id}: {difference}", markup=False, soft_wrap=True)
    out.print(difference.diff(), markup=False, soft_wrap=True)
    if _code_changed(episode):
        out.print(f"the code of {episode.header.get('env')} has changed since it was recorded", markup=False)


def _code_changed(episode: RecordedEpisode) -> bool:
    """Whether the file of the environment is another one now."""
    then = episode.header.get("env_digest")
    try:
        now = digest_of(None, spec(str(episode.header.get("env"))))
    except EnvWeaveError:
        return False
    return None not in (then, now) and then != now
