"""Opens the page of dpo serve in a browser: live curves, comparison, filters, links, hostile text, phone width,
keyboard, light and dark.

Screenshots are kept in serve-screenshots, next to the program.
"""

import json
import re
import shutil
import time
import unittest
from pathlib import Path

from browser import DESKTOP, OVERFLOW, PHONE, SLOW, skip_unless_it_starts, start, sync_playwright
from report_runs import HOSTILE, TIME, lines
from serve_server import ServedRuns, skip_without_server
from tiny_run import HANGS, PROGRAM

SCREENSHOTS = Path(PROGRAM).parent / "serve-screenshots"
# Number of drawn points of a chart, by its title.
POINTS = "Object.fromEntries(charts.map((chart) => [chart.title, chart.plot.data[0].length]))"


class Browser(ServedRuns):
    @classmethod
    def setUpClass(cls):
        SCREENSHOTS.mkdir(exist_ok=True)
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = start(playwright)
        cls.addClassCleanup(cls.browser.close)

    def open(self, server, fragment="", width=DESKTOP, expected=None, **options):
        """Opens the page in a new tab. Console messages (but `expected`), dialogs and requests to other hosts fail the
        test at its end."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.addCleanup(context.close)
        context.set_default_timeout(SLOW)
        page = context.new_page()
        seen = []
        page.on("console", lambda message: None if expected and expected in message.text else seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith((f"http://{server.host}/", "data:,")) else seen.append(request.url[:200]))
        page.goto(server.address + fragment)
        self.addCleanup(lambda: self.assertEqual(seen, []))
        self.wait(page, "document.getElementById('connection').textContent === 'live'")
        return page

    def wait(self, page, condition):
        """Waits until the condition holds. Playwright's wait_for_function evaluates strings in the page, which its
        policy forbids."""
        end = time.monotonic() + HANGS
        while not page.evaluate(condition):
            self.assertLess(time.monotonic(), end, condition)
            page.wait_for_timeout(50)

    def add_metrics(self, run, **values):
        with open(run / "metrics.jsonl", "a") as metrics:
            metrics.write(json.dumps(values) + "\n")

    def test_live_values_arrive(self):
        run = self.make_run("run")
        (run / "log.txt").write_text(f"{TIME}run folder x\n")
        page = self.open(self.serve())
        self.wait(page, f"{POINTS}.loss === 6")
        self.assertEqual(page.locator("#runs .status").inner_text(), "running")
        output = page.locator("figure.chart output").first
        self.assertEqual(output.inner_text(), "examples 352: training 0.5, held out 0.23103")
        self.wait(page, "document.getElementById('learned').textContent !== ''")
        height = page.evaluate("document.documentElement.scrollHeight")
        self.add_metrics(run, **{"loss/train": 0.125, "counters/examples": 384, "counters/updates": 12})
        self.wait(page, f"{POINTS}.loss === 7")
        self.assertTrue(output.inner_text().startswith("examples 384: training 0.125"))
        self.wait(page, "document.querySelector('#runs td:nth-child(5)').textContent === '0.125'")
        (run / "log.txt").write_text(f"{TIME}run folder x\n{TIME}done: 12 updates\n")
        self.wait(page, "document.querySelector('#runs .status').textContent === 'finished'")
        self.assertEqual(page.evaluate("document.documentElement.scrollHeight"), height)  # the page has kept its height
        page.screenshot(path=SCREENSHOTS / "live.png", full_page=True)
        canvas = page.locator("figure.chart canvas").first
        colours = canvas.evaluate("(c) => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size")
        self.assertGreater(colours, 5)  # the chart is not empty

    def test_a_folder_without_runs(self):
        """The page reports that there is no run, and shows the first run as soon as it appears."""
        page = self.open(self.serve())
        page.wait_for_selector("#no-runs:not([hidden])")
        self.make_run("first")
        self.wait(page, f"{POINTS}.loss === 6")
        self.assertFalse(page.locator("#no-runs").is_visible())

    def test_runs_are_compared(self):
        for name in ("one", "two", "three"):
            self.make_run(name)
        server = self.serve()
        page = self.open(server)
        page.locator("#runs tr", has_text="one").locator("input").check()
        page.locator("#runs tr", has_text="two").locator("input").check()
        shown = page.locator("#runs input:checked").count()
        self.wait(page, f"charts.length > 0 && charts[0].curves.length === {2 * shown}")
        self.assertEqual(page.locator("#legend li").count(), shown)
        page.screenshot(path=SCREENSHOTS / "comparison.png", full_page=True)
        # A link to this view shows it again.
        again = self.open(server, page.evaluate("location.hash"))
        self.wait(again, f"charts.length > 0 && charts[0].curves.length === {2 * shown}")
        self.assertEqual(again.locator("#legend").inner_text(), page.locator("#legend").inner_text())
        page.locator("#runs tr", has_text="two").locator("input").uncheck()
        self.wait(page, f"charts[0].curves.length === {2 * (shown - 1)}")
        page.locator("#run-filter").fill("thr")
        self.assertEqual(page.locator("#runs tr").count(), 1)

    def test_different_held_out_examples_are_named(self):
        for name, pairs in (("one", 16), ("two", 5)):
            self.make_run(name, pairs=pairs)
        page = self.open(self.serve())
        for name in ("one", "two"):
            page.locator("#runs tr", has_text=name).locator("input").check()
        differ = "different held-out sets: 5 and 16 examples; not comparable"
        self.wait(page, f"document.getElementById('held-out').textContent === '{differ}'")
        self.wait(page, f"charts.length > 0 && charts[0].figure.textContent.startsWith('loss ({differ})')")
        self.assertIn("0.720 (n=5)", page.locator("#runs").inner_text())
        page.locator("#runs tr", has_text="two").locator("input").uncheck()
        self.wait(page, "document.getElementById('held-out').hidden")
        self.wait(page, "charts[0].figure.querySelector('figcaption').textContent.startsWith('loss mean')")

    def test_examples_and_samples(self):
        self.make_run("run")
        server = self.serve()
        page = self.open(server)
        page.locator("#tab-examples").click()
        page.wait_for_selector("article.example")
        self.assertEqual(page.locator("article.example h3").first.inner_text(), "example 0: margin +0.000 → -20.000")
        self.assertEqual(page.locator("#examples-count").inner_text(), "40 of 40 held-out examples")
        page.locator("#examples-pages button", has_text="more").click()
        self.wait(page, "location.hash.includes('from=20')")
        page.locator("#examples-filter").fill("good 39")
        self.wait(page, "document.getElementById('examples-count').textContent.startsWith('1 of 40')")
        self.assertIn("good 39 plain", page.locator("article.example").inner_text())
        page.screenshot(path=SCREENSHOTS / "examples.png", full_page=True)
        again = self.open(server, page.evaluate("location.hash"))
        self.wait(again, "document.getElementById('examples-count').textContent.startsWith('1 of 40')")
        self.assertEqual(again.locator("#examples-filter").input_value(), "good 39")
        page.locator("#examples-filter").fill("")
        self.wait(page, "document.getElementById('examples-count').textContent.startsWith('40 of 40')")
        page.locator("#examples-order").select_option("best")
        self.wait(page, "document.querySelector('article.example h3').textContent.startsWith('example 39')")
        page.locator("#examples-steps button", has_text="previous").click()
        self.wait(page, "document.getElementById('examples-steps').textContent.includes('after 160 examples')")
        page.go_back()
        self.wait(page, "document.getElementById('examples-steps').textContent.includes('after 320 examples')")
        page.locator("#tab-samples").click()
        self.wait(page, "document.querySelectorAll('#samples article').length === 3")
        self.assertIn("policy 2 plain", page.locator("#samples").inner_text())
        page.locator("#tab-summary").click()
        page.wait_for_selector("#settings tr")
        self.assertTrue(page.locator("#learned").inner_text().startswith("Did it learn? Yes"))
        with page.context.expect_page() as report:
            page.locator("#report-link").click()
        self.assertIn("Did it learn?", report.value.inner_text("main"))

    def test_hostile_text(self):
        self.make_run("hostile", HOSTILE)
        name = "<img src=x onerror=alert(1)>"
        shutil.copytree(self.folder / "hostile", self.folder / name)
        (self.folder / name / "log.txt").write_text(f"{TIME}run folder x\n{TIME}error: {HOSTILE}\n")
        page = self.open(self.serve())
        page.locator("#runs button", has_text=name).click()
        for view, place in (("examples", "#examples"), ("samples", "#samples")):
            page.locator("#tab-" + view).click()
            self.wait(page, f"document.querySelectorAll('{place} article').length > 2")
            self.assertGreater(page.inner_text(place).count("<script>alert(2)</script><!-- &amp;"), 5)
        self.assertIn("<script>alert(2)</script>", page.inner_text("#runs"))
        self.assertEqual(page.evaluate("[document.scripts.length, document.images.length, document.styleSheets.length]"), [3, 0, 3])
        self.assertEqual(page.locator("#run-title").inner_text(), name)

    def test_a_huge_answer(self):
        self.make_run("huge", "x" * 1_000_000, pairs=2)
        page = self.open(self.serve(), width=PHONE)
        page.locator("#tab-examples").click()
        page.wait_for_selector("article.example")
        self.assertEqual(page.evaluate(OVERFLOW), 0)
        page.locator("article.example button").first.click()
        self.wait(page, "document.querySelector('article.example .quote div').textContent.length > 1000000")
        self.assertEqual(page.evaluate(OVERFLOW), 0)

    def test_every_width_and_colour_scheme(self):
        self.make_run("run", "A sentence of the data. " * 40)
        self.make_run("x" * 200, "x" * 3000)
        server = self.serve()
        for scheme in ("light", "dark"):
            for width in (DESKTOP, PHONE, 320):
                page = self.open(server, width=width, color_scheme=scheme)
                for view in ("curves", "summary", "examples", "samples", "try"):
                    with self.subTest(scheme=scheme, width=width, view=view):
                        page.locator("#tab-" + view).click()
                        page.wait_for_selector({"curves": "figure.chart", "summary": "#settings tr", "examples": "#examples article", "samples": "#samples article", "try": "#try-start"}[view])
                        self.assertEqual(page.evaluate(OVERFLOW), 0)
                        page.screenshot(path=SCREENSHOTS / f"{view}-{scheme}-{width}.png", full_page=True)
                colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(colour, "rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)")

    def test_conversations_are_shown_as_turns(self):
        chat = "<|im_start|>system\n{0}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        run = self.make_run("chat")
        (run / "eval_examples.jsonl").write_text(lines(
            {"example": i, "prompt": chat.format(i), "responses": ["good", "bad"]} for i in range(40)))
        (run / "samples/step-320.jsonl").write_text(lines([{"prompt": chat.format("x" * 4000), "policy": "Yes", "reference": "No"}]))
        self.make_run("plain")
        page = self.open(self.serve())
        page.locator("#runs button", has_text="chat").click()
        page.locator("#tab-examples").click()
        page.wait_for_selector("article.example")
        prompt = page.locator("article.example .quote div").first
        self.assertEqual(prompt.locator("p").all_inner_texts(), ["system\n0", "user\nHi"])
        self.assertNotIn("<|", page.inner_text("#examples"))
        page.screenshot(path=SCREENSHOTS / "conversations.png", full_page=True)
        page.locator("#tab-samples").click()
        page.wait_for_selector("#samples article")
        prompt = page.locator("#samples .quote div").first
        self.assertEqual(prompt.locator("p").count(), 1)
        page.locator("#samples .quote button").click()
        self.wait(page, "document.querySelectorAll('#samples .quote div')[0].children.length === 2")
        # A prompt to try is sent as a message, unless the viewer or the run chooses otherwise.
        page.locator("#tab-try").click()
        self.assertTrue(page.locator("#try-chat").is_checked())
        page.locator("#try-chat").uncheck()
        page.locator("#tab-summary").click()
        page.wait_for_selector("#settings tr")
        page.locator("#tab-try").click()
        self.assertFalse(page.locator("#try-chat").is_checked())
        page.locator("#runs button", has_text="chat").click()
        page.locator("#runs button", has_text="plain").click()
        self.wait(page, "summarised === state.run")
        self.assertFalse(page.locator("#try-chat").is_checked())
        page.locator("#runs button", has_text="chat").click()
        self.wait(page, "document.getElementById('try-chat').checked")

    def test_curves_say_what_they_are(self):
        self.make_run("run")
        page = self.open(self.serve())
        self.wait(page, f"{POINTS}.loss === 6")
        self.assertEqual(page.locator("#curves-key").inner_text(), "training, held out (a dot for each evaluation)")
        self.assertEqual(page.locator("figure.chart:visible figcaption").all_inner_texts(),
                         ["loss mean per example", "reward accuracy share", "reward margin β × nats",
                          "reward of chosen responses β × nats", "reward of rejected responses β × nats"])
        self.assertEqual(page.evaluate("charts.map((chart) => chart.plot.axes[0].label)"), ["training examples"] * 9)

    def test_a_tab_changes_what_is_on_the_screen(self):
        """The tab's content is on the screen at every width, also below a long list of runs."""
        for i in range(12):
            self.make_run(f"run{i:02}")
        server = self.serve()
        for width in (DESKTOP, PHONE):
            page = self.open(server, width=width)
            page.wait_for_selector("#runs tr")
            for view in ("summary", "examples", "samples", "try", "curves"):
                page.locator("#tab-" + view).click()
                shown = page.locator("[role=tabpanel]:visible")
                self.assertEqual(shown.get_attribute("id"), "view-" + view)
                self.assertLess(shown.bounding_box()["y"], 900 * 0.7, (width, view))

    def test_the_list_fits_a_phone(self):
        self.make_run("a" * 100)
        page = self.open(self.serve(), width=PHONE)
        page.wait_for_selector("#runs tr")
        self.wait(page, "document.querySelector('#runs td:nth-child(5)').textContent === '0.5'")
        self.assertEqual(page.evaluate("(() => { const list = document.getElementById('list'); return list.scrollWidth - list.clientWidth; })()"), 0)
        names = "[...document.querySelectorAll('#runs td[data-label]')].map((cell) => getComputedStyle(cell, '::before').content)"
        self.assertEqual(page.evaluate(names), [f'"{name}: "' for name in
                                                ("updates", "loss", "held-out loss", "held-out accuracy", "last change")])

    def test_what_a_run_does_not_have(self):
        run = self.make_run("run")
        shutil.rmtree(run / "samples")
        shutil.rmtree(run / "eval")
        page = self.open(self.serve())
        hint = " sample_during_eval=true draws them at every evaluation."
        page.locator("#tab-samples").click()
        self.wait(page, f"document.getElementById('samples-count').textContent === 'The run has ended without samples.{hint}'")
        page.locator("#tab-examples").click()
        self.wait(page, "document.getElementById('examples-count').textContent === 'The run has ended without evaluations.'")
        (run / "log.txt").write_text(f"{TIME}run folder x\n")
        self.wait(page, "document.querySelector('#runs .status').textContent === 'running'")
        page.locator("#tab-samples").click()
        self.wait(page, f"document.getElementById('samples-count').textContent === 'The run has no samples yet.{hint}'")

    def test_keyboard(self):
        self.make_run("run")
        page = self.open(self.serve())
        self.wait(page, f"{POINTS}.loss === 6")
        plot, output = page.locator("figure.chart .u-over").first, page.locator("figure.chart output").first
        plot.focus()
        for key, text in (("Home", "examples 0: "), ("ArrowRight", "examples 32: "), ("End", "examples 352: "), ("ArrowLeft", "examples 320: ")):
            page.keyboard.press(key)
            self.assertTrue(output.inner_text().startswith(text), (key, output.inner_text()))
        page.locator("#tab-summary").focus()
        page.keyboard.press("ArrowRight")
        self.assertEqual(page.locator("[role=tab][aria-selected=true]").inner_text(), "examples")
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.id"), "examples-filter")
        self.assertEqual(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid")

    def test_a_token(self):
        self.make_run("run")
        server = self.serve("--token", self.folder)
        page = self.open(server)
        page.wait_for_selector("#runs tr")
        self.assertNotIn("token", page.url)

    def test_trying_says_what_is_wrong(self):
        self.make_run("run")
        page = self.open(self.serve(), expected="status of 400")
        page.locator("#tab-try").click()
        page.locator("#try-prompt").fill("Human: hello?")
        page.locator("#try-start").click()
        self.wait(page, "document.getElementById('try-state').textContent === 'the run has no checkpoint yet\\n'")

    def test_a_long_run(self):
        """The test prints how long a page of 10,000 evaluations of 1,000 pairs takes to open."""
        self.make_long_run()
        server = self.serve()
        page = self.open(server)
        self.wait(page, "charts.length > 0 && charts[0].plot.data[0].length > 900")
        print(f"a run of 10,000 evaluations is drawn after {page.evaluate('performance.now()'):.0f} ms")
        self.assertTrue(re.search("10,000|examples 319,9", page.locator("figure.chart output").first.inner_text()))


if __name__ == "__main__":
    skip_without_server()
    skip_unless_it_starts()
    unittest.main()
