"""The conformance suites find what is broken: each implementation in `broken_implementations` fails where it should."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BROKEN = Path(__file__).parent / "broken_implementations"

CONTRACT, SERVER, FORK = (
    "it_keeps_the_contract",
    "a_server_gives_the_same_episodes",
    "a_fork_and_a_snapshot_continue_the_episode",
)
VECTOR = "a_vector_gives_the_same_episodes[inproc]"
LOG_ORDER, SEEDS, ECHO = (
    "log_events_come_in_their_order",
    "seeds_draw_the_same_chance_on_both_sides",
    "echo_says_the_same",
)
LINEWORLD = "episodes_of_lineworld[False]"
REFUSED_RESET = "wrong_resets_are_refused_and_change_nothing"
AUTORESET = "autoreset_keeps_the_last_observation_and_begins_the_next_episode"
ROW_SEEDS, ROW_SUBSET = "environment_i_gets_the_seed_plus_i", "a_subset_can_be_stepped"
ROW_CLOSE = "close_closes_every_environment_and_twice_is_harmless"
ROW_FAILURE = "one_failure_costs_one_row_and_the_slot_is_rebuilt_for_its_reset[13]"
TASKS, HIDDEN = "a_task_is_selected_by_index_id_row_and_seed", "the_list_has_no_hidden_field"
ROW_TASKS = "a_task_is_the_same_in_each_row_as_in_a_single_environment"
ROW_AUTORESET = "an_end_with_autoreset_keeps_the_last_observation"
START, TWICE = (
    "a_server_answers_once_it_is_ready_and_is_gone_after_stop",
    "it_cannot_be_started_twice_and_goes_on",
)
LOG = "the_log_can_be_read_whole_or_from_its_end"
ENDED = "check_reports_a_server_that_has_ended_with_its_exit_code_and_its_log"
FILES, TOOL = "files_are_there_at_the_start", "a_tool_takes_arguments_and_gives_data_back"
STDERR = "what_goes_to_stderr_is_kept_apart"

FAILS = {  # and the other tests of the same list pass
    "environments": {
        "Sound": [],
        "IgnoresSeed": [CONTRACT, SERVER, VECTOR, FORK],
        "SharesState": [CONTRACT, VECTOR, FORK],
        "DependsOnTheProcess": [SERVER],
        "SharesItsSnapshot": [FORK],
    },
    "transports": {
        "LosesRequests": [LOG_ORDER, SEEDS, ECHO, LINEWORLD, REFUSED_RESET, AUTORESET, TASKS],
        "Rounds": [LINEWORLD, REFUSED_RESET, AUTORESET],
        "TranslatesErrors": [REFUSED_RESET],
        "UsesOneSeed": [LOG_ORDER, SEEDS, LINEWORLD, AUTORESET, TASKS],
        "CountsTasksFromOne": [TASKS],
        "ListsAnswers": [HIDDEN],
        "IgnoresAutoreset": [AUTORESET],
    },
    "vectors": {
        "SameSeed": [ROW_SEEDS],
        "OneTask": [ROW_TASKS],
        "WrongRows": [ROW_SUBSET],
        "Unclosed": [ROW_CLOSE],
        "RaisesFailures": [ROW_FAILURE],
        "IgnoresAutoreset": [ROW_AUTORESET],
    },
    "providers": {
        "KeepsLog": [LOG],
        "StartsTwice": [TWICE],
        "SeesNoEnd": [ENDED],
        "KeepsURL": [START],
    },
    "sandboxes": {
        "WithoutFiles": [FILES],
        "WithoutTools": [TOOL],
        "MixedOutput": [STDERR],
    },
}
TESTS = {
    "environments": [CONTRACT, SERVER, VECTOR, FORK],
    "transports": [LOG_ORDER, SEEDS, ECHO, LINEWORLD, REFUSED_RESET, AUTORESET, TASKS, HIDDEN],
    "vectors": [ROW_SEEDS, ROW_SUBSET, ROW_CLOSE, ROW_FAILURE, ROW_AUTORESET, ROW_TASKS],
    "providers": [START, TWICE, LOG, ENDED],
    "sandboxes": [FILES, TOOL, STDERR],
}


def run(folder, *tests):
    """Run tests of broken implementations in a folder. Returns the output, and the failed tests of each class."""
    shutil.copytree(BROKEN, folder, dirs_exist_ok=True)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    plugins = ["-p", "envweave.testing.plugin", "-p", "no:cacheprovider"]  # without others, which load slowly
    command = [sys.executable, "-m", "pytest", *plugins, "--junitxml=report.xml"]
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, *tests], cwd=folder, env=env, capture_output=True, text=True, check=False)
    failed = {}
    for case in ET.parse(folder / "report.xml").iter("testcase"):
        found = failed.setdefault(case.get("classname").rpartition(".Test")[2], [])
        if any(child.tag in ("failure", "error") for child in case):
            found.append(case.get("name").removeprefix("test_"))
    return done.stdout + done.stderr, failed


@pytest.mark.parametrize("kind", FAILS)
def test_a_broken_implementation_fails_where_it_is_broken_and_nowhere_else(kind, tmp_path):
    chosen = [f"test_{kind}.py::Test{name}::test_{test}" for name in FAILS[kind] for test in TESTS[kind]]
    output, failed = run(tmp_path, *chosen)
    assert {name: sorted(found) for name, found in failed.items()} == {
        name: sorted(expected) for name, expected in FAILS[kind].items()
    }, output


def test_a_failure_shows_the_values_and_a_finding_shows_its_fix(tmp_path):
    chosen = [f"TestDependsOnTheProcess::test_{SERVER}", f"TestIgnoresSeed::test_{CONTRACT}"]
    output, _ = run(tmp_path, *(f"test_environments.py::{test}" for test in chosen))
    assert re.search(r"E +At index 1 diff: \('\d+', '\[1.0, false, false\]'\) != ", output), output
    assert "error seed_repeats: " in output
    assert "  fix: " in output


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (f"test_environments.py::TestNamesNothing::test_{CONTRACT}", "TestNamesNothing does not define `env`"),
        (f"test_transports.py::TestDefinesNothing::test_{ECHO}", "does not define the fixture 'connect'"),
    ],
)
def test_a_class_that_does_not_say_what_it_tests_is_an_error_with_a_hint(tmp_path, test, message):
    output, failed = run(tmp_path, test)
    assert len(next(iter(failed.values()))) == 1
    assert message in output
    assert "hint: " in output


def test_the_mark_selects_the_suites(tmp_path):
    (tmp_path / "test_own.py").write_text("def test_mine():\n    pass\n")
    output, failed = run(tmp_path, "-m", "not conformance", "--strict-markers", ".")
    assert re.search(r"1 passed, \d{3,} deselected", output), output
    assert list(failed) == ["test_own"]


def test_the_plugin_loads_little():
    heavy = ["docker", "fastapi", "httpx", "kubernetes", "mcp", "msgspec", "numpy", "pydantic", "uvicorn", "websockets"]
    code = f"import sys, envweave.testing.plugin; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
