"""One headless Chromium for all tests of a module.

Playwright keeps an event loop in the thread that uses it: until the browser is closed, `asyncio.run` belongs elsewhere.
"""

import pytest
from browser_kit import FLAGS, chromium, why_no_browser


@pytest.fixture(scope="module")
def browser():
    if (reason := why_no_browser()) is not None:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(30_000)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if _is_ours(request.url) else wrong.append(request.url))
    yield page
    context.close()
    assert not wrong, "the page failed, or asked for something elsewhere"


def _is_ours(url):
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))
