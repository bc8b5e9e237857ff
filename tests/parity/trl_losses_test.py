"""Compares every loss that both TRL and dpo have with TRL's own code: values and derivatives, in float64.

TRL's trainers are made without their constructors, which need models and data. Their loss functions run unchanged over
models whose log-probabilities this test chooses. Derivatives come from autograd.

The tables EQUAL, EQUAL_WITHOUT_REFERENCE and KTO are equal to rounding. For each intended difference, a test in
Differences shows it, so that neither side can change unnoticed:

| loss | TRL 1.16 | here | why |
|---|---|---|---|
| sigmoid with label smoothing | the smoothing is ignored | conservative DPO | the original's (direct-preference-optimization); a setting should not be ignored |
| ipo | per token, always | sums; length_normalize=true is TRL's | the original's |
| bco_pair | no shift | shifted by the mean reward of all updates before | BCO's definition; the first update is equal |
| sft, and as a term of others | mean over all tokens of the batch | a sum (sft) or a mean (alpha) per response | the original's; independent of microbatches |
| cpo, NLL | mean over all tokens of the batch | mean per response, then over pairs | as above; equal where lengths are |
| orpo, NLL | prompt and response, all tokens of the batch | response alone, mean per response | the prompt is given |
| discopop, far off | 0 * inf, NaN | the limit | a run would stop |

TRL has, and we do not: aot_unpaired, apo_zero_unpaired, alpha_divergence, AlphaPO, WPO's weights, label
smoothing of cpo and simpo. We have, and TRL does not: plackett_luce, margins and weights per pair.
"""

import itertools
import json
import math
import os
import subprocess
import unittest
from collections import defaultdict
from types import SimpleNamespace

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from trl import DPOTrainer, KTOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

torch.set_default_dtype(torch.float64)  # makes constants that TRL creates float64 too

PAIRS = 24
NEAR, FAR = 3.0, 4000.0  # distances of summed log-probabilities from the reference's
RELATIVE, ABSOLUTE = 1e-9, 1e-12


class Responses:
    """Holds log-probabilities of responses by token, the chosen ones first. Each response has its own prompt."""

    def __init__(self, seed, pairs=PAIRS, spread=NEAR, lengths=None):
        random = torch.Generator().manual_seed(seed)
        self.pairs = pairs
        self.tokens = torch.tensor(lengths * 2) if lengths else torch.randint(1, 12, (2 * pairs,), generator=random)
        self.prompts = torch.randint(1, 5, (pairs,), generator=random).repeat(2)
        self.width = int((self.tokens + self.prompts).max())
        place = torch.arange(self.width)[None]
        self.is_text = place < (self.prompts + self.tokens)[:, None]
        self.is_response = self.is_text & (place >= self.prompts[:, None])
        base = -torch.rand(2 * pairs, self.width, generator=random) * 4 - 1e-3
        shift = (torch.rand(2 * pairs, generator=random) * 2 - 1) * spread
        # The shift lowers the log-probability under one model: the policy if it is negative, else the reference.
        per_token = (shift / self.tokens)[:, None]
        self.policy = (base + per_token.clamp(max=0)).requires_grad_()
        self.reference = base - per_token.clamp(min=0)

    def scored(self, table):
        """Returns the output of a model with TRL's fused head: zero where nothing is scored."""
        zeros = torch.zeros(table.shape[0], self.width - 1)
        return SimpleNamespace(log_probs=(table * self.is_response)[:, 1:], entropy=zeros, mean_logits=zeros,
                               is_top1=zeros.bool())

    def logits(self):
        """Returns logits over two words. The first word's log-probability is the wanted one."""
        other = torch.log(-torch.expm1(self.policy.clamp(max=-1e-12)))
        both = torch.stack([self.policy, other], -1)
        return SimpleNamespace(logits=torch.cat([both[:, 1:], both[:, :1]], 1))  # position t predicts t + 1

    def scores(self, reference=True):
        sums = [(x.detach() * self.is_response).sum(1).tolist() for x in (self.policy, self.reference)]
        return [[c, c0 if reference else 0.0, n] for c, c0, n in zip(*sums, self.tokens.tolist(), strict=True)]

    def derivatives(self, loss):
        """Returns derivatives by each response's sum. Every token of a response has the same one."""
        (by_token,) = torch.autograd.grad(loss, self.policy)
        first = by_token.gather(1, self.prompts[:, None])
        torch.testing.assert_close(by_token[self.is_response], first.expand_as(by_token)[self.is_response],
                                   rtol=RELATIVE, atol=ABSOLUTE)
        return first[:, 0].tolist()


class Model:
    training = True
    is_gradient_checkpointing = False
    _modules = {}  # accelerate reads it if peft is installed

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, *ids, **inputs):
        return self.answer(inputs.get("input_ids"))


def bare(kind, **attributes):
    """Returns a trainer with only the attributes that its loss function reads."""
    trainer = object.__new__(kind)
    same = lambda x: x
    vars(trainer).update(
        accelerator=SimpleNamespace(device=torch.device("cpu"), gather=same, gather_for_metrics=same),
        args=SimpleNamespace(gradient_checkpointing_kwargs=None, discopop_tau=0.05), aux_loss_enabled=False,
        precompute_ref_logps=False, _metrics=defaultdict(lambda: defaultdict(list)), _total_train_tokens=0, _tp_size=1,
        **attributes)
    return trainer


def trl_dpo(responses, loss_types, weights=None, reference=True, beta=0.1, label_smoothing=0.0, divergence="reverse_kl"):
    policy = Model(lambda ids: responses.scored(responses.policy))
    table = responses.reference if reference else torch.zeros_like(responses.reference)
    trainer = bare(DPOTrainer, model=policy, ref_model=Model(lambda ids: responses.scored(table)), beta=beta,
                   label_smoothing=label_smoothing, ld_alpha=None, use_weighting=False, loss_types=loss_types,
                   loss_weights=weights or [1.0] * len(loss_types), f_divergence_type=divergence)
    inputs = {"input_ids": torch.zeros_like(responses.is_text, dtype=torch.long),
              "attention_mask": responses.is_text.long(), "completion_mask": responses.is_response.long()}
    return trainer._compute_loss(policy, inputs, return_outputs=False)


def trl_without_reference(kind, responses, **settings):
    trainer = bare(kind, is_encoder_decoder=False, pad_token_id=0, padding_value=0, **settings)
    batch = {}
    for side, rows in (("chosen", slice(None, responses.pairs)), ("rejected", slice(responses.pairs, None))):
        batch[f"{side}_input_ids"] = torch.zeros_like(responses.is_text[rows], dtype=torch.long)
        batch[f"{side}_attention_mask"] = responses.is_text[rows].long()
        batch[f"{side}_labels"] = torch.where(responses.is_response[rows], 0, -100)
    loss, _ = trainer.get_batch_loss_metrics(Model(lambda ids: responses.logits()), batch)
    return loss


def trl_cpo(responses, loss_type, cpo_alpha=0.0, beta=0.1, gamma=0.5, label_smoothing=0.0):
    return trl_without_reference(CPOTrainer, responses, loss_type=loss_type, cpo_alpha=cpo_alpha, beta=beta, alpha=0.0,
                                 simpo_gamma=gamma, label_smoothing=label_smoothing)


def trl_kto(responses, mismatched, labels, beta=0.1, desirable_weight=1.0, undesirable_weight=1.0):
    """Computes TRL's KTO loss. The first token, 1, marks rows of the mismatched texts."""
    def model(of):
        return Model(lambda ids: (mismatched if ids[0, 0] == 1 else responses).scored(
            getattr(mismatched if ids[0, 0] == 1 else responses, of)))
    policy = model("policy")
    trainer = bare(KTOTrainer, model=policy, ref_model=model("reference"), loss_type="kto", calculate_KL=True, beta=beta,
                   desirable_weight=desirable_weight, undesirable_weight=undesirable_weight)
    inputs = {"label": torch.tensor(labels)}
    for name, rows, mark in (("", responses, 0), ("KL_", mismatched, 1)):
        inputs[f"{name}input_ids"] = torch.full(rows.is_text.shape, mark)
        inputs[f"{name}attention_mask"] = rows.is_text.long()
        inputs[f"{name}completion_mask"] = rows.is_response.long()
    return trainer._compute_loss(policy, inputs, return_outputs=False)


def ours(requests):
    done = subprocess.run([os.environ["DPO_LOSS_PROBE"]], input=json.dumps(requests), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours_of(responses, comparisons=None, **options):
    """Returns the mean loss and its derivatives by all responses."""
    pairs = [{"responses": [i, i + responses.pairs]} for i in range(responses.pairs)]
    request = {"options": options, "scores": responses.scores(), "comparisons": comparisons or pairs}
    (terms,) = ours([request])
    count = len(request["comparisons"])
    return sum(terms["losses"]) / count, [g / count for g in terms["gradients"]]


# (our options, TRL's loss, TRL's settings). For divergences TRL adds a constant to both scores, which cancels in the
# difference.
EQUAL = [
    ({"name": "dpo"}, "sigmoid", {}),
    ({"name": "dpo", "reference_free": True}, "sigmoid", {"reference": False}),
    ({"name": "dpo", "divergence": "forward_kl"}, "sigmoid", {"divergence": "forward_kl"}),
    ({"name": "dpo", "divergence": "js"}, "sigmoid", {"divergence": "js_divergence"}),
    ({"name": "hinge"}, "hinge", {}),
    ({"name": "ipo", "length_normalize": True}, "ipo", {}),
    ({"name": "robust"}, "robust", {}),
    ({"name": "robust", "label_smoothing": 0.1}, "robust", {"label_smoothing": 0.1}),
    ({"name": "exo_pair", "label_smoothing": 1e-3}, "exo_pair", {"label_smoothing": 1e-3}),
    ({"name": "nca_pair"}, "nca_pair", {}),
    ({"name": "bco_pair"}, "bco_pair", {}),
    ({"name": "sppo_hard"}, "sppo_hard", {}),
    ({"name": "aot"}, "aot", {}),
    ({"name": "aot", "label_smoothing": 0.2}, "aot", {"label_smoothing": 0.2}),
    ({"name": "apo_zero"}, "apo_zero", {}),
    ({"name": "apo_down"}, "apo_down", {}),
    ({"name": "discopop"}, "discopop", {}),
    ({"name": "sigmoid_norm"}, "sigmoid_norm", {}),
]
EQUAL_WITHOUT_REFERENCE = [
    ({"name": "cpo"}, "sigmoid", {}),
    ({"name": "simpo", "gamma": 0.5}, "simpo", {"gamma": 0.5}),
    ({"name": "simpo", "gamma": 1.4}, "simpo", {"gamma": 1.4}),
    # TRL's CPOTrainer smooths, as its DPOTrainer does not: this is conservative DPO without a reference.
    ({"name": "dpo", "reference_free": True, "label_smoothing": 0.1}, "sigmoid", {"label_smoothing": 0.1}),
    ({"name": "hinge", "reference_free": True}, "hinge", {}),
    ({"name": "ipo", "reference_free": True, "length_normalize": True}, "ipo", {}),
]
# exp(-u) overflows on both sides if u is far below 0.
LIMITED = {"forward_kl": 300.0, "discopop": 300.0}


class Case(unittest.TestCase):
    def assert_close(self, one, other, label=""):
        allowed = ABSOLUTE + RELATIVE * max(abs(one), abs(other))
        self.assertTrue(math.isfinite(one) and abs(one - other) <= allowed, f"{label}: ours {one!r}, TRL's {other!r}")

    def compare(self, found, loss, responses):
        value, derivatives = found
        self.assert_close(value, loss.item(), "loss")
        for i, (one, other) in enumerate(zip(derivatives, responses.derivatives(loss), strict=True)):
            self.assert_close(one, other, f"derivative by response {i}")
        if responses.pairs > 1:  # a single pair may be where its loss is flat
            self.assertGreater(max(map(abs, derivatives)), 0)


class Equal(Case):
    def batches(self, options):
        limit = next((LIMITED[key] for key in (options.get("divergence"), options["name"]) if key in LIMITED), FAR)
        for seed, spread in enumerate((NEAR, 100.0, limit)):
            yield Responses(seed, spread=spread)
        for seed in range(10, 22):  # a single pair gives its own value, not a mean
            yield Responses(seed, pairs=1, spread=(NEAR, 30.0, limit)[seed % 3])

    def test_with_reference(self):
        for (options, loss_type, settings), beta in itertools.product(EQUAL, (0.05, 0.3)):
            for responses in self.batches(options):
                with self.subTest(**options, beta=beta, pairs=responses.pairs):
                    loss = trl_dpo(responses, [loss_type], beta=beta, **settings)
                    self.compare(ours_of(responses, beta=beta, **options), loss, responses)

    def test_without_reference(self):
        for (options, loss_type, settings), beta in itertools.product(EQUAL_WITHOUT_REFERENCE, (0.1, 2.0)):
            for responses in self.batches(options):
                with self.subTest(**options, beta=beta, pairs=responses.pairs):
                    loss = trl_cpo(responses, loss_type, beta=beta, **settings)
                    self.compare(ours_of(responses, beta=beta, **options), loss, responses)

    def test_kto(self):
        for seed, spread in enumerate((NEAR, 100.0, FAR)):
            for weights in ({}, {"desirable_weight": 1.3, "undesirable_weight": 0.7}):
                responses, mismatched = Responses(seed, spread=spread), Responses(seed + 50, spread=spread)
                labels = [i % 3 != 0 for i in range(2 * PAIRS)]
                drift = [c - c0 for c, c0, _ in mismatched.scores()]
                comparisons = [{"responses": [i], "desirable": label} for i, label in enumerate(labels)]
                with self.subTest(seed=seed, **weights):
                    found = ours_of(responses, comparisons, name="kto", beta=0.1, kl=sum(drift) / len(drift), **weights)
                    self.compare(found, trl_kto(responses, mismatched, labels, **weights), responses)

    def test_no_loss_of_trl_is_forgotten(self):
        (names,) = (text for text in DPOTrainer._compute_loss.__code__.co_consts if "'sigmoid'," in str(text))
        self.assertEqual(set(names.split("'")[1::2]), {loss for _, loss, _ in EQUAL} | {"sft", "aot_unpaired"})


class Differences(Case):
    def test_trl_ignores_the_smoothing_of_sigmoid(self):
        responses = Responses(1)
        smoothed = trl_dpo(responses, ["sigmoid"], label_smoothing=0.1)
        self.assertEqual(smoothed.item(), trl_dpo(responses, ["sigmoid"]).item())
        self.compare(ours_of(responses, name="dpo"), smoothed, responses)
        self.assertNotAlmostEqual(ours_of(responses, name="dpo", label_smoothing=0.1)[0], smoothed.item(), places=3)

    def test_ipo_of_sums(self):
        """TRL's loss equals the original's if every response has one token."""
        single = Responses(2, pairs=5, lengths=[1] * 5)
        self.compare(ours_of(single, name="ipo"), trl_dpo(single, ["ipo"]), single)
        longer = Responses(2, pairs=5, lengths=[3] * 5)
        self.assertNotAlmostEqual(ours_of(longer, name="ipo")[0], trl_dpo(longer, ["ipo"]).item(), places=3)

    def test_bco_is_shifted(self):
        """Shifting all rewards by d equals TRL's loss with references that are higher by d / beta."""
        responses = Responses(6)
        found = ours_of(responses, name="bco_pair", reward_shift=0.4)
        self.assertGreater(abs(found[0] - trl_dpo(responses, ["bco_pair"]).item()), 1e-3)
        responses.reference += (0.4 / 0.1 / responses.tokens)[:, None]
        self.compare(found, trl_dpo(responses, ["bco_pair"]), responses)

    def test_sft_is_a_sum(self):
        responses = Responses(3)
        chosen = [{"responses": [i]} for i in range(PAIRS)]
        value, derivatives = ours_of(responses, chosen, name="sft")
        tokens = responses.tokens[:PAIRS].sum().item()
        theirs = trl_dpo(responses, ["sft"])
        self.assert_close(value * PAIRS / tokens, theirs.item())
        for one, other in zip(derivatives, responses.derivatives(theirs), strict=True):
            self.assert_close(one * PAIRS / tokens, other)

    def test_terms_of_likelihood_agree_where_lengths_do(self):
        """RPO (sigmoid and sft with a weight) and CPO agree with equal lengths, where means over tokens and over
        responses are equal."""
        for lengths, equal in (([7] * PAIRS, True), (None, False)):
            responses = Responses(4, lengths=lengths)
            for found, loss in ((ours_of(responses, name="dpo", alpha=0.5), trl_dpo(responses, ["sigmoid", "sft"], [1, 0.5])),
                                (ours_of(responses, name="cpo", alpha=1.0), trl_cpo(responses, "sigmoid", cpo_alpha=1.0))):
                if equal:
                    self.compare(found, loss, responses)
                else:
                    self.assertGreater(abs(found[0] - loss.item()), 1e-3)

    def test_orpo_is_equal_but_for_the_likelihood(self):
        for seed, spread in enumerate((NEAR, 20.0, 100.0)):
            responses = Responses(seed, spread=spread)
            value, derivatives = ours_of(responses, name="orpo", beta=0.3)
            chosen = responses.scores()[:PAIRS]
            likelihood = sum(-c / n for c, _, n in chosen) / PAIRS
            text = responses.is_text[:PAIRS].clone()
            text[:, 0] = False  # no logit predicts the first token
            theirs = -responses.policy[:PAIRS][text].mean()
            odds = trl_without_reference(ORPOTrainer, responses, beta=0.3) - theirs
            # TRL computes this part in float32.
            self.assertAlmostEqual(value - likelihood, odds.item(), delta=1e-6)
            found = [d + (1 / n / PAIRS if i < PAIRS else 0)
                     for i, (d, n) in enumerate(zip(derivatives, responses.tokens.tolist(), strict=True))]
            (by_token,) = torch.autograd.grad(odds, responses.policy)
            for one, other in zip(found, by_token.gather(1, responses.prompts[:, None])[:, 0].tolist(), strict=True):
                self.assertAlmostEqual(one, other, delta=1e-6)

    def test_discopop_far_off(self):
        responses = Responses(5, pairs=1, lengths=[4])
        with torch.no_grad():
            responses.policy[0] -= 5000  # makes the chosen response much less likely than under the reference
        self.assertTrue(math.isnan(trl_dpo(responses, ["discopop"]).item()))
        value, derivatives = ours_of(responses, name="discopop")
        u, v = ((c - c0) for c, c0, _ in responses.scores())
        self.assert_close(value, -0.1 * (u - v))  # the logistic loss is a line there
        self.assert_close(derivatives[0], -0.1)


if __name__ == "__main__":
    unittest.main()
