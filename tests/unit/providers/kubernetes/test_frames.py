import struct

import pytest

from envweave.providers.kubernetes.frames import DATA, ERROR, Reader, close_frame, data_frame


def server_frame(payload, opcode=2, final=True):
    """As a server writes it: without a mask."""
    size = len(payload)
    head = bytes(((0x80 if final else 0) | opcode,))
    if size <= 125:
        return head + bytes((size,)) + payload
    if size < 1 << 16:
        return head + b"\x7e" + struct.pack("!H", size) + payload
    return head + b"\x7f" + struct.pack("!Q", size) + payload


GREETING = server_frame(b"\x00\x40\x1f") + server_frame(b"\x01\x40\x1f")


def unmasked(frame):
    start = {126: 4, 127: 10}.get(frame[1] & 0x7F, 2)
    mask, payload = frame[start : start + 4], frame[start + 4 :]
    return bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))


@pytest.mark.parametrize("size", [0, 1, 124, 125, 126, 65534, 65535, 65536, 70001])
def test_what_is_sent_is_masked_and_carries_its_channel(size):
    data = bytes(n % 251 for n in range(size))
    frame = data_frame(data)
    assert frame[0] == 0x82
    assert frame[1] & 0x80
    assert unmasked(frame) == b"\x00" + data


@pytest.mark.parametrize("chunk", [1, 3, 1000, 10**9])
def test_messages_are_read_however_they_come(chunk):
    sizes = (1, 125, 126, 65535, 65536)
    stream = GREETING + b"".join(server_frame(b"\x00" + bytes(size)) for size in sizes) + server_frame(b"\x01oh")
    reader, found = Reader(), []
    for start in range(0, len(stream), chunk):
        reader.feed(stream[start : start + chunk])
        found += reader.messages()
    assert found == [*((DATA, bytes(size)) for size in sizes), (ERROR, b"oh")]


def test_a_message_in_pieces_stays_on_its_channel():
    reader = Reader()
    reader.feed(GREETING + server_frame(b"\x00ab", final=False) + server_frame(b"\x09!", opcode=9))
    reader.feed(server_frame(b"cd", opcode=0))
    assert list(reader.messages()) == [(DATA, b"ab"), (DATA, b"cd")]
    assert reader.replies[0] == 0x8A
    assert unmasked(reader.replies) == b"\x09!"


def test_after_the_end_nothing_comes():
    reader = Reader()
    reader.feed(GREETING + server_frame(b"\x03\xe8", opcode=8) + server_frame(b"\x00late"))
    assert list(reader.messages()) == []
    assert reader.closed
    assert close_frame()[0] == 0x88
