import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envweave.sandbox.line import pipe
from envweave.sandbox.output import Output


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 200))
def test_head_and_tail_are_kept_however_the_bytes_come(chunks: list[bytes], limit: int) -> None:
    output = Output(limit)
    for chunk in chunks:
        output.add(chunk)
    whole = b"".join(chunks)
    assert output.total == len(whole)
    assert output.cut == (len(whole) > limit)
    if not output.cut:
        assert output.text() == whole.decode("utf-8", "backslashreplace")
        return
    half = limit // 2
    head, tail = whole[:half], whole[-half:]
    said = f"\n… [{len(whole) - 2 * half} bytes cut] …\n"
    assert output.text() == head.decode("utf-8", "backslashreplace") + said + tail.decode("utf-8", "backslashreplace")


def test_nothing_is_nothing() -> None:
    assert Output(10).text() == ""
    assert not Output(10).cut


def test_just_the_limit_is_not_cut() -> None:
    output = Output(10)
    output.add(b"0123456789")
    assert (output.text(), output.cut) == ("0123456789", False)


def test_memory_stays_bounded_however_much_comes() -> None:
    output = Output(1000)
    for _ in range(10_000):
        output.add(b"x" * 997)
    assert len(output._head) + len(output._tail) < 10_000
    assert output.total == 9_970_000


def test_one_huge_piece_is_cut_too() -> None:
    output = Output(100)
    output.add(b"A" + b"x" * (1 << 20) + b"Z")
    assert output.text().startswith("A")
    assert output.text().endswith("Z")
    assert len(output.text()) < 200


def test_a_character_that_is_cut_in_two_is_shown_escaped() -> None:
    output = Output(3)
    output.add("€€€".encode())
    assert "\\x" in output.text()


def test_draining_takes_what_is_there_and_does_not_wait() -> None:
    ours, theirs = pipe()
    try:
        output = Output(100)
        assert output.drain(ours)
        os.write(theirs, b"now")
        assert output.drain(ours)
        assert output.text() == "now"
    finally:
        os.close(ours)
        os.close(theirs)


def test_draining_says_when_the_stream_has_ended() -> None:
    ours, theirs = pipe()
    os.write(theirs, b"last")
    os.close(theirs)
    output = Output(100)
    assert not output.drain(ours)
    assert output.text() == "last"
    os.close(ours)


@pytest.mark.timeout(60)
def test_draining_ends_even_if_the_stream_never_does() -> None:
    zero = os.open("/dev/zero", os.O_RDONLY)
    try:
        assert Output(100).drain(zero)
    finally:
        os.close(zero)
