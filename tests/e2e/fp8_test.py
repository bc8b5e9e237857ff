"""Runs with fp8=true, whose linear layers multiply 8-bit floats. A CPU rounds in the same way and computes in
float32."""

import math

from tiny_run import TinyRuns, main

BF16 = ["model.fsdp_policy_mp=bfloat16", "n_examples=80", "seed=3"]
FP8 = [*BF16, "fp8=true"]


class Fp8(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole, cls.plain = cls.folder / "whole", cls.folder / "plain"
        cls.check(cls.train(cls.whole, *FP8))
        cls.check(cls.train(cls.plain, *BF16))

    def losses(self, run):
        return [line["loss/train"] for line in self.metrics(run) if "grad_norm" in line]

    def run_of(self, *words):
        run = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        self.check(self.train(run, *words))
        return run

    def test_is_near_bfloat16(self):
        found, exact = self.losses(self.whole), self.losses(self.plain)
        self.assertEqual(len(found), 20)
        self.assertNotEqual(found[1:], exact[1:])
        for a, b in zip(found, exact):
            self.assertAlmostEqual(a, b, delta=0.02)

    def test_the_policy_begins_as_the_reference(self):
        for words in (["reference=live"], ["reference=cached"], ["adapter=lora", "adapter.r=4"],
                      ["adapter=lora", "adapter.r=4", "adapter.dora=true", "adapter.dropout=0.1"], ["model.policy_dtype=bfloat16"]):
            self.assertAlmostEqual(self.losses(self.run_of(*FP8, *words))[0], math.log(2), delta=1e-9, msg=words)

    def test_the_same_run_has_the_same_bits(self):
        self.assertEqual(self.weights(self.run_of(*FP8)), self.weights(self.whole))
        self.assertEqual(self.weights(self.run_of(*FP8, "activation_checkpointing=true")), self.weights(self.whole))
        self.assertNotEqual(self.weights(self.plain), self.weights(self.whole))

    def test_cached_scores_are_not_those_of_bfloat16(self):
        cached = "reference=cached"
        self.run_of(*BF16, cached)
        done = self.train(self.folder / "with-fp8", *FP8, cached)
        self.check(done)
        self.assertIn("reference scores: saved", done.stderr)
        done = self.train(self.folder / "with-fp8-again", *FP8, cached)
        self.check(done)
        self.assertIn("reference scores: read", done.stderr)

    def test_a_stopped_run_ends_with_the_same_bits(self):
        run = self.folder / "stopped"
        self.stop_at(run, 8, *FP8)
        done = self.train(run, *BF16, "fp8=false", f"resume={run}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("fp8 is true", done.stderr)
        self.check(self.train(run, *FP8, f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_is_refused_where_it_cannot_work(self):
        for words, message in ((["model.fsdp_policy_mp=null"], "the policy is computed in float32"),
                               (["model.reference_dtype=float16"], "the reference is computed in float16"),
                               (["adapter=lora", "adapter.base_dtype=int8"], "adapter.base_dtype=int8")):
            done = self.train(self.folder / "refused", *FP8, *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(message, " ".join(done.stderr.split()))


if __name__ == "__main__":
    main()
