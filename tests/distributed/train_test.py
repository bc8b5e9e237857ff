"""Compares whole runs over ranks (FSDPTrainer, TensorParallelTrainer, meshes) with BasicTrainer. Also: the balance loss
of experts, and resuming after the number of ranks changes or a rank is killed.

`dpo train` itself starts the ranks, under mpirun.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import tiny_run  # noqa: E402
from ranks import need_mpirun, processes_of, wait_until  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tiny_run import ENDLESS, METRICS, STOPPED, TRAINING_FAILED, TinyRuns, disturbed, is_whole  # noqa: E402

TOLERANCE = 1e-5  # relative, float32
# Uses SGD: optimizers that divide by the gradient's size turn rounding into full updates. Every number of ranks here
# divides batches of 12. An evaluation has two batches of 7.
SHORT = ["batch_size=12", "n_examples=240", "eval_every=120", "eval_batch_size=12", "n_eval_examples=14", "data.test_share=0.1",
         "optimizer=SGD", "lr=0.01"]
MESHES = {"2 shards": ["trainer=FSDPTrainer", "mesh.shard=2"],
          "3 shards, whole gradients": ["trainer=FSDPTrainer", "mesh.shard=3", "fsdp_accumulate=whole",
                                        "gradient_accumulation_steps=2"],
          "2 tensor": ["trainer=TensorParallelTrainer", "mesh.tensor=2"],
          "2 shards x 2 tensor": ["trainer=FSDPTrainer", "mesh.shard=2", "mesh.tensor=2"],
          "2 replicas x 2 shards": ["trainer=FSDPTrainer", "mesh.replica=2", "mesh.shard=2", "activation_checkpointing=true"]}
EXPERTS = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


class Compared(TinyRuns):
    def close(self, run, other, file="model.safetensors", tolerance=TOLERANCE):
        """Compares losses of every update and evaluation, and the final weights."""
        keys = ("loss", "logps", "grad_norm", "aux_loss", "counters/eval_examples")
        numbers = lambda folder: [[line[key] for key in line if key.startswith(keys)]
                                  for line in self.metrics(folder)]
        found, expected = numbers(run), numbers(other)
        self.assertEqual(len(found), len(expected))
        for i, (mine, theirs) in enumerate(zip(found, expected)):
            for a, b in zip(mine, theirs, strict=True):
                self.assertLessEqual(abs(a - b), tolerance * max(1e-3, abs(b)), f"line {i} of metrics.jsonl")
        mine, theirs = (load_file(folder / "LATEST" / file) for folder in (run, other))
        self.assertEqual(mine.keys(), theirs.keys())
        for name in theirs:
            off = abs(mine[name] - theirs[name]).max() / abs(theirs[name]).max()
            self.assertLessEqual(off, tolerance, name)


class Fp8(Compared):
    """Each scale belongs to a token, or to weights that shard ranks gather whole, so ranks compute what one process
    does, up to the rounding of bfloat16, which depends on the shapes of the microbatches."""

    def test_over_shards(self):
        words = [*SHORT, "model.fsdp_policy_mp=bfloat16", "fp8=true"]
        alone, shards = self.folder / "fp8-alone", self.folder / "fp8-shards"
        self.check(self.train(alone, *words, "gradient_accumulation_steps=2"))
        self.check(self.train(shards, *words, *MESHES["2 shards"]))
        self.close(shards, alone, tolerance=1e-3)

    def test_tensor_ranks_are_refused(self):
        done = self.train(self.folder / "fp8-tensor", *SHORT, "model.fsdp_policy_mp=bfloat16", "fp8=true", *MESHES["2 tensor"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not work with tensor parallelism", " ".join(done.stderr.split()))


class BalanceLoss(Compared):
    """The balance loss of a mixture of experts is the mean over microbatches, on whichever rank they are."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.folder / "mixtral-source"
        source.mkdir()
        (source / "config.json").write_text(json.dumps(tiny_run.CONFIG | EXPERTS))
        tiny_run.make_tokenizer(source)
        subprocess.run([tiny_run.PROGRAM, "init", source, cls.folder / "mixtral"], check=True, capture_output=True)

    def run_of(self, *more):
        run = self.folder / f"experts-{len(list(self.folder.glob('experts-*')))}"
        plain = [word for word in self.train_command(run) if not word.startswith(("loss", "model.name_or_path"))]
        self.check(subprocess.run([*plain, *SHORT, "n_examples=120", "eval_every=60", "loss=sft", "model.router_aux_loss_coef=0.5",
                                   f"model.name_or_path={self.folder / 'mixtral'}", *more], capture_output=True, text=True))
        losses = [line["aux_loss"] for line in self.metrics(run) if "grad_norm" in line]
        # Two experts are chosen for each token, so the loss is 2 if all experts are chosen equally often.
        self.assertTrue(len(losses) == 10 and all(1.9 < loss < 4 for loss in losses), losses)
        return run

    def test_over_ranks(self):
        two_steps = ["gradient_accumulation_steps=2"]
        alone = self.run_of(*two_steps)
        self.close(self.run_of(*two_steps, *MESHES["2 tensor"]), alone)
        self.close(self.run_of(*MESHES["2 shards"]), alone)

    def test_empty_microbatches_do_not_count(self):
        """Examples with one prompt stay together, so one of four microbatches has all examples and the others are
        empty."""
        data = self.folder / "one-prompt.jsonl"
        rows = [json.loads(line) for line in (self.folder / "pairs.jsonl").read_text().splitlines()]
        data.write_text("".join(json.dumps(row | {"prompt": rows[0]["prompt"]}) + "\n" for row in rows))
        shared = [f"datasets=[{data}]", "loss=dpo", "loss.beta=0.1", "data.test_share=0", "eval_every=null"]
        alone = self.run_of(*shared)
        self.close(self.run_of(*shared, "gradient_accumulation_steps=4"), alone)


class Training(Compared):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = cls.folder / "plain"
        cls.check(cls.train(cls.plain, *SHORT))

    def test_one_rank_is_the_plain_run(self):
        for trainer in ("FSDPTrainer", "TensorParallelTrainer"):
            run = self.folder / trainer
            self.check(self.train(run, *SHORT, f"trainer={trainer}"))
            self.assertEqual(self.weights(run), self.weights(self.plain))

    def test_meshes_are_the_plain_run(self):
        for i, (name, arguments) in enumerate(MESHES.items()):
            with self.subTest(name):
                run = self.folder / f"mesh-{i}"
                done = self.train(run, *SHORT, *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.close(run, self.plain)
                self.assertEqual(done.stdout.strip(), str(run / "LATEST"))
                works = [line["slowest_rank"] for line in self.metrics(run) if "slowest_rank" in line]
                self.assertEqual(len(works), 0 if name == "2 tensor" else len(self.updates(run)))
                self.assertTrue(all(1 <= work < 2 for work in works), works)

    def test_samples_and_cached_scores(self):
        local = self.folder / "scored"
        more = ["sample_during_eval=true", "n_eval_model_samples=2", "reference=cached", f"local_dirs=[{local}]"]
        alone = self.folder / "alone"
        self.check(self.train(alone, *SHORT, *more))
        for i, arguments in enumerate((["trainer=FSDPTrainer", "mesh.shard=2"], ["trainer=TensorParallelTrainer", "mesh.tensor=2"])):
            run = self.folder / f"samples-{i}"
            self.check(self.train(run, *SHORT, *more, *arguments))
            self.close(run, alone)
            for file in sorted((alone / "samples").iterdir()):
                self.assertEqual((run / "samples" / file.name).read_text(), file.read_text())
            # Scores do not depend on the mesh, so the second run finds those of the first.
            self.assertEqual(len(list(local.glob("*/references/*.safetensors"))), 2)

    def test_not_finite_stops_all(self):
        run = self.folder / "infinite"
        done = self.train(run, *SHORT, "trainer=FSDPTrainer", "mesh.shard=2", "lr=1e30", "max_grad_norm=1e30")
        self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
        self.assertEqual(done.stderr.count("is NaN or infinite"), 1, done.stderr)

    def test_nan_on_one_rank_stops_all(self):
        """One example, on one rank and in one of its microbatches, gives NaN. Nothing is updated or saved."""
        arguments = ["n_examples=240", "batch_size=12", "eval_every=null", f"model.name_or_path={self.spoilt_model()}",
                 "gradient_accumulation_steps=3"]
        for i, mesh in enumerate((["trainer=FSDPTrainer", "mesh.shard=2"], ["trainer=FSDPTrainer", "mesh.replica=2", "mesh.shard=1"])):
            run = self.folder / f"one-rank-{i}"
            done = self.train(run, *arguments, *mesh)
            self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
            self.assertRegex(done.stderr, r"error: update \d+: the loss of example [\d, ]+ is NaN or infinite; .*was not applied")
            self.assertEqual(list(run.glob("step-*")), [])

    def test_nan_keeps_the_last_good_checkpoint(self):
        """One row of the data gives NaN. Training before its batch is saved, and nothing after it. The policy is
        finite, but one weight of the reference overflows in float16."""
        data, run = self.folder / "one-bad-row.jsonl", self.folder / "kept"
        bad = chr(0x100 + 3)  # the token of spoilt_model
        rows = [json.loads(line.replace(json.dumps(bad)[1:-1], "a")) for line in (self.folder / "pairs.jsonl").read_text().splitlines()]
        rows = [{name: text.replace("a", chr(0x100)) for name, text in row.items()} for row in rows]
        rows[300]["chosen"] += bad
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = self.train(run, "batch_size=12", "eval_every=null", "save_every=12", "data.test_share=0", f"datasets=[{data}]",
                          f"model.name_or_path={self.spoilt_model(1e5)}", "model.reference_dtype=float16", *MESHES["2 shards"])
        self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
        update = int(re.search(r"error: update (\d+): the loss of example \d+ is NaN or infinite; .*was not applied", done.stderr)[1])
        self.assertGreater(update, 2, done.stderr)
        self.assertEqual(self.updates(run), list(range(1, update)))
        self.assertEqual((run / "LATEST").readlink().name, f"step-{12 * (update - 1)}")
        self.assertTrue(is_whole(run / "LATEST"))

    def test_a_signal_stops_in_order(self):
        run = self.folder / "signalled"
        process = subprocess.Popen(self.train_command(run, "trainer=FSDPTrainer", "mesh.shard=2", *ENDLESS), stderr=subprocess.PIPE, text=True)
        with process.stderr as lines:
            for line in lines:
                if line.startswith("update 3 "):
                    process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), STOPPED)
        self.assertTrue((run / "LATEST" / "COMPLETE").exists())

    def killed(self, run, *arguments):
        """Runs four ranks and kills one of them some updates after the first checkpoint, while rank 0 waits before
        writing the metrics of update 14."""
        mark, log = f"DPO_TEST_RUN={run.name}", run.with_suffix(".changes")
        waits = disturbed(run, f"wait-{run}/never", 16, METRICS, log)
        process = subprocess.Popen(self.train_command(run, *SHORT, "n_examples=480", *arguments), stderr=subprocess.PIPE, text=True,
                                   env=waits | dict([mark.split("=")]))
        with process.stderr as lines:
            said = [next(line for line in lines if line.startswith("update 14 "))]
            wait_until(lambda: log.read_text().splitlines().count(f"write {run}/metrics.jsonl") == 16, "rank 0 waits")
            rank = lambda pid: b"OMPI_COMM_WORLD_RANK=2" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            os.kill(next(pid for pid in processes_of(mark) if rank(pid)), signal.SIGKILL)
            said += lines
        status = process.wait()
        self.assertNotIn(status, (0, STOPPED))
        self.assertIn("rank 2", "".join(said))
        wait_until(lambda: not processes_of(mark), "all ranks to end")

    def test_a_killed_rank_and_other_layouts(self):
        whole = self.folder / "whole"
        self.check(self.train(whole, *SHORT, "n_examples=480"))
        run = self.folder / "elastic"
        self.killed(run, "trainer=FSDPTrainer", "mesh.shard=4")
        self.assertTrue((run / "LATEST" / "COMPLETE").exists())
        resumed = ["n_examples=480", "resume=auto"]
        done = self.train(run, *SHORT, *resumed, "trainer=FSDPTrainer", "mesh.shard=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.close(run, whole)
        # Every other mesh resumes from the same checkpoint.
        for i, arguments in enumerate((["trainer=BasicTrainer"], ["trainer=TensorParallelTrainer", "mesh.tensor=2"],
                                   ["trainer=FSDPTrainer", "mesh.shard=3"],
                                   ["trainer=FSDPTrainer", "mesh.shard=2", "mesh.tensor=2"])):
            copy = self.folder / f"elastic-{i}"
            subprocess.run(["cp", "-r", run, copy], check=True)
            for step in copy.glob("step-*"):
                if step.name != "step-120":
                    subprocess.run(["rm", "-r", step], check=True)
            (copy / "LATEST").unlink()
            done = self.train(copy, *SHORT, *resumed, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.close(copy, whole)

    def test_a_base_in_few_bits(self):
        """Ranks quantize as one process does, so they find its reference scores. Resumed on the same mesh, the weights
        are bitwise equal. Other meshes can also resume the run."""
        lora = [*SHORT, "adapter=lora", "adapter.r=4", "adapter.base_dtype=nf4", "lr=0.1", "reference=cached", "sample_during_eval=true",
                "n_eval_model_samples=2", f"local_dirs=[{self.folder / 'few-bits-scores'}]"]
        file = "adapter_model.safetensors"
        alone = self.folder / "few-bits"
        self.check(self.train(alone, *lora))
        meshes = MESHES | {"replicas": ["trainer=FSDPTrainer", "mesh.replica=2", "mesh.shard=1"]}
        for i, (name, mesh) in enumerate(meshes.items()):
            with self.subTest(name):
                run = self.folder / f"few-bits-{i}"
                self.check(self.train(run, *lora, *mesh))
                self.close(run, alone, file)
                for sample in sorted((alone / "samples").iterdir()):
                    self.assertEqual((run / "samples" / sample.name).read_text(), sample.read_text())
        self.assertEqual(len(list((self.folder / "few-bits-scores").glob("*/references/*.safetensors"))), 2)
        for mesh, other in (("2 shards", "2 tensor"), ("2 tensor", "2 shards")):
            run = self.folder / f"few-bits-{list(meshes).index(mesh)}"
            expected = (run / "LATEST" / file).read_bytes()
            for resumed, same in ((mesh, True), (other, False)):
                subprocess.run(["rm", "-r", run / "step-240", run / "LATEST"], check=True)
                self.check(self.train(run, *lora, *MESHES[resumed], "resume=auto"))
                if same:
                    self.assertEqual((run / "LATEST" / file).read_bytes(), expected)
                else:
                    self.close(run, alone, file)

    def test_dora_and_whole_modules_over_few_bits(self):
        words = [*SHORT, "adapter=lora", "adapter.r=4", "adapter.dora=true", "adapter.targets=[q_proj,down_proj]",
                 "adapter.modules_to_save=[o_proj]", "adapter.base_dtype=int8", "lr=0.1", "adapter.merge_on_save=true"]
        alone, file = self.folder / "dora", "adapter_model.safetensors"
        self.check(self.train(alone, *words))
        for i, mesh in enumerate(("2 shards x 2 tensor", "2 tensor")):
            run = self.folder / f"dora-{i}"
            self.check(self.train(run, *words, *MESHES[mesh]))
            self.close(run, alone, file)
            mine, theirs = (load_file(folder / "merged" / "model.safetensors") for folder in (run, alone))
            for name in theirs:
                self.assertLessEqual(abs(mine[name] - theirs[name]).max() / abs(theirs[name]).max(), TOLERANCE, name)

    def test_resumed_by_the_same_ranks_is_the_same(self):
        run, other = self.folder / "twice", self.folder / "once"
        arguments = ["trainer=FSDPTrainer", "mesh.shard=2", "optimizer=AdamW"]
        self.check(self.train(other, *SHORT, *arguments))
        self.check(self.train(run, *SHORT, *arguments))
        subprocess.run(["rm", "-r", run / "step-240", run / "LATEST"], check=True)
        self.check(self.train(run, *SHORT, *arguments, "resume=auto"))
        self.assertEqual(self.weights(run), self.weights(other))
        counted = [json.dumps({key: value for key, value in line.items() if key.startswith(("loss", "grad", "logps"))})
                   for line in self.metrics(run)]
        self.assertEqual(counted, [json.dumps({key: value for key, value in line.items() if key.startswith(("loss", "grad", "logps"))})
                                   for line in self.metrics(other)])

    def test_small_optimizer_states(self):
        """Rounding of the state does not depend on the number of shards. State in 8 bits can also resume on another
        number of shards."""
        for state in ("bfloat16", "8bit"):
            words = [*SHORT, "optimizer=AdamW", "lr=1e-4", f"optimizer_state={state}"]
            alone, run = self.folder / f"{state}-alone", self.folder / f"{state}-shards"
            self.check(self.train(alone, *words))
            self.check(self.train(run, *words, *MESHES["2 shards"]))
            first = lambda folder: [line["loss/train"] for line in self.metrics(folder) if "grad_norm" in line][:3]
            for mine, theirs in zip(first(run), first(alone), strict=True):
                self.assertAlmostEqual(mine, theirs, places=5)
            subprocess.run(["rm", "-r", run / "step-240", run / "LATEST"], check=True)
            self.check(self.train(run, *words, "trainer=FSDPTrainer", "mesh.shard=3", "resume=auto"))
            split = self.folder / f"{state}-tensor"
            self.check(self.train(split, *words, *MESHES["2 tensor"]))
            for mine, theirs in zip(first(split), first(alone), strict=True):
                self.assertAlmostEqual(mine, theirs, places=3)
            subprocess.run(["rm", "-r", split / "step-240", split / "LATEST"], check=True)
            other = self.train(split, *words, "resume=auto")
            if state == "8bit":
                self.assertEqual(other.returncode, 1)
                self.assertIn("only with mesh.tensor=2", other.stderr)
                self.check(self.train(split, *words, *MESHES["2 tensor"], "resume=auto"))
            else:
                self.check(other)


if __name__ == "__main__":
    need_mpirun()
    tiny_run.main()
