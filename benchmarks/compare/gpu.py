"""Compares one training step on one GPU: dpo, tuned Python, TRL, and transformers used like
direct-preference-optimization.

The model has random weights. Lengths of preference pairs are drawn from configs/lengths/hh.yaml. A step is policy and
live reference forward, backward, AdamW update, in bfloat16 over float32 master weights. Memory is the peak of tensors.

*tuned Python* is the fastest transformers version we could write: sequences packed without padding, PyTorch's flash attention
over them, the head on response tokens only, a fused optimizer. *transformers*: padded to the longest of the batch, logits of all
positions, as in direct-preference-optimization. *TRL 0.28, padding-free* is DPOTrainer at its best: packed sequences, the same flash
attention, no gradient checkpointing, autocast to bfloat16, the fastest of a few sizes of microbatch. Newer ones cannot do that: they
run with their defaults (8 pairs at a time, padded, gradient checkpointing).

    DPO_PROGRAM=build/dpo python3 benchmarks/compare/gpu.py [MODEL ...]     # default: EleutherAI/pythia-2.8b
    DPO_PROGRAM=build/dpo python3 benchmarks/compare/gpu.py --lora MODEL    # LoRA, with peft; and TRL's DPOTrainer
    DPO_PROGRAM=build/dpo python3 benchmarks/compare/gpu.py --qlora MODEL   # the same over 4-bit weights, with bitsandbytes
    DPO_PROGRAM=build/dpo python3 benchmarks/compare/gpu.py --states MODEL  # all weights, 8-bit optimizer state of bitsandbytes
    DPO_PROGRAM=build/dpo python3 benchmarks/compare/gpu.py --sft MODEL     # SFT: 64 sequences of 1,024 tokens

With --lora all linear layers have LoRA of rank 16 over bfloat16 weights, and the reference is the model without it. With --qlora
those weights, except the head's, are NF4 with doubly quantized scales and computed with in bfloat16. *TRL* is DPOTrainer with its
defaults, accumulating to the same step. With --sft the loss counts all tokens but the first; dpo computes 32 sequences at a time,
*tuned Python* the fastest of a few numbers, with PyTorch's flash attention and nothing to pad. --updates N is the number of measured
steps. Needs a GPU, PyTorch 2.11 and transformers; trl for its rows; peft for --lora and --qlora; bitsandbytes for --qlora and --states.
"""

import argparse
import contextlib
import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import drawn
import packed
import trl_step
from drawn import PAIRS, SEQUENCE
from peers import BETA, MasterWeights, dpo_loss, fused_adamw, padded, padded_log_probs

PROGRAM = os.environ.get("DPO_PROGRAM", str(drawn.ROOT / "build" / "dpo"))
WARM_UP, TRL_UPDATES = 2, 3
DEVICE = "cuda:0"  # includes the index: accelerate compares it with the device of 4-bit weights
LIVE, CACHED, NF4 = "reference=live", "reference=cached", ["adapter=lora", "adapter.base_dtype=nf4"]
DPO_ROWS = {  # settings of dpo for each kind of comparison
    "full": {"dpo": [LIVE], "dpo, cached reference": [CACHED]},
    "lora": {"dpo": ["adapter=lora", LIVE], "dpo, cached reference": ["adapter=lora", CACHED]},
    "qlora": {"dpo": [*NF4, LIVE], "dpo, recomputed activations": [*NF4, LIVE, "activation_checkpointing=true"]},
    "states": {"dpo": ["optimizer_state=8bit", LIVE]},
    "sft": {"dpo": ["gradient_accumulation_steps=2", f"max_length={SEQUENCE}", f"max_prompt_length={SEQUENCE - 1}"]},
}
PYTHON_PACKAGES = {"full": "", "lora": " and peft", "qlora": ", peft and bitsandbytes", "states": " and bitsandbytes",
                   "sft": ""}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("lora", "qlora", "states", "sft"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="full")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["EleutherAI/pythia-2.8b"])
    return parser.parse_args()


SETTINGS = arguments()
KIND, UPDATES = SETTINGS.kind, SETTINGS.updates
LORA = KIND in ("lora", "qlora")
UNITS = PAIRS * SEQUENCE if KIND == "sft" else PAIRS  # tokens or pairs in a step


def new_model(config, attention):
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention)
    return quantized(model, attention) if KIND == "qlora" else model


def quantized(model, attention):
    """Returns a model with 4-bit weights, as transformers loads it from a file."""
    settings = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                               bnb_4bit_compute_dtype=torch.bfloat16)
    return type(model).from_pretrained(None, config=model.config, state_dict=model.state_dict(), quantization_config=settings,
                                       dtype=torch.bfloat16, attn_implementation=attention, device_map={"": DEVICE})


def lora_settings():
    from peft import LoraConfig

    return LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


def with_lora(model):
    from peft import get_peft_model

    adapted = get_peft_model(model, lora_settings(), autocast_adapter_dtype=False)
    for parameter in adapted.parameters():
        if parameter.requires_grad:  # LoRA weights are float32 over 4-bit weights
            parameter.data = parameter.data.to(torch.bfloat16)
    return adapted


class Peer:
    pairs_at_once = PAIRS
    draw = staticmethod(drawn.pairs)

    def __init__(self, config, attention):
        self.without_adapter = contextlib.nullcontext
        self.policy = new_model(config, attention).train()
        if LORA:
            adapted = with_lora(self.policy)
            self.policy = self.reference = adapted.get_base_model()  # both have LoRA in their layers
            self.without_adapter = adapted.disable_adapter
        else:
            self.reference = new_model(config, attention).eval()
        self.master = MasterWeights(self.policy, self.optimizer())
        self.chosen = []  # log-probabilities, which would show a fast wrong answer

    @staticmethod
    def optimizer():
        if KIND != "states":
            return fused_adamw
        import bitsandbytes

        return bitsandbytes.optim.AdamW8bit

    def step(self, pairs):
        for begin in range(0, len(pairs), self.pairs_at_once):
            batch = self.batch(pairs[begin:begin + self.pairs_at_once])
            with torch.no_grad(), self.without_adapter():
                reference = self.log_probs(self.reference, *batch)
            policy = self.log_probs(self.policy, *batch)
            self.chosen.append(policy.detach().chunk(2)[0])
            (dpo_loss(policy, reference) / len(pairs)).backward()
        self.master.update()


class Tuned(Peer):
    pairs_at_once = 32  # more do not fit next to Pythia-2.8B's weights and optimizer state

    def __init__(self, config):
        super().__init__(config, "packed")

    def batch(self, pairs):
        sequences = [(p[0], p[side]) for side in (1, 2) for p in pairs]
        sizes = torch.tensor([len(prompt) + len(response) for prompt, response in sequences])
        ids = torch.tensor([token for prompt, response in sequences for token in prompt + response])
        counted = torch.cat([torch.arange(len(p) + len(r)) >= len(p) for p, r in sequences])
        starts = F.pad(sizes.cumsum(0), (1, 0))
        positions = torch.arange(len(ids)) - starts[:-1].repeat_interleave(sizes)
        rows = counted.nonzero()[:, 0]
        owner = torch.arange(len(sizes)).repeat_interleave(sizes)[rows]
        send = lambda x: x.pin_memory().to(DEVICE, non_blocking=True)
        return (send(ids), send(positions), send(rows), send(owner), len(sizes),
                (send(starts.to(torch.int32)), int(sizes.max())))

    def log_probs(self, model, ids, positions, rows, owner, count, starts):
        packed.current = starts
        hidden = model.base_model(input_ids=ids[None], position_ids=positions[None], use_cache=False).last_hidden_state[0]
        logits = model.get_output_embeddings()(hidden[rows - 1]).float()
        by_token = -F.cross_entropy(logits, ids[rows], reduction="none")
        return torch.zeros(count, device=DEVICE).index_add(0, owner, by_token)


class Original(Peer):
    pairs_at_once = 16

    def __init__(self, config):
        super().__init__(config, "sdpa")

    def batch(self, pairs):
        rows = [(p[0], p[side]) for side in (1, 2) for p in pairs]
        width = max(len(p[0]) + max(len(p[1]), len(p[2])) for p in self.whole)
        return [tensor.to(DEVICE) for tensor in padded(rows, width)]

    def step(self, pairs):
        self.whole = pairs
        super().step(pairs)

    log_probs = staticmethod(padded_log_probs)


class Sft(Peer):
    """Trains on sequences of one length."""

    draw = staticmethod(drawn.sequences)

    def __init__(self, config, sequences_at_once):
        self.at_once, self.chosen = sequences_at_once, []
        self.policy = new_model(config, "sdpa").train()
        self.master = MasterWeights(self.policy)

    def step(self, sequences):
        for ids in sequences.to(DEVICE).split(self.at_once):
            hidden = self.policy.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
            logits = self.policy.get_output_embeddings()(hidden).float()
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            (loss * len(ids) / len(sequences)).backward()
        self.master.update()


class Result(NamedTuple):
    speed: float  # pairs or tokens per second
    memory: float  # GiB
    log_prob: float | None = None  # mean over the chosen responses
    note: str = ""  # appended to the row's name


def fastest(measure, sizes, of):
    """Returns the best measure(size). After a size that does not fit, no larger one is tried."""
    best = None
    for size in sizes:
        try:
            result = measure(size)
        except torch.OutOfMemoryError:
            if best is None:
                raise
            break
        finally:
            free_memory()
        if best is None or result.speed > best.speed:
            best = result._replace(note=f", {size} {of} at a time")
    return best


def free_memory():
    gc.collect()
    torch.cuda.empty_cache()


def measure_trl(config, pairs_at_once=8, padding_free=False):
    torch.manual_seed(0)  # the same weights as the peers'
    model = new_model(copy.deepcopy(config), "packed" if padding_free else "sdpa")  # the trainer changes it
    reference = adapter = None
    if LORA:
        adapter = lora_settings()
    else:
        reference = copy.deepcopy(model)  # stays in bfloat16
        model = model.float()
    torch.cuda.reset_peak_memory_stats()
    steps = WARM_UP + (UPDATES if padding_free else min(UPDATES, TRL_UPDATES))
    batches = [drawn.pairs(config.vocab_size, seed) for seed in range(steps)]
    seconds, chosen = trl_step.train(model, batches, pairs_at_once, reference, adapter, padding_free)
    seconds = seconds[WARM_UP:]
    return Result(PAIRS * len(seconds) / sum(seconds), torch.cuda.max_memory_allocated() / 2**30,
                  sum(chosen) / steps if padding_free else None)


def measure_peer(kind, config, *settings):
    torch.manual_seed(0)
    peer = kind(config, *settings)
    torch.cuda.reset_peak_memory_stats()
    batches = [peer.draw(config.vocab_size, seed) for seed in range(WARM_UP + UPDATES)]
    for i, pairs in enumerate(batches):
        if i == WARM_UP:
            torch.cuda.synchronize()
            start = time.perf_counter()
        peer.step(pairs)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return Result(UNITS * UPDATES / seconds, torch.cuda.max_memory_allocated() / 2**30,
                  torch.cat(peer.chosen).mean().item() if peer.chosen else None)


def measure_dpo(model, settings):
    with tempfile.TemporaryDirectory() as scratch:
        loss = ["loss=dpo", f"loss.beta={BETA}"]
        if KIND == "sft":
            loss = ["loss=sft", f"plan.lengths={drawn.lengths_of_sequences(Path(scratch))}"]
        command = [PROGRAM, "bench", "train", "model=blank_model", f"model.name_or_path={model}", *loss, f"batch_size={PAIRS}",
                   "model.fsdp_policy_mp=bfloat16", "optimizer=AdamW", *settings, "--updates", str(UPDATES), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    report = json.loads(done.stdout)
    return Result(report["pairs_per_second"] * UNITS / PAIRS, report["peak_gib"])


def contenders(model, config):
    """Returns {name: function that measures}."""
    rows = {name: lambda settings=settings: measure_dpo(model, settings) for name, settings in DPO_ROWS[KIND].items()}
    tuned = f"tuned Python{PYTHON_PACKAGES[KIND]}"
    if KIND == "sft":
        return rows | {tuned: lambda: fastest(lambda size: measure_peer(Sft, config, size), (8, 16, 32), "sequences")}
    rows[tuned] = lambda: measure_peer(Tuned, config)
    if LORA:
        rows[f"TRL{PYTHON_PACKAGES[KIND]}"] = lambda: measure_trl(config)
    elif KIND == "full":
        rows |= full_trl(config)
        rows["transformers"] = lambda: measure_peer(Original, config)
    return rows


def full_trl(config):
    version = trl_step.version()
    if version is None:
        print("TRL is not installed: no row for it")
        return {}
    if not trl_step.can_be_padding_free():
        return {f"TRL {version}": lambda: measure_trl(config)}
    padding_free = lambda pairs: measure_trl(config, pairs, padding_free=True)
    return {f"TRL {version}, padding-free": lambda: fastest(padding_free, (16, 32, 64), "pairs")}


def compare(model):
    config = AutoConfig.for_model(**json.loads((drawn.ROOT / "configs" / "architecture" / f"{model.replace('/', '--')}.json").read_text()))
    rows = contenders(model, config)
    unit, digits = ("tokens/s", 0) if KIND == "sft" else ("pairs/s", 1)
    print(f"\n{model}\n\n| | {unit} | memory, GiB | dpo is faster by |\n|---|---|---|---|", flush=True)
    speed_of_dpo, chosen = None, []
    for name, measure in rows.items():
        try:
            speed, memory, log_prob, note = measure()
        except torch.OutOfMemoryError:
            print(f"| {name} | out of memory | | |", flush=True)
            continue
        finally:
            free_memory()
        speed_of_dpo = speed_of_dpo or speed
        ratio = "" if name.startswith("dpo") else f"{speed_of_dpo / speed:.1f}x"
        print(f"| {name}{note} | {speed:,.{digits}f} | {memory:.1f} | {ratio} |", flush=True)
        chosen += [log_prob] if log_prob is not None else []
    assert not chosen or max(chosen) - min(chosen) < 1e-3 * abs(min(chosen)), f"the peers differ: log-probabilities {chosen}"


def main():
    if not torch.cuda.is_available():
        print("compare/gpu: skipped: no GPU found")
        sys.exit(77)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}")
    for model in SETTINGS.models:
        compare(model)


if __name__ == "__main__":
    main()
