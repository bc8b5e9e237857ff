"""TensorBoard, W&B and trackio have all of a run: every value, each step once, also after kills and resuming."""

import json
import os
import signal
import sqlite3
import struct
import sys
import zlib
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tiny_run import HANGS, TinyRuns, main

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PageAccumulator
from wandb.proto.wandb_internal_pb2 import Record

BLOCK = 32 * 1024
STEP = "counters/examples"
SAMPLES = ["sample_during_eval=true", "n_eval_model_samples=2", "n_examples=120"]
# The trackers are used with the packages of this Python, and send nothing.
os.environ |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DPO_TRACKER_SECONDS": str(HANGS),
               "WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "HF_HUB_OFFLINE": "1"}


def tensorboard(run):
    # A size of 0 keeps all values. By default TensorBoard shows a selection.
    kinds = ("scalars", "histograms", "tensors", "compressedHistograms", "images", "audio")
    return EventAccumulator(str(run / "tensorboard"), size_guidance={kind: 0 for kind in kinds}).Reload()


def texts(run, tag):
    """Reads texts as TensorBoard's page does. The other accumulator never forgets texts, but a resumed run has new
    ones."""
    return PageAccumulator(str(run / "tensorboard"), size_guidance={"tensors": 0}).Reload().Tensors(tag)


def parts(run):
    """Returns the folders of an offline run, one for each process of the run, the oldest first."""
    id = json.loads((run / "track-wandb.json").read_text())["id"]
    return sorted((run / "wandb").glob(f"offline-run-*-{id}"))


def wandb_records(folder):
    """Returns the records of the .wandb file, read like W&B's own code: LevelDB's log format with the CRC-32 of
    zlib."""
    data = (folder / f"run-{folder.name.rpartition('-')[2]}.wandb").read_bytes()
    assert data[:7] == b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    at, records, record = 7, [], b""
    while at < len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        chunk = data[at + 7:at + 7 + size]
        assert zlib.crc32(bytes([kind]) + chunk) == crc and at % BLOCK + 7 + size <= BLOCK
        record = chunk if kind in (1, 2) else record + chunk
        if kind in (1, 4):
            records.append(Record.FromString(record))
        at += 7 + size
    return records


def items(values):
    """Returns values by name. Histograms and tables are nested, and each of their parts is an item."""
    found = {}
    for item in values:
        *outer, name = [item.key] if item.key else item.nested_key
        place = found
        for key in outer:
            place = place.setdefault(key, {})
        place[name] = json.loads(item.value_json)
    return found


def wandb_rows(run):
    return [items(record.history.item) for folder in parts(run) for record in wandb_records(folder)
            if record.WhichOneof("record_type") == "history"]


class Trackers(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "tracked"
        os.environ["TRACKIO_DIR"] = str(cls.folder / "trackio")
        cls.check(cls.train(cls.run_folder, *SAMPLES, "wandb.entity=team", "trackio.enabled=true"))

    def expected_rows(self, run):
        """Returns the lines of metrics.jsonl by step. An update and an evaluation are one row."""
        rows = {}
        for line in self.metrics(run):
            rows.setdefault(line[STEP], {}).update(line)
        return rows

    def check_tensorboard(self, run, events=None):
        events = events or tensorboard(run)
        expected = {}
        for line in self.metrics(run):
            for name, value in line.items():
                expected.setdefault(name, {})[line[STEP]] = float(numpy.float32(value))
        self.assertEqual(set(events.Tags()["scalars"]), set(expected))
        for name, points in expected.items():
            self.assertEqual([(point.step, point.value) for point in events.Scalars(name)], list(points.items()), name)
        return events

    def check_rows(self, run, rows, names=None):
        """Checks that each step is there once, with all its metrics or those in `names`."""
        expected = self.expected_rows(run)
        self.assertEqual([row["_step"] for row in rows], list(expected))
        for row in rows:
            of_step = {name: value for name, value in expected[row["_step"]].items() if name in (names or expected[row["_step"]])}
            self.assertEqual({name: row.get(name) for name in of_step}, of_step)
        times = [row["_timestamp"] for row in rows]
        self.assertEqual(times, sorted(times))

    def test_tensorboard_reads_scalars_histograms_and_texts(self):
        run = self.run_folder
        events = self.check_tensorboard(run)
        steps = [line[STEP] for line in self.metrics(run) if "loss/eval" in line]
        self.assertEqual([event.step for event in events.Histograms("eval_rewards/chosen")], steps)
        for event in events.Histograms("eval_rewards/rejected"):
            records = [json.loads(line) for line in (run / "eval" / f"step-{event.step}.jsonl").read_text().splitlines()]
            rewards = [record["rewards"][-1] for record in records]
            histogram = event.histogram_value
            self.assertEqual((histogram.min, histogram.max, histogram.num), (min(rewards), max(rewards), len(rewards)))
            self.assertAlmostEqual(histogram.sum, sum(rewards))
            self.assertEqual(sum(histogram.bucket), len(rewards))
        for event in events.Tensors("samples/2"):
            sample = json.loads((run / "samples" / f"step-{event.step}.jsonl").read_text().splitlines()[1])
            text = event.tensor_proto.string_val[0].decode()
            for name in ("prompt", "policy", "reference"):
                self.assertIn(f"**{name}**\n\n    {sample[name]}", text)
        config, = events.Tensors("config")
        self.assertIn('"exp_name": "tiny"', config.tensor_proto.string_val[0].decode())

    def test_wandb_has_an_offline_run(self):
        run = self.run_folder
        folder, = parts(run)
        records, rows = wandb_records(folder), wandb_rows(run)
        self.check_rows(run, rows)
        started, = [record.run for record in records if record.HasField("run")]
        self.assertEqual((started.display_name, started.project, started.entity),
                         ("tiny", "direct-preference-optimization", "team"))
        self.assertEqual(items(started.config.update)["loss"]["beta"], 0.1)
        code, = [record.exit.exit_code for record in records if record.HasField("exit")]
        self.assertEqual(code, 0)
        summary = {}
        for record in records:
            if record.HasField("summary"):
                summary |= items(record.summary.update)
        last = self.expected_rows(run)[120]
        self.assertEqual({name: summary[name] for name in last}, last)
        samples = [json.loads(line) for line in (run / "samples/step-120.jsonl").read_text().splitlines()]
        table = json.loads((folder / "files" / rows[-1]["policy_samples"]["path"]).read_text())
        self.assertEqual(table["data"], [[120, sample["prompt"], sample["policy"]] for sample in samples])
        self.assertEqual(sum(rows[-1]["eval_tokens/chosen"]["values"]), 2)
        done = self.train(run, *SAMPLES, f"resume={run}")  # has nothing left to train
        self.check(done)
        self.assertRegex(done.stderr, rf"\n  wandb        wandb sync {run}/wandb/offline-run-\*-{started.run_id}\n")
        self.check_rows(run, wandb_rows(run))

    def test_trackio_has_the_run(self):
        with sqlite3.connect(self.folder / "trackio/direct-preference-optimization.db") as database:
            rows = {step: json.loads(metrics) for step, metrics in database.execute("SELECT step, metrics FROM metrics ORDER BY id")}
            config, = database.execute("SELECT config FROM configs").fetchone()
        expected = self.expected_rows(self.run_folder)
        self.assertEqual(list(rows), list(expected))
        for step, row in rows.items():
            self.assertEqual({name: row[name] for name in expected[step]}, expected[step])
        self.assertEqual(json.loads(config)["loss"]["beta"], 0.1)
        self.assertEqual(rows[120]["samples"]["_value"][1]["policy"],
                         json.loads((self.run_folder / "samples/step-120.jsonl").read_text().splitlines()[1])["policy"])

    def test_trackio_continues_a_resumed_run(self):
        run, words = self.folder / "stopped", ("n_examples=120", "wandb.enabled=false", "trackio.enabled=true", "wandb.project=resumed")
        self.stop_at(run, 16, *words)
        self.check(self.train(run, "resume=auto", *words))
        with sqlite3.connect(self.folder / "trackio/resumed.db") as database:
            steps = [step for step, in database.execute("SELECT step FROM metrics ORDER BY id")]
            (runs,), = database.execute("SELECT COUNT(DISTINCT run_name) FROM metrics")
        self.assertEqual((steps, runs), (list(self.expected_rows(run)), 1))

    def test_a_killed_and_resumed_run_has_each_step_once(self):
        run = self.folder / "killed"
        live = None  # a TensorBoard that was started before the run was resumed
        for line in (4, 14, 17):  # before the first checkpoint, and after
            done = self.signalled(run, signal.SIGKILL, line, "resume=auto", *SAMPLES)
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            live = live.Reload() if live else tensorboard(run)
        self.check(self.train(run, "resume=auto", *SAMPLES))
        self.check_tensorboard(run, live.Reload())
        events = self.check_tensorboard(run)
        self.assertEqual([event.step for event in events.Histograms("eval_rewards/chosen")], [0, 40, 80, 120])
        self.assertEqual([event.step for event in texts(run, "samples/1")], [4, 40, 80, 120])
        self.check_rows(run, wandb_rows(run), ["loss/train", "loss/eval", "grad_norm", STEP])

    def test_they_can_be_turned_off(self):
        run = self.folder / "untracked"
        done = self.train(run, "n_examples=8", "tensorboard=false", "wandb.enabled=false")
        self.check(done)
        self.assertFalse((run / "tensorboard").exists() or (run / "wandb").exists())


if __name__ == "__main__":
    main()
