"""How this machine's pip finds packages."""

from envweave.images.pip import authorities, build_arguments, parsed

LISTING = """\
:env:.proxy='http://proxy:3128'
global.extra-index-url='https://a/simple\\nfile:///srv/index https://b/simple'
global.find-links='/srv/wheels'
global.index-url='https://global/simple'
global.proxy='http://other:3128'
install.index-url="https://install/simple"
install.odd=not python
nonsense
"""


def test_the_nearest_setting_wins():
    found = parsed(LISTING)
    assert found["index-url"] == "https://install/simple"
    assert found["proxy"] == "http://proxy:3128"
    assert "odd" not in found


def test_folders_of_this_machine_are_not_handed_on():
    assert build_arguments(parsed(LISTING)) == {
        "PIP_INDEX_URL": "https://install/simple",
        "PIP_EXTRA_INDEX_URL": "https://a/simple https://b/simple",
        "PIP_PROXY": "http://proxy:3128",
    }
    assert build_arguments({"index-url": "file:///srv/index"}) == {}


def test_authorities_are_those_of_pip_or_of_the_environment(tmp_path, monkeypatch):
    mine, pips = tmp_path / "mine.pem", tmp_path / "pip.pem"
    mine.touch()
    pips.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(mine))
    assert authorities({"cert": str(pips)}) == pips
    assert authorities({"cert": str(tmp_path / "nowhere")}) == mine
    monkeypatch.delenv("SSL_CERT_FILE")
    assert authorities({}) is None
