"""Settings of pip that a build needs."""

from envweave.images.pip import build_arguments, ca_bundle, parse_settings

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


def test_the_setting_with_the_highest_priority_wins():
    found = parse_settings(LISTING)
    assert found["index-url"] == "https://install/simple"
    assert found["proxy"] == "http://proxy:3128"
    assert "odd" not in found


def test_local_folders_are_not_build_arguments():
    assert build_arguments(parse_settings(LISTING)) == {
        "PIP_INDEX_URL": "https://install/simple",
        "PIP_EXTRA_INDEX_URL": "https://a/simple https://b/simple",
        "PIP_PROXY": "http://proxy:3128",
    }
    assert build_arguments({"index-url": "file:///srv/index"}) == {}


def test_the_ca_bundle_is_that_of_pip_or_of_ssl_cert_file(tmp_path, monkeypatch):
    mine, pips = tmp_path / "mine.pem", tmp_path / "pip.pem"
    mine.touch()
    pips.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(mine))
    assert ca_bundle({"cert": str(pips)}) == pips
    assert ca_bundle({"cert": str(tmp_path / "nowhere")}) == mine
    monkeypatch.delenv("SSL_CERT_FILE")
    assert ca_bundle({}) is None
