import pytest

from envweave.client.address import Address
from envweave.errors import UsageError


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000",
        "http://localhost:8000/",
        "http://localhost:8000/ws",
        "http://localhost:8000/ws/",
        "ws://localhost:8000",
        "ws://localhost:8000/ws",
        " ws://localhost:8000/ ",
    ],
)
def test_one_server_has_one_address_however_it_is_typed(url):
    assert Address.parse(url) == Address("http://localhost:8000", "ws://localhost:8000/ws", "localhost:8000")


def test_secure_addresses_stay_secure_and_paths_are_kept():
    address = Address.parse("https://example.org/envs/echo/")
    assert address.http == "https://example.org/envs/echo"
    assert address.ws == Address.parse("wss://example.org/envs/echo/ws").ws == "wss://example.org/envs/echo/ws"


def test_a_query_goes_to_the_websocket_only():
    address = Address.parse("ws://localhost:8000/ws?session_id=7")
    assert (address.http, address.ws) == ("http://localhost:8000", "ws://localhost:8000/ws?session_id=7")


def test_a_password_in_the_address_is_not_in_its_name():
    assert Address.parse("http://me:secret@localhost:8000").name == "localhost:8000"


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://localhost", "http://", "", "http://:80", "http://h:port", None, 8000]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="not the address of a server"):
        Address.parse(url)
