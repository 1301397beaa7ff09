"""What printed text ends an episode, and what does not. No code is run here."""

import subprocess
import sys

import pytest

from envweave.envs.repl.answers import final_in, printed_answer, printed_variables, was_missed

CONTEXT = "Notes.\nWhen you are done, write FINAL(answer).\nFINAL(from the context)\nFINAL(two\n  lines)\nThe end."


LINES = "a line\n" * 3000


def found(code, said, **variables):
    return printed_answer(code, said, variables.get)


@pytest.mark.parametrize(
    ("code", "said", "answer"),
    [
        ('print(f"FINAL({x})")', "FINAL(42)\n", "42"),
        ('print("FINAL(" + str(x) + ")")', "FINAL(42)\n", "42"),
        ('print("FINAL({})".format(x))', "FINAL(42)\n", "42"),
        ('print("FINAL(%s)" % x)', "FINAL(42)\n", "42"),
        ('print("all done", f"FINAL({x})", sep="\\n")', "all done\nFINAL(42)\n", "42"),
        ('print(f"  FINAL({x})  ")', "  FINAL(42)  \n", "42"),
        ('print(f"FINAL({x})\\r")', "FINAL(42)\r\n", "42"),
        ('print(f"FINAL({x})")', "FINAL(f(1, (2, 3)))\n", "f(1, (2, 3))"),
        ('print(f"FINAL({x})")', "FINAL(a :) b)\n", "a :) b"),
        ('print(f"FINAL({x})")', "FINAL(a ( b)\n", "a ( b"),
        ('print(f"FINAL({x})")', "FINAL()\n", ""),
        ('print(f"FINAL({x})")', "FINAL(one\ntwo (2)\n\nthree)\nmore\n", "one\ntwo (2)\n\nthree"),
        ('print(f"FINAL({x})")', "FINAL(" + LINES + "end)\n", LINES + "end"),
        ('print(f"FINAL({x})")', "FINAL(a\u2028b\x0cc\x85d)\n", "a\u2028b\x0cc\x85d"),
        ('print("FINAL(1)"); print("FINAL(2)")', "FINAL(1)\nFINAL(2)\n", "1"),
        ("await f()\nprint(f'FINAL({x})')", "FINAL(3)\n", "3"),
        ('print(f"FINAL({x})")  # \\d', "FINAL(3)\n", "3"),
    ],
)
def test_what_code_means_to_print_is_an_answer(code, said, answer):
    assert found(code, said) == answer


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(context)", CONTEXT),
        ("print(context[:500])", "FINAL(from the cont"),
        ("print(llm_query('how?'))", "FINAL(42)\n"),
        ("print(x)", "FINAL(42)\n"),
        ('print("the answer is FINAL(42)")', "the answer is FINAL(42)\n"),
        ('print("MYFINAL(42)")', "MYFINAL(42)\n"),
        ('print("FINAL(42) or so")', "FINAL(42) or so\n"),
        ('print("FINAL(42")', "FINAL(42\n"),
        ('print("FINAL (42)")', "FINAL (42)\n"),
        ('print("final(42)")', "final(42)\n"),
        ("# FINAL(x)\nprint(out)", "FINAL(42)\n"),
        ("if re.search(r'FINAL\\((.*)\\)', out): print(out)", "FINAL(42)\n"),
        ('msg = f"FINAL({x})"; print(msg)', "FINAL(42)\n"),
        ('sys.stdout.write("FINAL(42)")', "FINAL(42)"),
        ("def show(x):\n    return f'FINAL({x})'\nprint(show(3))", "FINAL(3)\n"),
        ('print("I will call FINAL(x) later"); print(out)', "I will call FINAL(x) later\nFINAL(42)\n"),
    ],
)
def test_what_it_does_not_mean_is_none(code, said):
    assert found(code, said) is None


@pytest.mark.parametrize(
    "code",
    [
        'out = llm_query("Reply with\\nFINAL(x)"); print(out)',
        'ask = llm_query\nprint(ask("Reply with\\nFINAL(x)"))',
        'for reply in map(llm_query, ["a\\nFINAL(x)"]): print(reply)',
        'def ask(p): return llm_query(p)\nprint(ask("FINAL(x)"))',
    ],
)
def test_what_a_language_model_said_is_no_answer_however_it_was_asked(code):
    assert found(code, "FINAL(42)\n") is None
    assert was_missed(code, "FINAL(42)\n"), "and the agent is told"


def test_code_that_asks_and_answers_means_its_answer():
    code = 'prompt = "Reply with\\nFINAL(x)"\nx = parse(llm_query(prompt))\nprint(f"FINAL({x})")'
    assert found(code, "FINAL(42)\n") == "42"


def test_of_many_printed_answers_the_first_counts():
    said = "".join(f"FINAL(a{number})\n" for number in range(50))
    assert found('for n in range(50): print(f"FINAL(a{n})")', said) == "a0"


@pytest.mark.parametrize("name", ["x", "'x'", '"x"', " x "])
def test_a_printed_variable_is_its_value(name):
    code = 'print("FINAL_VAR(%s)" % name)'
    assert found(code, f"FINAL_VAR({name})\n", x="42") == "42"
    assert found(code, f"FINAL_VAR({name})\n") is None


@pytest.mark.parametrize("name", ["x y", "x.y", "f(x)", "", "x'); import os", "x\ny"])
def test_what_is_no_name_is_no_variable(name):
    assert printed_answer("print('FINAL_VAR(…)')", f"FINAL_VAR({name})\n", lambda name: "42") is None


def test_the_names_of_printed_variables_are_known_before_the_code_runs():
    code = "print('FINAL_VAR(a)')\nprint(\"FINAL_VAR('b')\")\nprint(f'FINAL_VAR( c )')\nprint('FINAL_VAR(\\'a\\')')"
    assert printed_variables(code) == ["a", "b", "c"]
    assert printed_variables("FINAL_VAR('a')") == [], "it is called, not printed"
    assert printed_variables("print(f'FINAL_VAR({name})')") == []
    assert len(printed_variables("\n".join(f"print('FINAL_VAR(a{n})')" for n in range(1000)))) == 20


def test_an_answer_that_was_cut_on_its_way_is_none():
    code = 'print(f"FINAL({x})")'
    said = "FINAL(xxx\n… [100000 bytes cut] …\nxxx)\n"
    assert found(code, said) is None
    assert was_missed(code, said)
    assert found(code, "… [100 bytes cut] …\nFINAL(42)\n") == "42"


def test_words_are_read_too():
    assert final_in("So it is.\nFINAL(42)\n") == ("FINAL", "42")
    assert final_in("FINAL(one\ntwo)") == ("FINAL", "one\ntwo")
    assert final_in("FINAL_VAR(count)") == ("FINAL_VAR", "count")
    assert final_in("I would say FINAL(42)") is None
    assert final_in("FINAL_VAR(a b)\nFINAL(3)") == ("FINAL", "3")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('FINAL(x)')", "FINAL(\n" * 10_000),
        ("print('FINAL(x)')", "FINAL(" * 10_000),
        ("print('FINAL(x)')", "FINAL((\n" * 5_000 + ")" * 20_000),
        ("print('FINAL(y)')", "FINAL(x)\n" * 8_000),
        ("print('FINAL(y)')", "FINAL_VAR(x)\n" * 5_000),
        ("print('FINAL(x)')", "FINAL(" + " " * 60_000),
        ("print('FINAL(x)')", "FINAL(" + ") " * 30_000),
        ("print('FINAL(x)')", " " * 60_000 + "FINAL("),
        ("print('FINAL(x)')", "FINAL(" + "a " * 30_000 + ")"),
        ("x = " + "-" * 90_000 + "1; print('FINAL(x)')", "FINAL(y) \n"),
        ("x = " + "(" * 90_000 + "; print('FINAL(x)')", "FINAL(y) \n"),
        ("x" + ".x" * 45_000 + "; print('FINAL(x)')", "FINAL(y) \n"),
        ("\n".join(f"a{n} = a{n - 1}" for n in range(5000)) + "; llm_query(a4999)", "FINAL(y)\n"),
        ("print('FINAL(x)');" * 500_000, "FINAL(y) \n"),
        ("print('FINAL(x)')\0", "FINAL(y) \n"),
        ("print('FINAL(\ud800)')", "FINAL(y)\n"),
    ],
)
def test_no_output_and_no_code_takes_long_to_look_at(code, said):
    found(code, said)


def test_looking_at_code_warns_nobody():
    code = r"x = '\d'; print('FINAL(1)')"
    call = f"printed_answer({code!r}, 'FINAL(1)', str)"
    look = f"from envweave.envs.repl.answers import printed_answer\nassert {call} == '1'"
    done = subprocess.run([sys.executable, "-W", "error", "-c", look], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
