"""Opens reports in a browser. Only the page is loaded and runs, charts show values, hostile text stays text. Also:
phone width, keyboard, light and dark.

Screenshots are kept in report-screenshots, next to the program.
"""

import unittest
from pathlib import Path

from browser import DESKTOP, OVERFLOW, PHONE, SLOW, skip_unless_it_starts, start, sync_playwright
from report_runs import HOSTILE, ReportRuns
from tiny_run import PROGRAM

SCREENSHOTS = Path(PROGRAM).parent / "report-screenshots"
UNFOLD = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"


class Browser(ReportRuns):
    @classmethod
    def setUpClass(cls):
        SCREENSHOTS.mkdir(exist_ok=True)
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = start(playwright)
        cls.addClassCleanup(cls.browser.close)

    def open(self, path, width=DESKTOP, **options):
        """Opens the page in a new tab. Console messages, dialogs and requests for other files are failures at the
        end."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.addCleanup(context.close)
        context.set_default_timeout(SLOW)
        page = context.new_page()
        seen = []
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: seen.append(f"request: {request.url[:200]}"))
        page.goto(path.as_uri())
        self.addCleanup(lambda: self.assertEqual(seen, [f"request: {path.as_uri()}"]))
        return page

    def written(self, *arguments):
        self.report(*arguments)
        return (self.folder / arguments[0] / "report.html").resolve() if len(arguments) == 1 else self.folder / "comparison.html"

    def test_every_width_and_colour_scheme(self):
        """No element is wider than the page, folded or not."""
        self.make_run("run", "A sentence of the data. " * 40)
        self.make_run("long_words", "x" * 3000)
        pages = {"run": self.written("run"), "long-words": self.written("long_words"), "comparison": self.written("run", "long_words")}
        for name, path in pages.items():
            for scheme in ("light", "dark"):
                for width in (DESKTOP, PHONE, 320):
                    page = self.open(path, width, color_scheme=scheme)
                    with self.subTest(page=name, scheme=scheme, width=width):
                        self.assertEqual(page.evaluate(OVERFLOW), 0)
                        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
                        page.evaluate(UNFOLD)
                        self.assertEqual(page.evaluate(OVERFLOW), 0)
                        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
                        self.assertEqual(colour, "rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)")

    def test_charts(self):
        """Curves lie within their charts. Values are shown at first, at the pointer, with the keys, and without
        scripts."""
        self.make_run("run")
        path = self.written("run")
        for script in (True, False):
            page = self.open(path, java_script_enabled=script)
            figures = page.locator("figure.chart:visible")
            self.assertGreaterEqual(figures.count(), 5)
            for figure in figures.all():
                plot = figure.locator(".plot").bounding_box()
                for curve in figure.locator("[data-points]:not([data-points='']) .curve").all():
                    box = curve.bounding_box()
                    self.assertGreater(box["width"], plot["width"] / 4)
                    self.assertTrue(plot["x"] <= box["x"] and box["x"] + box["width"] <= plot["x"] + plot["width"])
                    self.assertTrue(plot["y"] <= box["y"] and box["y"] + box["height"] <= plot["y"] + plot["height"])
        for width in (DESKTOP, PHONE):
            self.check_values(self.open(path, width))

    def check_values(self, page):
        figure = page.locator("figure.chart").first
        plot, shown = figure.locator(".plot"), figure.locator("output")
        self.assertEqual(shown.inner_text(), "examples 352: training 0.5, held out 0.23103")
        height = page.evaluate("document.documentElement.scrollHeight")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.14, box["y"] + box["height"] / 2)  # the axis begins there
        self.assertEqual(shown.inner_text(), "examples 0: training 0.5, held out 0.6931")
        self.assertEqual(figure.locator(".cursor").evaluate("(line) => getComputedStyle(line).visibility"), "visible")
        plot.focus()
        for key, text in (("ArrowRight", "examples 32: "), ("End", "examples 352: "), ("ArrowRight", "examples 352: "),
                          ("ArrowLeft", "examples 320: "), ("Home", "examples 0: "), ("ArrowLeft", "examples 0: ")):
            page.keyboard.press(key)
            self.assertTrue(shown.inner_text().startswith(text), (key, shown.inner_text()))
        self.assertEqual(page.evaluate("document.documentElement.scrollHeight"), height)  # the page has kept its height

    def test_keyboard(self):
        """The Tab key reaches every link, chart, fold, table and text, and the focus is visible. Enter opens folds."""
        self.make_run("run")
        page = self.open(self.written("run"))
        wanted = page.locator("a:visible, summary:visible, [tabindex='0']:visible").count()
        reached = set()
        for _ in range(wanted):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            self.assertEqual(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid")
        self.assertEqual(len(reached), wanted)
        fold = page.locator("details", has_text="more curves")
        self.assertFalse(fold.evaluate("(details) => details.open"))
        fold.locator("summary").press("Enter")
        self.assertTrue(fold.evaluate("(details) => details.open"))
        page.locator("nav a", has_text="Samples").press("Enter")
        self.assertEqual(page.evaluate("document.querySelector(location.hash).textContent"), "Samples")

    def test_hostile_text(self):
        self.make_run("hostile", HOSTILE)
        self.make_run("other", HOSTILE)
        for path in (self.written("hostile"), self.written("hostile", "other")):
            page = self.open(path)
            page.evaluate(UNFOLD)
            self.assertGreater(page.inner_text("main").count("<script>alert(2)</script><!-- &amp;"), 5)
            self.assertEqual(page.evaluate("[document.scripts.length, document.images.length, document.styleSheets.length]"), [1, 0, 1])

    def test_a_huge_answer_and_a_long_run(self):
        """An answer of 1 MB is shown in part. The test prints how long a page of 10,000 evaluations of 1,000 pairs
        takes to open."""
        self.make_run("huge", "x" * 1_000_000, pairs=2)
        page = self.open(self.written("huge"), PHONE)
        page.evaluate(UNFOLD)
        self.assertIn("characters more)", page.inner_text("main"))
        self.assertEqual(page.evaluate(OVERFLOW), 0)
        self.make_long_run()
        path = self.written("long")
        opened = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        print(f"a run of 10,000 evaluations opens in {min(self.open(path).evaluate(opened) for _ in range(3)):.0f} ms")


if __name__ == "__main__":
    skip_unless_it_starts()
    unittest.main()
