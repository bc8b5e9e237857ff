"""The Python module over the built program: keys, rows, plans, training, reading a run, errors and interruptions."""

import contextlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "python"))

import dpo_cpp as dpo
from dpo_cpp import _arguments, _process, _program, _quoted, _rows
from tiny_run import ENDLESS, TinyRuns, main


class Keys(unittest.TestCase):
    def test_are_written_as_on_the_command_line(self):
        keys = {"loss__beta": 0.1, "lr": 1e-6, "debug": True, "save_every": None, "model": Path("/a/b"), "betas": [0.9, "x y"],
                "data.columns": {"prompt": "question one"}, "lengths": ("train", 2)}
        self.assertEqual(_arguments(None, keys),
                         ["loss.beta=0.1", "lr=1e-06", "debug=true", "save_every=null", "model=/a/b", "betas=[0.9,'x y']",
                          "data.columns={prompt:'question one'}", "lengths=[train,2]"])
        self.assertEqual(_arguments("my.yaml", {}), ["--config", "my.yaml"])

    def test_any_text_is_read_back(self):
        texts = ["plain", "a,b", "it's", "back\\slash", "end\\", "\\'", "\\\\'x'", "[x]", "{a: b}", " padded ", "Ā=ß", '"both" \'kinds\'']
        for text in texts:
            done = subprocess.run([_program.program(), "config", "exp_name=e", "model.name_or_path=m",
                                   f"wandb.project={_quoted(text)}", "--json"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["wandb"]["project"], text)

    def test_a_dict_is_no_data(self):
        with self.assertRaisesRegex(TypeError, "one of its splits"):
            _arguments(None, {"data": {"train": []}})


class Rows(unittest.TestCase):
    ROWS = [{"prompt": "a", "chosen": [{"role": "user", "content": "Ä"}], "score": 0.5}, {"prompt": "b", "chosen": None, "score": 1.0}]

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        variables = mock.patch.dict(os.environ, XDG_CACHE_HOME=scratch.name)
        variables.start()
        self.addCleanup(variables.stop)

    def written(self, data):
        return [json.loads(line) for line in _rows.write_rows(data).read_text().splitlines()]

    def test_are_written_once(self):
        path = _rows.write_rows(self.ROWS)
        self.assertEqual([json.loads(line) for line in path.read_text().splitlines()], self.ROWS)
        self.assertEqual(_rows.write_rows(list(self.ROWS)), path)
        self.assertNotEqual(_rows.write_rows(self.ROWS[:1]), path)
        self.assertEqual(len(list(_rows.cache_folder().iterdir())), 2)
        self.assertEqual(_arguments(None, {"data": self.ROWS}), [f"data={path}"])
        self.assertEqual(_arguments(None, {"datasets": self.ROWS}), [f"datasets=[{path}]"])
        self.assertEqual(_arguments(None, {"data": [self.ROWS, "hh"]}), [f"data=[{path},hh]"])

    def test_of_pandas(self):
        pandas = self.module("pandas")
        frame = pandas.DataFrame(self.ROWS)
        self.assertEqual(self.written(frame), self.ROWS)
        frame["n"] = [1, None]
        self.assertEqual([row["n"] for row in self.written(frame)], [1.0, None])

    def test_of_datasets(self):
        datasets = self.module("datasets")
        self.assertEqual(self.written(datasets.Dataset.from_list(self.ROWS)), self.ROWS)
        with self.assertRaisesRegex(TypeError, "one of its splits"):
            _arguments(None, {"data": datasets.DatasetDict(train=datasets.Dataset.from_list(self.ROWS))})

    def module(self, name):
        try:
            return __import__(name)
        except ImportError:
            self.skipTest(f"there is no {name}")

    def test_that_are_no_json_are_refused(self):
        with self.assertRaisesRegex(TypeError, "row 2 of the data cannot be written as JSON: .*object"):
            _rows.write_rows([{"prompt": "a"}, {"prompt": object()}])
        self.assertEqual(list(_rows.cache_folder().iterdir()), [])
        self.assertIsNone(self.written([{"x": math.nan}])[0]["x"])


class Runs(TinyRuns):
    def keys(self, run, **more):
        """Returns the keys of TinyRuns.train_command."""
        words = (word.split("=", 1) for word in self.train_command(self.folder / run)[2:])
        keys = {name: [str(self.folder / "pairs.jsonl")] if name == "datasets" else value.strip("[]") for name, value in words}
        return {**keys, "local_dirs": [self.folder], "n_examples": 80, **more}

    def trained(self, run, **more):
        messages = io.StringIO()
        with contextlib.redirect_stderr(messages):
            return dpo.train(**self.keys(run, **more)), messages.getvalue()

    def test_plan_and_data(self):
        keys = self.keys("planned")
        plan = dpo.plan(**keys)
        self.assertTrue(plan["fits"])
        self.assertIn("total", repr(plan))
        self.assertGreater(dpo.data(**keys)["splits"]["train"]["examples"], 300)
        with self.assertRaisesRegex(dpo.Error, r"^batch_size: got 'many', .*\nlr: got 'fast', ") as caught:
            dpo.plan(**{**keys, "lr": "fast", "batch_size": "many"})
        self.assertEqual(caught.exception.status, 1)

    def test_a_run_is_trained_and_read(self):
        run, messages = self.trained("whole")
        self.assertRegex(messages, r"(?m)^train +loss=dpo")
        self.assertRegex(messages, r"(?m)^update 20 of 20 ")  # stderr is no terminal here
        self.assertTrue(run.finished)
        self.assertEqual(run.checkpoint, run.path / "LATEST")
        metrics = run.metrics()
        rows = metrics if isinstance(metrics, list) else metrics.to_dict("records")
        self.assertEqual(max(row["counters/updates"] for row in rows if row["counters/updates"] == row["counters/updates"]), 20)
        self.assertRegex(run.report()._repr_html_(), r"^<iframe srcdoc=\"&lt;!DOCTYPE html&gt;")
        text = run.sample("\u0100\u0101", greedy=True, max_new_tokens=3)
        self.assertIsInstance(text, str)
        self.assertEqual(run.sample(["\u0100\u0101", "\u0102"], greedy=True, max_new_tokens=3)[0], text)
        self.assertEqual(len(run.sample("\u0100", samples=2, max_new_tokens=2)), 2)
        self.assertEqual(repr(dpo.load_run(run.path)), repr(run))
        with self.assertRaisesRegex(dpo.Error, "there is no chat template|has no chat template|chat_template"):
            run.sample([[{"role": "user", "content": "\u0100"}]])

    def test_an_adapter_is_sampled_over_its_base(self):
        run, _ = self.trained("lora", adapter="lora", n_examples=8)
        self.assertIsInstance(run.sample("\u0100", max_new_tokens=2), str)

    def test_errors_are_those_of_the_program(self):
        with self.assertRaisesRegex(dpo.Error, r"^datasets: there is no file or folder 'none.jsonl'"):
            self.trained("never", datasets=["none.jsonl"])
        with self.assertRaisesRegex(dpo.Error, "not the folder of a run"):
            dpo.load_run(self.folder)
        spoilt = self.spoilt_model()
        with self.assertRaises(dpo.Error) as caught:
            self.trained("spoilt", **{"model.name_or_path": str(spoilt), "do_first_eval": False})
        self.assertEqual(caught.exception.status, 2, caught.exception)
        self.assertFalse(dpo.load_run(self.folder / "spoilt").finished)
        with mock.patch.dict(os.environ, DPO_PROGRAM="/nowhere/dpo"), self.assertRaisesRegex(dpo.Error, "/nowhere/dpo is missing"):
            dpo.plan()

    def endless(self, run, **options):
        """Trains endlessly in another Python, and returns it after the first update."""
        keys = self.keys(run, **dict(word.split("=") for word in ENDLESS))
        script = "import json, sys, dpo_cpp; dpo_cpp.train(**json.loads(sys.argv[1]))"
        process = subprocess.Popen([sys.executable, "-c", script, json.dumps(keys, default=str)], env={**os.environ, "PYTHONPATH": str(SOURCE / "python")},
                                   stderr=subprocess.PIPE, text=True, **options)
        for line in process.stderr:
            if line.startswith("update "):
                return process
        self.fail(f"it did not train; status {process.wait()}")

    def test_an_interrupt_stops_the_run_with_a_checkpoint(self):
        process = self.endless("interrupted")
        process.send_signal(signal.SIGINT)
        messages = process.stderr.read()
        self.assertEqual(process.wait(), -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", messages)
        self.assertIn("stopped by a signal after update ", messages)
        self.check_stopped("interrupted")

    def test_the_run_stops_if_its_python_is_killed(self):
        process = self.endless("orphaned")
        process.kill()
        process.wait()
        process.stderr.close()
        subprocess.run(["flock", self.folder / "orphaned" / ".lock", "true"], check=True)  # waits for the end of the run
        self.check_stopped("orphaned")

    def check_stopped(self, name):
        run = dpo.load_run(self.folder / name)
        self.assertFalse(run.finished)
        self.assertTrue((run.checkpoint / "COMPLETE").exists())
        resumed, _ = self.trained(name, resume=run.path, n_examples=None, n_epochs=1)
        self.assertEqual(resumed.path, run.path)


class Lines(unittest.TestCase):
    def test_of_updates(self):
        update = {"counters/updates": 3, "total_updates": 9, "loss/train": 0.5, "seconds_left": 30, "examples_per_second": 8.25}
        self.assertEqual(_process.line_of(update), "update 3 of 9  loss 0.5000  8.2 examples/s, 30 s left")
        update |= {"rewards_train/accuracies": 0.75, "rewards_train/margins": 0.1, "seconds_left": 1200}
        self.assertEqual(_process.line_of(update),
                         "update 3 of 9  loss 0.5000  accuracy 0.750  margin +0.100  8.2 examples/s, 20 min left")

    def test_stay_above_the_live_one_on_a_terminal(self):
        shown = io.StringIO()
        shown.isatty = lambda: True
        with contextlib.redirect_stderr(shown):
            live, errors = _process.Live(), []
            live.show("update 1 of 2")
            _process.read_messages(io.StringIO("update 1 of 2 examples 4\nevaluation\nerror: it broke\n  for a reason\n"), live, errors)
            live.show("")
        self.assertEqual(shown.getvalue(), "\r\033[Kupdate 1 of 2\r\033[Kevaluation\nupdate 1 of 2\r\033[K")
        self.assertEqual(str(_process.error_of([*errors, "error: and more"], 2)), "it broke\n  for a reason\nand more")

    def test_in_a_notebook_one_output_changes(self):
        shown, shell = mock.Mock(), mock.Mock(kernel=True)
        modules = {"IPython": mock.Mock(get_ipython=lambda: shell), "IPython.display": mock.Mock(display=shown)}
        with mock.patch.dict(sys.modules, modules):
            live = _process.Live()
            for line in ("one", "two"):
                live.show(line)
        shown.assert_called_once_with({"text/plain": "one"}, raw=True, display_id=True)
        shown.return_value.update.assert_called_once_with({"text/plain": "two"}, raw=True)


if __name__ == "__main__":
    main()
