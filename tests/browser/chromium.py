"""Debian's Chromium, driven by Playwright; what it must not do, and what axe finds."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, sync_playwright

from tests.services.finding import binary, missing

#: Nothing of a browser but its window: no task of its own, no address of its makers.
_ARGUMENTS: Final = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

#: Widths of a telephone and of a desk.
NARROW, WIDE = 390, 1440

#: Where screenshots are left: they are build output.
PICTURES: Final = Path(__file__).parents[2] / "build" / "pictures"

_VIOLATIONS: Final = "async options => (await axe.run(document, options)).violations"

#: Gives the page itself if it is too wide, and what lies outside of it and cannot be scrolled to.
_OUTSIDE: Final = """() => {
  const root = document.documentElement, wide = root.scrollWidth > innerWidth ? [root] : [];
  const out = [...document.querySelectorAll("main *")].filter(
    each => each.checkVisibility() && !each.closest(".scroll, svg, .heard, .skip")
      && each.getBoundingClientRect().right > innerWidth + 1);
  return [...wide, ...out].slice(0, 3).map(each => each.outerHTML.slice(0, 120));
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start one, or do without."""
    program = binary("chromium")
    if program is None:
        missing("Chromium", "scripts/ensure-programs installs it")
    # Its sandbox needs another user than root.
    arguments = [*_ARGUMENTS, "--no-sandbox"] if os.getuid() == 0 else list(_ARGUMENTS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@attrs.define(slots=False)  # Playwright keeps what it makes of a method beside it
class Window:
    """A page in a window of its own, and all that it complained of."""

    page: Page
    complaints: list[str] = attrs.field(factory=list[str])

    def see_error(self, error: Error) -> None:
        """Note that a script of ours failed."""
        self.complaints.append(f"a script failed: {error}")

    def see_dialog(self, dialog: Dialog) -> None:
        """Note that a script ran which is none of ours."""
        self.complaints.append(f"it said {dialog.message}")
        dialog.dismiss()

    def see_console(self, said: ConsoleMessage) -> None:
        """Note what the policy of content refused: nothing of ours needs to be."""
        if "Content Security Policy" in said.text:
            self.complaints.append(said.text)

    def photograph(self, name: str) -> None:
        """Leave a picture of it."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")

    def faults(self, *rules: str) -> list[str]:
        """List what axe has against it, or these of its *rules*; and whether it is too wide."""
        found = self._violations({"runOnly": list(rules)} if rules else {})
        faults = [f"{each['id']}: {_first(each)}" for each in found]
        return [
            *(f"{self.page.url}: {each}" for each in (*faults, *self.complaints)),
            *self.too_wide(),
        ]

    def _violations(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """Run axe; a page that has its half a megabyte is not given it again.

        Only what is violated is told of in full, and brought here: all that is well is long.
        """
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        asked = options | {"resultTypes": ["violations"]}
        found: list[dict[str, Any]] = self.page.evaluate(_VIOLATIONS, asked)
        return found

    def too_wide(self) -> list[str]:
        """Say whether it is wider than its window, or something in it lies outside."""
        outside = self.page.evaluate(_OUTSIDE)
        return [f"{self.page.url}: outside of its window: {each}" for each in outside]


@contextmanager
def window(browser: Browser, *, width: int = WIDE, theme: str = "light") -> Iterator[Window]:
    """Open a window; each has cookies of its own."""
    scheme: Any = theme
    context = browser.new_context(
        viewport={"width": width, "height": 844 if width == NARROW else 900},
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    opened = Window(context.new_page())

    opened.page.on("pageerror", opened.see_error)
    opened.page.on("dialog", opened.see_dialog)
    opened.page.on("console", opened.see_console)
    try:
        yield opened
    finally:
        context.close()


def _first(violation: dict[str, Any]) -> str:
    return str(violation["nodes"][0]["html"])[:200]
