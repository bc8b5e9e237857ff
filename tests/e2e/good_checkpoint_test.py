"""After NaN in training, the last good checkpoint is kept, LATEST points to it, and it loads. The error names the
update."""

import json
import math
import os
import re
import shutil
import struct

from tiny_run import TRAINING_FAILED, TinyRuns, main, make_data

SAVING = ("eval_every=null", "save_every=8", "data.test_share=0")


class GoodCheckpoints(TinyRuns):
    def rows(self, name, weight):
        """Writes rows with weight 0, whose gradients are zero, and one with this weight, which is reached after some
        checkpoints."""
        make_data(self.folder / f"{name}.plain", 200)
        rows = [json.loads(line) | {"weight": 0} for line in (self.folder / f"{name}.plain").read_text().splitlines()]
        rows[150]["weight"] = weight
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return f"datasets=[{path}]"

    def tensors_are_finite(self, file):
        data = file.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        return all(map(math.isfinite, struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])))

    def kept(self, run, step):
        self.assertGreaterEqual(step, 8)
        self.assertEqual(os.readlink(run / "LATEST"), f"step-{step}")
        self.assertEqual(list(run.rglob("*.tmp*")), [])
        for file in ("model.safetensors", "state/optimizer.safetensors"):
            self.assertTrue(self.tensors_are_finite(run / "LATEST" / file), file)

    def failed(self, run, pattern, *words):
        done = self.train(run, *SAVING, *words)
        self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
        found = re.search(pattern, done.stderr)
        self.assertTrue(found, done.stderr)
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertIn(found[0], (run / "log.txt").read_text())
        return int(found[1])

    def fails_again(self, name, what, *words):
        words = (self.rows(name, 3e38), *words)
        run, pattern = self.folder / name, rf"error: update (\d+): {what} is NaN or infinite; the update was not applied"
        update = self.failed(run, pattern, *words)
        step = (update - 1) * 4 // 8 * 8
        self.kept(run, step)
        before = (run / "LATEST" / "model.safetensors").read_bytes()
        self.assertEqual(self.failed(run, pattern, f"resume={run}", *words), update)  # it loads and continues
        self.kept(run, step)
        self.assertEqual((run / "LATEST" / "model.safetensors").read_bytes(), before)
        return update

    def test_a_gradient(self):
        self.fails_again("gradient", r"a gradient \(their norm is \S+\)", "loss.beta=10")

    def test_a_loss(self):
        """The loss fails with one rank, and in an example on one of two ranks."""
        example, words = r"the loss of example \d+", ("loss=ipo", "loss.beta=1e-140")
        update = self.fails_again("loss", example, *words)
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        for name, mesh in {"shards": "mesh.shard=2", "replicas": "mesh.replica=2"}.items():
            with self.subTest(name):
                self.assertEqual(self.fails_again(name, example, *words, "trainer=FSDPTrainer", mesh), update)

    def test_weights(self):
        run = self.folder / "diverged"
        update = self.failed(run, r"error: after \d+ examples \((\d+) updates\) the weights of the policy are NaN or infinite\. "
                                  r"It has diverged and was not saved; step-\d+ is the last good checkpoint",
                             self.rows("weights", 1), "lr=1e38", "warmup_steps=0", "save_every=4", "keep_last=1")
        self.kept(run, (update - 1) * 4)
        self.assertEqual([path.name for path in run.glob("step-*")], [f"step-{(update - 1) * 4}"])


if __name__ == "__main__":
    main()
