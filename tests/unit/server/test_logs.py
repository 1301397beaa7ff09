"""Log lines."""

import json
import logging

import pytest

from envweave.server.logs import JSONLines, Lines, configure


def record(message, error=None, **extra):
    made = logging.LogRecord(
        "envweave.server", logging.INFO, "here.py", 1, message, (), error and (type(error), error, None)
    )
    vars(made).update(extra)
    return made


def test_a_line_for_people_has_its_details_at_the_end():
    line = Lines().format(record("session ended", session="ab12", why="idle"))
    assert line[2] == line[5] == ":"
    assert line[8:] == " info    session ended session=ab12 why=idle"


def test_what_a_client_has_written_stays_in_its_line():
    line = Lines().format(record("session ended", env_id="x\n12:00:00 info fine", problem="two words"))
    assert "\n" not in line
    assert r"env_id='x\n12:00:00 info fine' problem='two words'" in line


def test_a_line_for_machines_is_one_object():
    text = JSONLines().format(record("session\nended", ValueError("no"), session="ab12", thing=object))
    assert "\n" not in text
    data = json.loads(text)
    assert data["message"] == "session\nended"
    assert data["session"] == "ab12"
    assert data["level"] == "info"
    assert data["time"].endswith("Z")
    assert "ValueError: no" in data["exception"]


@pytest.mark.parametrize(
    ("level", "ours", "theirs"), [("debug", 10, 30), ("info", 20, 30), ("warning", 30, 30), ("error", 40, 40)]
)
def test_the_web_server_says_no_more_than_warnings(level, ours, theirs, capsys):
    before = [(logger, logger.level, logger.handlers, logger.propagate) for logger in map(logging.getLogger, NAMES)]
    try:
        configure(level, as_json=False)
        assert [logging.getLogger(name).level for name in NAMES] == [ours, theirs]
    finally:
        for logger, old, handlers, propagate in before:
            logger.setLevel(old)
            logger.handlers, logger.propagate = handlers, propagate


NAMES = ("envweave", "uvicorn")
