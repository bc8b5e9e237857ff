"""What tests in a browser share: Playwright with Chromium, or a listed skip."""

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
SLOW = 900_000  # milliseconds; nothing takes as long, also on a machine that is many times slower
# By how many pixels the page can be scrolled sideways.
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
