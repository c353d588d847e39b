"""A real Chromium for the tests of the page; each test gets a fresh profile and no network."""

from __future__ import annotations

import atexit
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


def missing() -> str | None:
    """Why no browser can be started here, or None."""
    if executable() is None:
        return "no Chromium on this machine (Debian: apt-get install chromium; or set CHROMIUM)"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright is not installed (pip install playwright)"
    return None


def executable() -> str | None:
    """The browser: what CHROMIUM names, or the first that is found."""
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def _driver() -> Any:
    """Playwright's driver, one for all tests: it does not nest."""
    from playwright.sync_api import sync_playwright

    manager = sync_playwright()
    driver = manager.start()
    atexit.register(driver.stop)
    return driver


@contextmanager
def chromium(width: int = 1280, height: int = 800, dark: bool = False) -> Iterator[Any]:
    """A browser context of that size; faults of the page are collected in its `faults`."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with TemporaryDirectory() as profile:
        context = _driver().chromium.launch_persistent_context(
            profile, executable_path=executable(), args=FLAGS, viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light", accept_downloads=True,
        )  # fmt: skip
        faults: list[str] = []
        requests: list[str] = []
        context.on("weberror", lambda error: faults.append(str(error.error)))
        context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        context.on("request", lambda request: requests.append(request.url))
        context.faults, context.requests = faults, requests
        try:
            yield context
        finally:
            context.close()


def wait(tab: Any, expression: str, seconds: float = 10) -> None:
    """Until the expression holds. (Playwright's own waiting evaluates strings, which the page's policy forbids.)"""
    end = time.monotonic() + seconds
    while not tab.evaluate(expression):
        assert time.monotonic() < end, f"never came: {expression}"
        tab.wait_for_timeout(30)


def open_page(context: Any, page: Path | str, state: str = "") -> Any:
    """A tab with this page, drawn."""
    tab = context.new_page()
    tab.goto((page.as_uri() if isinstance(page, Path) else page) + state)
    tab.wait_for_selector("body[data-ready]")
    return tab
