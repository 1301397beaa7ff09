"""The page at /web, in a real browser."""

import os
import shutil

import pytest

from envweave.testing import running_server

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if "browser" in os.environ.get("ENVWEAVE_REQUIRE", ""):
            pytest.fail("ENVWEAVE_REQUIRE names `browser`, but there is no chromium")
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    page = browser.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    yield page
    page.close()


def newest(page, what):
    page.wait_for_function("what => document.querySelector('#log li b')?.textContent === what", arg=what)
    return page.locator("#log li").first.inner_text()


def test_a_person_plays_an_episode_by_hand(page):
    with running_server("echo") as server:
        page.goto(server.url + "/web")
        page.wait_for_selector("#action textarea[name=message]")
        assert page.inner_text("#name") == "echo"
        page.click("#reset")
        assert "Echo environment ready!" in newest(page, "reset")
        page.fill("#action textarea[name=message]", "Hello, World!")
        page.click("#action button")
        assert "reward 1.3" in newest(page, "step")
        page.click("#state")
        assert '"step_count": 1' in newest(page, "state")
        assert page.problems == []


def test_the_page_asks_for_the_token_and_shows_markup_as_text(page):
    with running_server("echo", "--token", "open sesame") as server:
        page.goto(server.url + "/web")
        assert "token" in newest(page, "server")
        page.fill("#token", "open sesame")
        page.dispatch_event("#token", "change")
        page.wait_for_selector("#action textarea[name=message]")
        page.click("#reset")
        assert "ready" in newest(page, "reset")
        page.fill("#action textarea[name=message]", "<img src=x onerror=alert(1)>")
        page.click("#action button")
        assert "<img src=x" in newest(page, "step")
        assert page.locator("#log img").count() == 0
