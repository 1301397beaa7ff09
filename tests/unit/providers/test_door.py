"""The folder of a socket into a container."""

import os
import socket

from envweave.providers import door
from envweave.providers.door import Door


def test_only_we_can_enter_and_anybody_inside_can_write():
    made = Door()
    try:
        assert os.stat(made.folder).st_mode & 0o777 == 0o700
        assert os.stat(os.path.dirname(made.path)).st_mode & 0o7777 == 0o1777
    finally:
        door.remove(made.folder)
    assert not os.path.exists(made.folder)


def test_it_is_open_while_somebody_listens():
    made = Door()
    try:
        assert not made.is_open()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(made.path)
            assert not made.is_open()
            listener.listen()
            assert made.is_open()
        assert not made.is_open()
    finally:
        door.remove(made.folder)


def test_a_path_that_is_too_long_for_a_socket_is_no_door(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    made = Door()
    assert not made.is_open()
    door.remove(made.folder)


def test_what_does_not_look_like_a_door_is_not_removed(tmp_path):
    for name in ("precious", "my-envweave-door-1"):
        (tmp_path / name).mkdir()
        door.remove(str(tmp_path / name))
        assert (tmp_path / name).exists()
    (tmp_path / "envweave-door-link").symlink_to(tmp_path / "precious")
    door.remove(str(tmp_path / "envweave-door-link"))
    door.remove("")
    assert (tmp_path / "precious").exists()
