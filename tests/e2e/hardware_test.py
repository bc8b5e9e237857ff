"""Hardware detection: plan, engine and doctor see the same GPUs (of a fake driver), a device file measured on this
machine is used, and the dtype to compute in is chosen."""

import json
import os
import re
import subprocess
from pathlib import Path

from tiny_run import PROGRAM, TinyRuns, main

FAKE_DRIVER = Path(PROGRAM).parent / "tests" / "fake_driver"
PLAN = ["plan", "model=pythia28", "exp_name=e"]


class Hardware(TinyRuns):
    def dpo(self, *words, config="config", **variables):
        """Runs dpo with device files of this test, and none of the user's."""
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.folder / config), **variables}
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, env=environment)

    def plan(self, *words, **options):
        done = self.dpo(*PLAN, *words, "--json", **options)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_plan_engine_and_doctor_see_the_gpus_of_the_driver(self):
        gpu = "NVIDIA GeForce RTX 3090|8|6|82|1695000|9751000|384|24268;"
        driver = {"LD_LIBRARY_PATH": str(FAKE_DRIVER), "FAKE_GPUS": gpu + gpu}
        report = json.loads(self.dpo("doctor", "--json", **driver).stdout)
        self.assertEqual([(seen["name"], seen["compute_capability"], seen["memory_bytes"]) for seen in report["gpus"]],
                         [("NVIDIA GeForce RTX 3090", "8.6", 24268 << 20)] * 2)
        elsewhere = self.plan("--gpus", 4, **driver)
        self.assertEqual(elsewhere["resolved"]["device"], "NVIDIA GeForce RTX 3090")
        self.assertEqual(elsewhere["resolved"]["device_figures"], "estimated")
        here = self.plan(**driver)
        if report["libtorch"]["cuda_part"]:
            self.assertEqual((here["resolved"]["device"], here["resolved"]["gpus"]), ("NVIDIA GeForce RTX 3090", 2))
            return
        # This build cannot use the GPUs, so all commands give the same advice and the run uses the CPU.
        self.assertEqual([seen["usable"] for seen in report["gpus"]], [False, False])
        advice = "built without CUDA; run ./run build"
        self.assertIn(advice, next(item["advice"] for item in report["missing"] if "GPU" in item["what"]))
        warning = next(rule for rule in here["rules"] if rule["id"] == "gpus")
        self.assertEqual(warning["verdict"], "warning")
        self.assertIn(advice, warning["message"])
        self.assertNotIn("RTX", here["resolved"]["device"])
        sampled = self.dpo("sample", self.folder / "model", "--prompt", "\u0100", "--max-new-tokens", 1, **driver)
        self.check(sampled)
        self.assertIn("the GPU is not used: this dpo was " + advice, sampled.stderr)
        self.assertIn("--device cuda: this dpo was " + advice,
                      self.dpo("sample", self.folder / "model", "--device", "cuda", **driver).stderr)
        words = self.train_command(self.folder / "unused", "n_examples=8")
        trained = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **driver})
        self.check(trained)
        self.assertRegex(re.sub(r"\s+", " ", trained.stderr), "warning gpus NVIDIA GeForce RTX 3090 is not used, .*" + advice)

    def test_a_machine_that_was_measured_is_planned_by_that(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}  # selects the CPU on any machine
        before = self.plan(**hidden)
        done = self.dpo("bench", "device", "--json", **hidden)
        self.check(done)
        measured = json.loads(done.stdout)
        for rate in ("bf16_tflops", "fp32_tflops", "memory_gbytes_per_second"):
            self.assertGreater(measured[rate], 0)
        file = Path(measured["file"])
        self.assertEqual(file.parent, self.folder / "config" / "dpo" / "device")
        after = self.plan(**hidden)
        self.assertEqual(before["resolved"]["device_figures"], "configs/device/cpu.yaml")
        self.assertEqual(after["resolved"]["device_figures"], str(file))
        self.assertTrue(any(str(file) in note for note in after["notes"]), after["notes"])
        self.assertNotEqual(before["time"]["step_seconds"], after["time"]["step_seconds"])
        # With --output the file is written elsewhere, and used only on request.
        other = self.folder / "mine.yaml"
        self.check(self.dpo("bench", "device", "--output", other, **hidden))
        self.assertEqual(self.plan("--device", other)["resolved"]["device_figures"], str(other))
        # A file that it wrote is replaced, but no other file.
        self.check(self.dpo("bench", "device", "--output", other, **hidden))
        other.write_text("mine\n")
        refused = self.dpo("bench", "device", "--output", other, **hidden)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"{other} exists; choose another path, or remove it", refused.stderr)
        self.assertEqual(other.read_text(), "mine\n")

    def test_auto_computes_in_the_faster_type(self):
        hidden = {"CUDA_VISIBLE_DEVICES": "", "config": "none"}
        kind = json.loads(self.dpo("doctor", "--json", **hidden).stdout)["cpu"]["bfloat16"]
        expected = "float32" if kind == "none" else "bfloat16"
        plan = self.plan("model.fsdp_policy_mp=auto", **hidden)
        self.assertEqual(plan["resolved"]["compute_dtype"], expected)
        self.assertTrue(any(f"auto computes in {expected}" in note for note in plan["notes"]), plan["notes"])
        run = self.folder / "auto"
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "XDG_CONFIG_HOME": str(self.folder / "none")}
        self.check(self.train(run, "n_examples=8", "model.fsdp_policy_mp=auto", env=environment))
        self.assertEqual(json.loads((run / "plan.json").read_text())["resolved"]["compute_dtype"], expected)


if __name__ == "__main__":
    main()
