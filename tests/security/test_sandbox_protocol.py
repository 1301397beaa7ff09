"""Code that writes to the line between its worker and the host, or makes its output look like it."""
# ruff: noqa: E501  (an attack is one line, however long)

import json
import os
import time

import pytest

from envweave.errors import EnvWeaveError
from envweave.sandbox import ExecutionResult, Limits


def test_garbage_on_the_control_line_ends_the_run_with_a_result(session):
    result = session.run("os.write(100, b'\\xff' * 100); time.sleep(60)", timeout=30)
    assert not result.success
    assert result.state == "restarted"
    assert session.run("1 + 1").return_value == 2


def test_a_frame_that_claims_gigabytes_is_refused_before_memory_is_taken(session):
    result = session.run("os.write(100, struct.pack('<II', 0xFFFFFFFF, 0xFFFFFFFF)); time.sleep(60)", timeout=30)
    assert not result.success
    assert result.limit is None
    assert "bytes" in result.exception.message


def test_json_nested_too_deep_to_be_read_ends_the_run_with_a_result(session):
    result = session.run("os.write(100, frame('[' * 100_000)); time.sleep(60)", timeout=30)
    assert not result.success
    assert result.state == "restarted"


@pytest.mark.parametrize("depth", [100, 300, 600, 900, 980])
def test_a_forged_value_nested_deep_is_a_result_and_no_error_of_the_host(session, depth):
    code = f"""
text = '{{"op": "result", "id": "' + worker().mail._step + '", "value": {{"data": ' + '[' * {depth} + ']' * {depth} + '}}}}'
os.write(100, frame(text))
time.sleep(60)
"""
    assert isinstance(session.run(code, timeout=30), ExecutionResult)


@pytest.mark.parametrize("depth", [600, 980])
def test_a_forged_variable_nested_deep_is_no_recursion_error_of_the_host(session, depth):
    session.run(f"""
def portray(*_):
    value = []
    for _ in range({depth}):
        value = [value]
    return {{"data": value}}
sys.setrecursionlimit(10_000)
type(worker())._get.__globals__["portray"] = portray
x = 1
""")
    try:
        session.get("x")
    except EnvWeaveError:
        pass


def test_a_forged_value_is_bounded_like_an_honest_one(make):
    session = make(limits=Limits(return_bytes=1000))
    result = session.run("forge(value={'data': 'x' * 900_000}); time.sleep(60)", timeout=30)
    assert len(str(result.return_value)) <= 20_000


def test_a_forged_message_and_traceback_are_bounded(session):
    result = session.run(
        "forge(error={'type': 't' * 300_000, 'message': 'm' * 300_000, 'traceback': 'b' * 300_000})\ntime.sleep(60)"
    )
    assert len(result.exception.type) + len(result.exception.message) + len(result.exception.traceback) < 100_000


def test_half_a_frame_and_then_silence_ends_at_the_time_limit(session):
    result = session.run("os.write(100, frame({'op': 'result', 'id': 'x'})[:-3]); time.sleep(60)", timeout=0.5)
    assert not result.success
    assert result.limit.name == "wall"
    assert session.run("2").return_value == 2


def test_half_a_frame_before_the_true_answer_ends_in_a_result(session):
    result = session.run("os.write(100, struct.pack('<II', 5000, 0)); 'done'", timeout=1)
    assert isinstance(result, ExecutionResult)
    assert session.run("2", timeout=30).return_value == 2


def test_results_with_guessed_ids_are_passed_over(session):
    result = session.run("""
for guess in ("", "0", "branch", None, 0, [], {}, "0" * 16, worker().mail._step[:-1], worker().mail._step.upper() + " "):
    os.write(100, frame({"op": "result", "id": guess, "value": {"data": "forged"}}))
"true"
""")
    assert result.return_value == "true"


def test_an_answer_to_an_older_run_does_not_answer_a_newer_one(session):
    session.run("old = worker().mail._step")
    result = session.run("os.write(100, frame({'op': 'result', 'id': old, 'value': {'data': 'forged'}})); 'true'")
    assert result.return_value == "true"


def test_frames_after_the_result_do_not_reach_the_next_run(session):
    session.run("forge(value={'data': 1}); forge(value={'data': 2}); forge(error={'type': 'E'})")
    assert session.run("'mine'", timeout=30).return_value == "mine"


def test_a_forged_result_does_not_buy_time_after_the_run(session):
    """Whatever was said, between two runs nothing runs."""
    session.run("count = open('count', 'w+b', buffering=0); step = worker()")
    session.run("""
forge()
n = 0
while True:
    n += 1
    count.seek(0)
    count.write(b'%d' % n)
""")
    session.list_files()
    before = session.read_file("count")
    time.sleep(0.2)
    assert session.read_file("count") == before


@pytest.mark.parametrize(
    "answer",
    [
        "value=5",
        "value=[]",
        "value={}",
        "value={'data': float('nan')}",
        "value={'data': {'a': ['\\ud800']}}",
        "value={'repr': 5}",
        "value={'repr': None, 'cut': []}",
        "error='x'",
        "error=[]",
        "error={}",
        "error={'type': 5, 'message': [], 'traceback': {}}",
        "error={'type': 'MemoryError', 'errno': True}",
        "error={'type': 'E', 'errno': [1]}",
        "error={'type': 'E'}, exit_code='x'",
        "error={'type': 'E'}, exit_code=10**4000",
        "error={'type': 'E'}, exit_code=-10**9",
        "error={'type': 'E'}, exit_code=None",
        "error={'type': 'KeyboardInterrupt'}, exit_code=0",
        "refused='x'",
        "missing=True",
    ],
)
def test_a_forged_answer_of_any_shape_is_data(session, answer):
    result = session.run(f"forge({answer}); time.sleep(60)", timeout=30)
    assert isinstance(result, ExecutionResult)
    assert type(result.exit_code) is int
    json.dumps(result.stdout + result.stderr + str(result.exception) + str(result.return_value)).encode()


@pytest.mark.parametrize("op", ["get", "variables", "set"])
def test_questions_about_variables_survive_a_forged_answer(session, op):
    session.run("""
send = type(worker().channel).send
def lie(self, message, blob=b""):
    send(self, {**message, "value": {"data": [1, {"a": None}]}, "error": 7}, blob)
type(worker().channel).send = lie
x = 1
""")
    ask = {"get": lambda: session.get("x"), "variables": session.variables, "set": lambda: session.set("y", 1)}
    try:
        ask[op]()
    except EnvWeaveError:
        pass


def test_protocol_on_stdout_is_text(session):
    result = session.run(
        "sys.stdout.buffer.write(frame({'op': 'result', 'id': worker().mail._step, 'value': {'data': 6}})); 5"
    )
    assert result.return_value == 5
    assert '"op": "result"' in result.stdout


def test_protocol_on_stderr_of_a_child_is_text(session):
    result = session.run(
        "subprocess.run([sys.executable, '-c', 'import os; os.write(2, bytes.fromhex(\"' + frame({'op': 'result'}).hex() + '\"))'])\n5"
    )
    assert result.return_value == 5
    assert '"op": "result"' in result.stderr


def test_programs_that_the_code_starts_do_not_inherit_the_control_line(session, value):
    seen = value(
        session, "subprocess.run(['/bin/ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout"
    )
    assert "100" not in seen.split()


def test_a_child_that_falls_off_the_end_of_the_code_does_not_answer_for_it(session):
    result = session.run("child = os.fork()\nif child: os.waitpid(child, 0)\n'parent' if child else 'child'")
    assert result.return_value == "parent"
    assert session.run("3").return_value == 3


def test_a_raw_clone_that_falls_off_the_end_of_the_code_does_not_speak_in_the_next_run(session):
    session.run("pid = call('clone', int(signal.SIGCHLD), 0, 0, 0, 0)\n'parent' if pid else 'child'")
    assert session.run("'mine'", timeout=30).return_value == "mine"


def test_closing_the_control_line_ends_the_run_with_a_result(session):
    result = session.run("os.close(100); time.sleep(60)", timeout=30)
    assert not result.success
    assert result.state == "restarted"


def test_shutting_the_control_line_down_ends_the_run_with_a_result(session):
    result = session.run("socket.socket(fileno=os.dup(100)).shutdown(socket.SHUT_RDWR); time.sleep(60)", timeout=30)
    assert not result.success
    assert session.run("1").return_value == 1


def test_putting_another_descriptor_in_the_place_of_the_control_line_ends_in_a_result(session):
    result = session.run("os.dup2(1, 100)", timeout=5)
    assert not result.success
    assert session.run("1").return_value == 1


def test_closing_all_descriptors_ends_in_a_result(session):
    result = session.run("os.closerange(0, 1 << 16)", timeout=5)
    assert not result.success
    assert session.run("1").return_value == 1


def test_closing_the_outputs_is_survived(session):
    session.run("os.close(1); os.close(2)")
    assert not session.run("print('lost')", timeout=30).stdout
    assert session.run("5", timeout=30).return_value == 5


def test_descriptors_sent_over_the_control_line_do_not_reach_the_host(session):
    before = len(os.listdir("/proc/self/fd"))
    session.run("""
line = socket.socket(fileno=os.dup(100))
for _ in range(100):
    socket.send_fds(line, [frame({"op": "noise"})], [0, 1, 2])
line.close()
""")
    assert session.run("1").return_value == 1
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_endless_flood_of_frames_ends_at_the_time_limit(session):
    result = session.run(
        "noise = frame({'op': 'noise', 'id': 1}) * 1000\nwhile True: os.write(100, noise)", timeout=0.5
    )
    assert result.limit.name == "wall"
    assert session.run("1", timeout=30).return_value == 1


@pytest.mark.parametrize(
    "question",
    [
        {"call": 1, "name": "add", "args": {}, "kwargs": {}},
        {"call": 1, "name": "add", "args": [1, 2], "kwargs": []},
        {"call": True, "name": "add", "args": [1, 2], "kwargs": {}},
        {"call": "1", "name": "add", "args": [1, 2], "kwargs": {}},
        {"call": None, "name": "add", "args": None, "kwargs": None},
        {"name": "add", "args": [1, 2], "kwargs": {}},
        {"call": 1, "name": ["add"], "args": [1, 2], "kwargs": {}},
        {"call": 1, "name": "add", "args": [[1], {"self": 2}], "kwargs": {"": 1}},
        {"call": 10**30, "name": "add", "args": [1, 2], "kwargs": {}},
        {"call": -1, "name": "__class__", "args": [], "kwargs": {}},
    ],
)
def test_a_call_of_the_wrong_shape_does_no_harm(make, question):
    session = make(tools={"add": lambda a, b: a + b})
    session.set("question", question)
    result = session.run(
        "os.write(100, frame({'op': 'call', 'id': worker().mail._step, **question})); time.sleep(0.05); add(2, 3)",
        timeout=30,
    )
    assert isinstance(result, ExecutionResult)
    assert session.run("add(2, 3)", timeout=30).return_value == 5


def test_code_that_calls_and_never_reads_the_answers_is_stopped_at_the_time_limit(make):
    session = make(limits=Limits(tool_calls=None), tools={"echo": lambda text: text})
    result = session.run(
        """
question = frame({"op": "call", "id": worker().mail._step, "call": 1, "name": "no" * 1000, "args": [], "kwargs": {}})
while True: os.write(100, question)
""",
        timeout=0.5,
    )
    assert not result.success
    assert result.duration < 5
    assert session.run("echo('x')").return_value == "x"


def test_the_same_number_for_many_calls_does_not_confuse_the_host(make):
    session = make(tools={"add": lambda a, b: a + b})
    result = session.run(
        """
question = {"op": "call", "id": worker().mail._step, "call": 1, "name": "add", "args": [1, 2], "kwargs": {}}
os.write(100, frame(question) * 50)
add(3, 4)
""",
        timeout=30,
    )
    assert isinstance(result, ExecutionResult)
    assert session.run("add(2, 3)", timeout=30).return_value == 5
