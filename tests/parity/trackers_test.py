"""TensorBoard and W&B read all that a run wrote for them: every value, each step once, also after kills and
resuming."""

import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tiny_run import HANGS, TinyRuns, main
from wandb_server import WandbServer

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PageAccumulator
from wandb.proto.wandb_internal_pb2 import Record

BLOCK = 32 * 1024
STEP = "counters/examples"
SAMPLES = ["sample_during_eval=true", "n_eval_model_samples=2", "n_examples=120"]


def tensorboard(run):
    # A size of 0 keeps all values. By default TensorBoard shows a selection.
    kinds = ("scalars", "histograms", "tensors", "compressedHistograms", "images", "audio")
    return EventAccumulator(str(run / "tensorboard"), size_guidance={kind: 0 for kind in kinds}).Reload()


def texts(run, tag):
    """Reads texts as TensorBoard's page does. The other accumulator never forgets texts, but a resumed run has new
    ones."""
    return PageAccumulator(str(run / "tensorboard"), size_guidance={"tensors": 0}).Reload().Tensors(tag)


def wandb_folder(run):
    folder, = (run / "wandb").iterdir()
    return folder


def wandb_records(run):
    """Returns the records of the .wandb file, read like W&B's own code: LevelDB's log format with the CRC-32 of
    zlib."""
    folder = wandb_folder(run)
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
    return {item.key: json.loads(item.value_json) for item in values}


def wandb_rows(run):
    return [items(record.history.item) for record in wandb_records(run) if record.WhichOneof("record_type") == "history"]


class Trackers(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "tracked"
        cls.check(cls.train(cls.run_folder, *SAMPLES, "wandb.entity=team"))

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

    def check_rows(self, run, rows):
        expected = self.expected_rows(run)
        self.assertEqual([row["_step"] for row in rows], list(expected))
        for row in rows:
            self.assertEqual({name: value for name, value in row.items() if name in expected[row["_step"]]},
                             expected[row["_step"]])
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

    def test_wandb_reads_the_records(self):
        run, records = self.run_folder, wandb_records(self.run_folder)
        self.check_rows(run, wandb_rows(run))
        started, = [record.run for record in records if record.HasField("run")]
        self.assertEqual((started.display_name, started.project, started.entity),
                         ("tiny", "direct-preference-optimization", "team"))
        self.assertEqual(items(started.config.update)["loss"]["beta"], 0.1)
        self.assertEqual(records[-1].exit.exit_code, 0)
        summary = items([record.summary for record in records if record.HasField("summary")][-1].update)
        last = self.expected_rows(run)[120]
        self.assertEqual({name: summary[name] for name in last}, last)

    def test_wandb_sync_uploads_the_run(self):
        server, folder = WandbServer(), wandb_folder(self.run_folder)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "WANDB_BASE_URL": server.url,
                       "WANDB_API_KEY": "0" * 40, "WANDB_ERROR_REPORTING": "false"}
        done = subprocess.run([sys.executable, "-m", "wandb", "sync", folder], env=environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=HANGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Finished syncing", done.stdout + done.stderr)
        self.check_rows(self.run_folder, server.rows())
        self.assertEqual(server.run["displayName"], "tiny")
        self.assertEqual(server.run["project"], "direct-preference-optimization")
        self.assertEqual(json.loads(server.run["config"])["loss"]["value"]["beta"], 0.1)
        self.assertEqual(server.exit_code, 0)
        last = self.expected_rows(self.run_folder)[120]
        self.assertEqual({name: server.summary()[name] for name in last}, last)
        table = server.rows()[-1]["policy_samples"]
        samples = [json.loads(line) for line in (self.run_folder / "samples/step-120.jsonl").read_text().splitlines()]
        self.assertEqual(json.loads(server.uploads[table["path"]])["data"],
                         [[120, sample["prompt"], sample["policy"]] for sample in samples])

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
        self.check_rows(run, wandb_rows(run))
        self.assertEqual([row["_step"] for row in wandb_rows(run) if "policy_samples" in row], [4, 40, 80, 120])
        self.assertEqual([row["_step"] for row in wandb_rows(run) if "eval_tokens/chosen" in row], [0, 40, 80, 120])

    def test_they_can_be_turned_off(self):
        run = self.folder / "untracked"
        done = self.train(run, "n_examples=8", "tensorboard=false", "wandb.enabled=false")
        self.check(done)
        self.assertFalse((run / "tensorboard").exists() or (run / "wandb").exists())
        self.assertNotIn("wandb", done.stderr)


if __name__ == "__main__":
    main()
