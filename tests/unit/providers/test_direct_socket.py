"""The folder of a socket into a container."""

import os
import socket

import pytest

from envweave.providers.direct_socket import DirectSocket, remove_folder


def test_only_we_can_enter_and_anybody_inside_can_write():
    made = DirectSocket()
    try:
        assert os.stat(made.folder).st_mode & 0o777 == 0o700
        assert os.stat(os.path.dirname(made.path)).st_mode & 0o7777 == 0o1777
    finally:
        remove_folder(made.folder)
    assert not os.path.exists(made.folder)


def test_there_is_a_way_in_while_somebody_listens():
    made = DirectSocket()
    try:
        assert made.address() == ""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(made.path)
            assert made.address() == ""
            listener.listen()
            way = made.address()
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(way)
            assert made.address() == way
        assert made.address() == ""
    finally:
        remove_folder(made.folder)


def test_a_link_to_another_socket_is_no_way_in(tmp_path):
    made = DirectSocket()
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "of-the-host"))
            listener.listen()
            os.symlink(tmp_path / "of-the-host", made.path)
            assert made.address() == ""
    finally:
        remove_folder(made.folder)


def test_what_is_put_in_place_of_the_socket_leads_nobody_astray(tmp_path):
    made = DirectSocket()
    try:
        with socket.socket(socket.AF_UNIX) as inside, socket.socket(socket.AF_UNIX) as host:
            inside.bind(made.path)
            inside.listen()
            host.bind(str(tmp_path / "of-the-host"))
            host.listen()
            host.setblocking(False)
            way = made.address()
            os.unlink(made.path)
            os.symlink(tmp_path / "of-the-host", made.path)
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(way)
            inside.accept()[0].close()
            with pytest.raises(BlockingIOError):
                host.accept()
    finally:
        remove_folder(made.folder)


def test_a_file_is_no_way_in_and_costs_no_descriptor():
    made = DirectSocket()
    try:
        before = len(os.listdir("/proc/self/fd"))
        with open(made.path, "w"):
            pass
        assert made.address() == ""
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        remove_folder(made.folder)


def test_a_folder_of_another_name_is_not_removed(tmp_path):
    for name in ("precious", "my-envweave-socket-1"):
        (tmp_path / name).mkdir()
        remove_folder(str(tmp_path / name))
        assert (tmp_path / name).exists()
    (tmp_path / "envweave-socket-link").symlink_to(tmp_path / "precious")
    remove_folder(str(tmp_path / "envweave-socket-link"))
    remove_folder("")
    assert (tmp_path / "precious").exists()
