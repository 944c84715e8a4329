"""A real browser for the tests of the console: Debian's Chromium, driven by Playwright.

A page of the console must load nothing from other hosts, and nothing in it may break the content security policy or
raise an error. `ConsoleBrowser` collects what the browser complains about, and `check` raises if there is anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
NO_CHROMIUM = "Chromium is not installed: apt-get install chromium"
SLOW_MS = 15_000
# The browser reports a status of 400 or more as an error of the page, and some tests ask for one.
_STATUS = "Failed to load resource: the server responded with a status of"


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Chromium. The test is skipped if there is none."""
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class ConsoleBrowser:
    """One window. `page` is Playwright's page."""

    def __init__(self, browser: Browser, base: str, **context: Any) -> None:
        """`base` is the address of a node's HTTP port. `context` are options of a browser context."""
        self.base = base
        self.context = browser.new_context(ignore_https_errors=True, **context)
        self.context.set_default_timeout(SLOW_MS)
        self.page: Page = self.context.new_page()
        # What the browser complained about.
        self.complaints: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def open(self, path: str) -> Page:
        """Open a page of the console, such as "/console/"."""
        self.page.goto(self.base + path)
        return self.page

    def log_in(self, user: str, password: str) -> None:
        self.open("/console/login")
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def check(self) -> None:
        """Raise if the browser complained about anything."""
        assert self.complaints == []

    def check_accessible(self) -> None:
        """Raise if axe finds something on this page that people with disabilities cannot use."""
        found = Axe().run(self.page).response["violations"]
        problems = [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"][:3]]
        assert problems == [], "\n".join(problems)

    def screenshot(self, path: Path) -> None:
        self.page.screenshot(path=path, full_page=True)

    def close(self) -> None:
        self.context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_STATUS):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.base):
            self.complaints.append(f"loaded {request.url}")
