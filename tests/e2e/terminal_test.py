"""Output of a run while it trains: on terminals of several sizes, in a pipe, with --quiet, --verbose, --json-log and
NO_COLOR."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from tiny_run import ENDLESS, HANGS, PROGRAM, STOPPED, TRAINING_FAILED, TinyRuns, main

LABELS = ["train", "data", "how", "needs", "writes"]
DIVERGING = ("lr=1e25", "warmup_steps=0", "optimizer=SGD", "max_grad_norm=1e30", "eval_every=null")
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LIVE = re.compile(r"\d+(?:/| of )\d+.* left")


class Screen:
    """Emulates the rows of a terminal, for the few control sequences that a run may use."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [""], 0, 0
        self.wrapped = []  # full rows, whose text continued in the next one

    def write(self, text):
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", text, re.DOTALL):
            if piece == "\r":
                self.column = 0
            elif piece == "\n":
                self.down()
            elif piece.startswith("\x1b"):
                self.control(piece[2:-1], piece[-1])
            else:
                self.put(piece)

    def down(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def control(self, number, name):
        assert name in "mKAJ", name
        if name == "A":
            self.row = max(0, self.row - int(number or 1))
        if name in "KJ":
            self.rows[self.row] = self.rows[self.row][:self.column]
        if name == "J":
            del self.rows[self.row + 1:]

    def put(self, character):
        if self.column == self.columns:
            self.wrapped.append(self.rows[self.row])
            self.column = 0
            self.down()
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[:self.column] + character + row[self.column + 1:]
        self.column += 1


class OnTerminal:
    """Runs a program whose controlling terminal is a pseudo-terminal."""

    def __init__(self, command, columns, **variables):
        self.controller, terminal = pty.openpty()
        self.resize(columns)
        self.screen = Screen(columns)
        self.process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env=os.environ | {"TERM": "xterm-256color"} | variables)
        os.close(terminal)
        self.shown = ""

    def resize(self, columns):
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def type(self, text):
        os.write(self.controller, text.encode())

    def read(self, until=None):
        """Reads until a pattern is in the new output, or to the end. Returns the new output."""
        begin = len(self.shown)
        while until is None or not re.search(until, self.shown[begin:]):
            ready, _, _ = select.select([self.controller], [], [], HANGS)
            assert ready, f"no {until} in {self.shown!r}"
            try:
                piece = os.read(self.controller, 65536).decode()
            except OSError:  # the other end is closed
                piece = ""
            if not piece:
                assert until is None, f"it ended without {until} in {self.shown!r}"
                break
            self.shown += piece
            self.screen.write(piece)
        return self.shown[begin:]

    def finish(self):
        self.read()
        os.close(self.controller)
        return self.process.wait(timeout=HANGS)


def live_lines(shown):
    """Returns the lines that were drawn to be replaced: each follows an erased line, and no line break follows it."""
    return [line for line in re.findall(r"\r\x1b\[K([^\r\n\x1b]+)(?=\r\x1b|\^C)", shown) if line]


class Terminal(TinyRuns):
    def on_terminal(self, name, columns, *more, **variables):
        terminal = OnTerminal(self.train_command(self.folder / name, *more), columns, **variables)
        self.addCleanup(terminal.process.kill)
        return terminal

    def check_screen(self, screen):
        """Checks that no live line is left and that none of the run's lines is wrapped."""
        for row in screen.rows:
            self.assertNotRegex(row, LIVE)
            self.assertNotIn("[=", row)
        for row in screen.wrapped:
            self.assertNotRegex(row, r"^(evaluation|train|how|needs|warning|  \* |done)")

    def check_banner(self, lines):
        begin = next(i for i, line in enumerate(lines) if line.startswith("train "))
        labels = [line.split(" ", 1)[0] for line in lines[begin:lines.index("", begin)]]
        self.assertEqual([label for label in labels if label in LABELS], LABELS)
        self.assertEqual([label for label in labels if label and label not in LABELS], [])

    def test_eighty_columns(self):
        begin = time.monotonic()
        terminal = self.on_terminal("eighty", 80)
        self.assertEqual(terminal.finish(), 0, terminal.shown)
        seconds = time.monotonic() - begin
        self.check_screen(terminal.screen)
        self.check_banner([row.rstrip() for row in terminal.screen.rows])
        updates = [line for line in live_lines(terminal.shown) if "loss" in line]
        self.assertRegex(terminal.shown, r"\r\x1b\[Kupdate 0 of 399 \[ +\]   0 %\r")
        self.assertGreater(len(updates), 3)
        # The live line is drawn at most ten times a second, and again below each printed line.
        self.assertLess(len(updates), 10 * seconds + terminal.shown.count("\n"))
        for line in updates:
            self.assertLessEqual(len(line), 77)
            self.assertRegex(line, r"^(update )?\d+(/| of )399  loss \d\.\d{4}  acc(uracy)? \d\.\d{3}  margin [+-]\d\.\d{3}  "
                                   r"\d+(\.\d)?( examples)?/s(  \d+ (s|min|h) left)?$")
        text = "\n".join(terminal.screen.rows)
        self.assertRegex(text, r"\nevaluation +40 examples  loss")
        self.assertRegex(text, r"\nsaving step-1596\n")
        self.assertRegex(text, r"\ndone: 399 updates, 1,596 examples in \d+ (s|min), [\d,]+ tokens/s in training\n")
        self.assertNotIn("update 1 of", text)
        self.assertIn("\x1b[36mevaluation\x1b[0m", terminal.shown)
        log = (self.folder / "eighty" / "log.txt").read_text()
        for part in ("update 1 of 399 ", "\nMemory", "\nRules\n", "done: 399 updates"):
            self.assertIn(part, log)

    def test_a_terminal_of_a_few_columns(self):
        for columns in (1, 5):
            terminal = self.on_terminal(f"narrow-{columns}", columns, "n_examples=80", "max_grad_norm=1e-6")
            self.assertEqual(terminal.finish(), 0, terminal.shown)
            self.assertIn("\x1b[36mevaluation\x1b[0m", terminal.shown)

    def test_resized_and_stopped(self):
        terminal = self.on_terminal("resized", 200, *ENDLESS)
        self.assertRegex(terminal.read(until=r"\[=* *\] +\d+ %[^\r]* left"), r"update \d+ of 1\d{5}")
        terminal.resize(80)
        terminal.screen.columns = 80
        widths = lambda: [len(line) for line in live_lines(terminal.shown) if "left" in line]
        while not widths() or widths()[-1] > 77:  # the line was drawn before
            terminal.read(until=LIVE)
        drawn = len(widths())
        while len(widths()) < drawn + 3:
            terminal.read(until=LIVE)
        self.assertLessEqual(max(widths()[drawn:]), 77)
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), STOPPED, terminal.shown)
        rows = [row for row in terminal.screen.rows if row]
        self.assertRegex(" ".join(rows[-4:]), r"stopped by a signal after update \d+ of 1\d{5}; dpo train resume=")
        self.assertNotRegex(rows[-1], LIVE)

    def test_a_demonstration_is_not_resumed(self):
        folder = self.folder / "a demo"
        terminal = OnTerminal([PROGRAM, "demo", "--dir", folder], 200)
        self.addCleanup(terminal.process.kill)
        terminal.read(until=LIVE)
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), STOPPED, terminal.shown)
        self.assertIn(f"'dpo demo' starts again from the beginning; dpo train 'resume={folder}/sft' continues that run alone",
                      terminal.shown)

    def test_an_error_leaves_nothing(self):
        terminal = self.on_terminal("failed", 80, *DIVERGING)
        self.assertEqual(terminal.finish(), TRAINING_FAILED, terminal.shown)
        self.check_screen(terminal.screen)
        self.assertRegex(terminal.shown, r"[\n\r](\x1b\[K)?\x1b\[31merror:\x1b\[0m update \d+: ")

    def test_without_colours(self):
        terminal = self.on_terminal("colourless", 80, "n_examples=160", NO_COLOR="1")
        self.assertEqual(terminal.finish(), 0, terminal.shown)
        self.assertLessEqual({found[-1] for found in ESCAPE.findall(terminal.shown)}, {"K"})
        dumb = self.on_terminal("dumb", 80, "n_examples=160", TERM="dumb")
        self.assertEqual(dumb.finish(), 0, dumb.shown)
        self.assertNotIn("\x1b", dumb.shown)
        self.assertIn("\nupdate 40 of 40 ", dumb.shown)

    def test_in_a_pipe(self):
        done = self.train(self.folder / "piped", "n_examples=160")
        self.check(done)
        self.assertFalse({"\r", "\x1b"} & set(done.stderr))
        lines = done.stderr.splitlines()
        self.check_banner(lines)
        self.assertEqual(len([line for line in lines if line.startswith("update ")]), 40)
        self.assertNotIn("Memory", done.stderr)
        self.assertRegex(done.stderr, r"\nwrites  \S+/piped; Ctrl-C saves and stops, dpo train resume=\S+/piped continues\n")
        self.assertEqual(done.stdout, f"{self.folder / 'piped' / 'LATEST'}\n")
        whole = self.train(self.folder / "verbose", "n_examples=160", "--verbose")
        self.check(whole)
        self.assertIn("\nMemory", whole.stderr)
        self.assertNotIn("\nwrites ", whole.stderr)

    def test_a_run_that_is_resumed_says_what_it_did_itself(self):
        run = self.folder / "resumed"
        self.check(self.train(run, "n_examples=80"))
        more = self.train(run, "n_examples=160", f"resume={run}")
        self.check(more)
        self.assertRegex(more.stderr, r"(?m)^train .*, resumed from \S+/resumed/step-80")
        self.assertRegex(more.stderr, r"\ndone: 40 updates, 160 examples; since it was resumed 20 updates in \d+ (s|min), ")
        again = self.train(run, "n_examples=160", f"resume={run}")
        self.check(again)
        self.assertIn("\ndone: 40 updates, 160 examples; all of them before it was resumed\n", again.stderr)
        self.assertRegex(again.stderr, r"\nevaluation: loss \S+ -> \S+, accuracy ")
        unevaluated = self.train(self.folder / "unevaluated", "n_examples=8", "eval_every=null")
        self.check(unevaluated)
        self.assertNotIn("evaluation:", unevaluated.stderr)

    def test_quiet(self):
        run = self.folder / "quiet"
        done = self.train(run, "max_grad_norm=1e-6", "n_examples=400", "--quiet")
        self.check(done)
        for line in done.stderr.splitlines():
            self.assertRegex(line, r"^(warning: |  warning |   )")
        self.assertEqual(done.stderr.count("warning: the gradient was clipped"), 1)
        self.assertEqual(done.stdout, f"{run / 'LATEST'}\n")
        self.assertIn("update 1 of 100 ", (run / "log.txt").read_text())
        failed = self.train(self.folder / "quietly-failed", *DIVERGING, "--quiet")
        self.assertEqual(failed.returncode, TRAINING_FAILED)
        self.assertIn("error: update ", failed.stderr)
        both = self.train(run, "--quiet", "--verbose")
        self.assertEqual(both.returncode, 1)

    def events(self, run, *more, **options):
        done = self.train(run, *more, "--json-log", **options)
        return done, [json.loads(line, parse_constant=self.fail) for line in done.stdout.splitlines()]

    def test_json_log(self):
        run = self.folder / "json"
        done, events = self.events(run, "n_examples=160", "best_metric=loss/eval", "max_grad_norm=1e-6", "n_examples=400")
        self.check(done)
        self.assertIn("\nupdate 100 of 100 ", done.stderr)  # the plain text for people, as without the option
        of_kind = lambda kind: [event for event in events if event["event"] == kind]
        self.assertEqual({event["event"] for event in events}, {"start", "update", "evaluation", "warning", "checkpoint", "end"})
        metrics = self.metrics(run)
        for kind, key in (("update", "grad_norm"), ("evaluation", "loss/eval")):
            known = [line for line in metrics if key in line]
            self.assertEqual([{name: event[name] for name in line} for line, event in zip(known, of_kind(kind), strict=True)], known)
        start, end = of_kind("start")[0], of_kind("end")[0]
        self.assertEqual((start["run"], start["loss"], start["total_updates"]), (str(run), "dpo", 100))
        self.assertNotIn("resumed", start)
        self.assertEqual((end["status"], end["updates"], end["examples"], end["checkpoint"]), (0, 100, 400, str(run / "LATEST")))
        self.assertIs(events[-1], end)
        self.assertEqual([event["path"] for event in of_kind("checkpoint")], [str(run / f"step-{n}") for n in range(40, 401, 40)])
        self.assertFalse([event for event in of_kind("warning") if event["message"].startswith("warning")])
        self.assertLessEqual({"reference", "clipped"}, {event["id"] for event in of_kind("warning")})
        self.assertTrue(of_kind("update")[0]["seconds_left"] > 0)
        self.assertIsNone(of_kind("update")[-1]["seconds_left"])
        done, events = self.events(self.folder / "json-failed", *DIVERGING, "--quiet")
        self.assertEqual((done.returncode, events[-1]["event"], events[-1]["status"]), (2, "end", 2))
        self.assertIn("is NaN or infinite", events[-1]["error"])
        self.assertNotIn("checkpoint", events[-1])


if __name__ == "__main__":
    main()
