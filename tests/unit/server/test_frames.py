"""Frames, against the library that everybody uses."""

import pytest
from websockets.frames import Frame, Opcode

from envweave.server.frames import closed_frame, opened_frame, whole_frames

LENGTHS = [0, 1, 125, 126, 65535, 65536]
LONG = 65536
"""From here on a client's frame goes the usual way."""


def client(data, opcode=Opcode.TEXT, *, fin=True):
    return Frame(opcode, data, fin).serialize(mask=True)


def text(length):
    return bytes(32 + n % 90 for n in range(length))


def parsed(data):
    """What a client's own parser makes of a server's bytes."""
    view = memoryview(data)

    def read_exact(size):
        nonlocal view
        assert len(view) >= size, "the frame is too short"
        found, view = bytes(view[:size]), view[size:]
        return found
        yield  # a generator that never has to wait

    parser = Frame.parse(read_exact, mask=False)
    try:
        while True:
            next(parser)
    except StopIteration as stop:
        assert len(view) == 0, "something is left over"
        return stop.value


@pytest.mark.parametrize("length", LENGTHS)
def test_a_frame_of_the_server_is_what_the_library_writes_and_reads(length):
    data = closed_frame(text(length))
    assert data == Frame(Opcode.TEXT, text(length)).serialize(mask=False)
    frame = parsed(data)
    assert (frame.opcode, frame.fin, frame.data) == (Opcode.TEXT, True, text(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_a_frame_of_a_client_is_opened_unless_it_is_long(length):
    expected = text(length) if length < LONG else None
    for _ in range(5):  # a new mask each time
        assert opened_frame(client(text(length))) == expected


@pytest.mark.parametrize("length", [0, 1, 3, 125, 126, 300])
def test_what_is_not_exactly_one_frame_is_not_opened(length):
    whole = client(text(length))
    for end in range(len(whole)):
        assert opened_frame(whole[:end]) is None
    assert opened_frame(whole + b"\x81") is None
    assert opened_frame(whole + whole) is None


@pytest.mark.parametrize(
    "data",
    [
        client(b"x", Opcode.BINARY),
        client(b"x", Opcode.PING),
        client(b"x", Opcode.CONT),
        client(b"", Opcode.CLOSE),
        client(b"x", fin=False),
        Frame(Opcode.TEXT, b"not masked").serialize(mask=False),
        b"\xc1" + client(b"compressed")[1:],
    ],
    ids=["binary", "ping", "continuation", "close", "fragment", "unmasked", "reserved bit"],
)
def test_what_is_not_a_whole_text_message_is_not_opened(data):
    assert opened_frame(data) is None


@pytest.mark.parametrize("length", LENGTHS)
def test_the_end_of_the_last_frame_is_found(length):
    ping, whole = client(b"", Opcode.PING), client(text(length))
    for data in (whole, whole + whole, ping + whole + ping, client(text(length), fin=False)):
        assert whole_frames(data)
        assert not whole_frames(data[:-1])
        assert not whole_frames(data + b"\x81")
        assert not whole_frames(data + whole[:5])


def test_nothing_is_whole_frames_too():
    assert whole_frames(b"")
