"""Helpers of tests in a browser: they start Playwright with Chromium, or skip the tests with a reason."""

import shutil
import sys

try:
    from playwright.sync_api import Error, sync_playwright
except ImportError:
    print("not run: no playwright in the test environment")
    sys.exit(77)
CHROMIUM = shutil.which("chromium")
if not CHROMIUM:
    print("not run: no chromium here; sudo apt-get install chromium")
    sys.exit(77)

DESKTOP, PHONE = 1280, 390
SLOW = 900_000  # milliseconds; nothing takes this long, also on a machine that is many times slower
# Pixels by which the page can be scrolled sideways.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def start(playwright):
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=SLOW)


def skip_unless_it_starts():
    with sync_playwright() as playwright:
        try:
            start(playwright).close()
        except Error as error:
            print(f"not run: chromium does not start here: {error}")
            sys.exit(77)
