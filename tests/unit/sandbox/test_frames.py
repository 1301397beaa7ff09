import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envweave.sandbox.guest.frames import LENGTHS, BadFrame, Channel, Decoder, Hangup, close_all, encode

MESSAGES = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=4)
FRAMES = st.lists(st.tuples(MESSAGES, st.binary(max_size=100)), max_size=5)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@given(FRAMES, st.data())
def test_frames_come_out_as_they_went_in_wherever_the_stream_is_cut(
    frames: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    stream = b"".join(encode(message, blob) for message, blob in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder, found = Decoder(1 << 20), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        while (frame := decoder.next()) is not None:
            found.append(frame)
    assert found == frames


def test_a_stream_can_come_byte_by_byte() -> None:
    decoder = Decoder(1000)
    *most, last = encode({"op": "x"}, b"blob")
    for byte in most:
        decoder.feed(bytes([byte]))
        assert decoder.next() is None
    decoder.feed(bytes([last]))
    assert decoder.next() == ({"op": "x"}, b"blob")


def test_lone_surrogates_survive() -> None:
    decoder = Decoder(1000)
    decoder.feed(encode({"text": "\ud800"}))
    assert decoder.next() == ({"text": "\ud800"}, b"")


@pytest.mark.parametrize("lengths", [(101, 0), (0, 101), (60, 60), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_a_frame_that_is_too_large_is_refused_before_it_has_come(lengths: tuple[int, int]) -> None:
    decoder = Decoder(100)
    decoder.feed(LENGTHS.pack(*lengths))
    with pytest.raises(BadFrame):
        decoder.next()


def test_a_frame_of_just_the_limit_is_taken() -> None:
    text = json.dumps({"a": 1}).encode()
    decoder = Decoder(len(text) + 3)
    decoder.feed(LENGTHS.pack(len(text), 3) + text + b"xyz")
    assert decoder.next() == ({"a": 1}, b"xyz")


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[1]", b"5", b"null", b'"text"', b"\xff\xfe\xfa", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 10_000],
    ids=lambda text: repr(text[:8]),
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    decoder = Decoder(1 << 20)
    decoder.feed(LENGTHS.pack(len(text), 0) + text)
    with pytest.raises(BadFrame):
        decoder.next()


def test_a_channel_waits_for_a_whole_message(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    data = encode({"op": "x"}, b"blob")
    other.sendall(data + data[:5])
    channel = Channel(one, limit=1000)
    assert channel.receive() == ({"op": "x"}, b"blob")
    assert channel.ready() is None
    other.sendall(data[5:])
    assert channel.receive() == ({"op": "x"}, b"blob")


def test_what_one_channel_sends_the_other_receives(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = (Channel(end, limit=1000) for end in ends)
    one.send({"n": 1})
    one.send({"n": 2}, b"x")
    assert other.receive() == ({"n": 1}, b"")
    assert other.ready() == ({"n": 2}, b"x")


def test_the_end_of_the_stream_is_a_hangup(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    other.sendall(encode({"op": "x"})[:-1])
    other.close()
    with pytest.raises(Hangup):
        Channel(one, limit=1000).receive()


def test_descriptors_come_with_their_message_and_are_not_inherited(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    reader, writer = os.pipe()
    socket.send_fds(other, [encode({"op": "x"})], [reader, writer])
    channel = Channel(one, limit=1000)
    channel.receive()
    received = channel.take(2)
    try:
        os.write(received[1], b"through")
        assert os.read(reader, 100) == b"through"
        assert not any(os.get_inheritable(each) for each in received)
    finally:
        close_all([reader, writer, *received])


def test_descriptors_that_did_not_come_are_missed(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    other.sendall(encode({"op": "x"}))
    channel = Channel(one, limit=1000)
    channel.receive()
    with pytest.raises(BadFrame):
        channel.take(1)


def test_closing_descriptors_twice_harms_nothing() -> None:
    ends = os.pipe()
    close_all(ends)
    close_all(ends)
