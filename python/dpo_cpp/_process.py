"""Runs the program, shows what it prints, and turns its errors into exceptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from itertools import dropwhile
from typing import IO, Any

from dpo_cpp._program import FOLDER, environment, program

STOPPED = 143  # the exit status of a run that a signal stopped


class Error(Exception):
    """An error of the program, with its text. `status` is 1 for wrong input, 2 if training failed."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def error_of(lines: list[str], status: int) -> Error:
    text = "\n".join(lines).strip().removeprefix("error: ").replace("\nerror: ", "\n")
    return Error(text or f"dpo ended with status {status}", status)


def start(arguments: Iterable[str], **options: Any) -> subprocess.Popen[str]:
    # In its own session the program gets only the signals that this process sends, not those of the terminal too.
    command = [sys.executable, "-I", "-S", str(FOLDER / "_start.py"), str(os.getpid()), program(), *arguments]
    if not os.access(program(), os.X_OK):
        raise Error(f"the program {program()} is missing; install dpo again, or set DPO_PROGRAM to one that you built")
    return subprocess.Popen(command, env=environment(), text=True, encoding="utf-8", errors="replace", start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def call(*arguments: str, accepts: tuple[int, ...] = (0,), input: str = "", quiet: bool = False) -> str:
    """Runs a command and returns its stdout. Notes and warnings are shown, unless `quiet`."""
    process = start(arguments, stdin=subprocess.PIPE)
    try:
        text, messages = process.communicate(input)
    finally:
        end(process)
    lines = messages.splitlines()
    errors = list(dropwhile(lambda line: not line.startswith("error: "), lines))
    if process.returncode not in accepts or not text and errors:
        raise error_of(errors, process.returncode)
    if lines and not quiet:
        print("\n".join(lines), file=sys.stderr)
    return text


def end(process: subprocess.Popen[str]) -> None:
    """Stops a process that still runs. A run then saves a checkpoint."""
    if process.poll() is None:
        process.terminate()
    process.wait()


class Live:
    """Shows one line that changes, below the lines that stay: in a notebook, or on a terminal. Elsewhere (`is_shown` is
    False) nothing changes, and the program's own lines are printed."""

    def __init__(self) -> None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._notebook = hasattr(shell, "kernel")
        self.is_shown = self._notebook or sys.stderr.isatty()
        self._line = ""
        self._display: Any = None
        self._lock = threading.Lock()

    def show(self, line: str) -> None:
        with self._lock:
            self._line = line
            if self._notebook:
                self._show_in_notebook(line)
            elif self.is_shown:
                print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def print(self, line: str) -> None:
        with self._lock:
            on_terminal = self.is_shown and not self._notebook and self._line
            print(f"\r\033[K{line}\n{self._line}" if on_terminal else line, end="" if on_terminal else "\n", file=sys.stderr,
                  flush=True)

    def _show_in_notebook(self, line: str) -> None:
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]
        if self._display is None and line:
            self._display = display(  # type: ignore[no-untyped-call, unused-ignore]
                {"text/plain": line}, raw=True, display_id=True)
        elif self._display is not None:
            self._display.update({"text/plain": line}, raw=True)


def line_of(update: dict[str, Any]) -> str:
    """Returns the live line of an update."""
    line = f"update {update['counters/updates']} of {update['total_updates']}"
    if update.get("loss/train") is not None:
        line += f"  loss {update['loss/train']:.4f}"
    if update.get("rewards_train/accuracies") is not None:
        line += f"  accuracy {update['rewards_train/accuracies']:.3f}  margin {update['rewards_train/margins']:+.3f}"
    if update.get("examples_per_second") is not None:
        line += f"  {update['examples_per_second']:.1f} examples/s"
    left = update.get("seconds_left")
    return line if left is None else f"{line}, {left:.0f} s left" if left < 120 else f"{line}, {left / 60:.0f} min left"


def read_messages(stream: IO[str], live: Live, errors: list[str]) -> None:
    """Prints the lines of stderr. Lines of updates are left out if they are shown live, and errors become exceptions."""
    for line in stream:
        line = line.rstrip("\n")
        if errors or line.startswith("error: "):
            errors.append(line)
        elif not (live.is_shown and line.startswith("update ")):
            live.print(line)


def read_events(stream: IO[str], live: Live) -> str:
    """Shows the events of a run until it ends. Returns its folder, or "" if it has not begun."""
    folder = ""
    for line in stream:
        event = json.loads(line)
        if event["event"] == "start":
            folder = event["run"]
        elif event["event"] == "update":
            live.show(line_of(event))
    return folder


def follow(arguments: list[str]) -> str:
    """Trains, and returns the folder of the run. Raises Error, or KeyboardInterrupt after the run has stopped with a
    checkpoint."""
    process = start(["train", *arguments, "--json-log"], stdin=subprocess.DEVNULL)
    live, errors, folder = Live(), list[str](), ""
    assert process.stdout and process.stderr
    messages = threading.Thread(target=read_messages, args=(process.stderr, live, errors), daemon=True)
    messages.start()
    try:
        folder = read_events(process.stdout, live)
        process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        read_events(process.stdout, live)
        process.wait()
        raise
    finally:
        end(process)
        live.show("")
        messages.join()
        process.stdout.close()
        process.stderr.close()
    if process.returncode not in (0, STOPPED) or not folder:
        raise error_of(errors, process.returncode)
    return folder
