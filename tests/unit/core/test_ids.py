"""The grammar of environment IDs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envweave.core.ids import EnvID, split_number
from envweave.errors import InvalidIDError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("lineworld", EnvID("", "lineworld")),
        ("LOCAL://counter-v0", EnvID("local", "counter-v0")),
        ("ep://name@1.2", EnvID("ep", "name", "1.2")),
        ("pkg://a.b:C?size=7&deep=true&word=x", EnvID("pkg", "a.b:C", "", {"size": 7, "deep": True, "word": "x"})),
        ("prime://owner/name@1.2.0", EnvID("prime", "owner/name", "1.2.0")),
        ("https://u@host:8/path?x=1", EnvID("https", "u@host:8/path?x=1")),
        ("docker://registry:5000/a/b:tag", EnvID("docker", "registry:5000/a/b:tag")),
        ('x?items=[1, "a"]'.replace(" ", ""), EnvID("", "x", "", {"items": [1, "a"]})),
        ("a.b:C@1?size=7", EnvID("pkg", "a.b:C", "1", {"size": 7})),
        ("x?file=y.py", EnvID("", "x", "", {"file": "y.py"})),
        ("localhost:8000", EnvID("", "localhost:8000")),
        ("my-image:latest", EnvID("", "my-image:latest")),
        ("owner/name", EnvID("", "owner/name")),
        ("game.py", EnvID("file", "game.py")),
        ("path/to/game.py:Game?size=7", EnvID("file", "path/to/game.py:Game", "", {"size": 7})),
        ("./game.py?file=y.py", EnvID("file", "./game.py", "", {"file": "y.py"})),
        ("/me@home/a?b/my game.py:Game", EnvID("file", "/me@home/a?b/my game.py:Game")),
        ("file:///x/game.py:Game", EnvID("file", "/x/game.py:Game")),
        ("./game", EnvID("file", "./game")),
        (".", EnvID("file", ".")),
    ],
)
def test_an_id_is_read_in_parts(text, parsed):
    assert EnvID.parse(text) == parsed
    assert EnvID.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a b",
        "://x",
        "foo://",
        "foo://@1",
        "a@",
        "a?",
        "a?x",
        "a?x=1&x=2",
        "a?=1",
        "1x://y",
        "a\n",
        "a://b://c",
        "./a b.py ",
        "./game.py?",
        "./game.py@",
        "./a\tb.py",
    ],
)
def test_a_malformed_id_is_refused_with_the_grammar_as_hint(text):
    with pytest.raises(InvalidIDError) as caught:
        EnvID.parse(text)
    assert "scheme://locator" in caught.value.hint


@pytest.mark.parametrize("value", [None, 3, b"x", ["a"]])
def test_what_is_not_text_is_refused(value):
    with pytest.raises(InvalidIDError, match="is a string"):
        EnvID.parse(value)


JSON = st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=8), st.lists(st.integers(), max_size=3))


@given(
    st.sampled_from(["", "local", "ep", "x-1"]),
    st.from_regex(r"[a-z][a-z0-9/:._-]{0,9}", fullmatch=True),
    st.sampled_from(["", "1", "1.2.3", "sha256:00ff"]),
    st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), JSON, max_size=3),
)
def test_any_id_survives_being_written_and_read(scheme, locator, version, parameters):
    id = EnvID(scheme, locator, version, parameters)
    read = EnvID.parse(str(id))
    assert read == (id if scheme else replace(id, scheme=read.scheme))  # a bare name may be a path or module:Class
    assert EnvID.parse(str(read)) == read


def test_a_number_at_the_end_is_a_version():
    assert split_number("counter-v12") == ("counter", 12)
    assert split_number("counter") == ("counter", None)
    assert split_number("v1") == ("v1", None)
