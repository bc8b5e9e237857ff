"""Compares twenty updates on real HH rows with TRL's DPOTrainer and KTOTrainer: tokenizing, collator, loss, clipping
and loop, unchanged.

A tiny GPT-NeoX and a tiny Llama get the same rows in the same order, in float32. Loss, rewards and gradient norm of
every update, and the final weights, agree to the tolerance of train_test.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import train_test  # imported before torch, since it sets the number of threads
import tiny_models
import tiny_tokenizer
import torch
from datasets import Dataset, disable_progress_bars
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer

disable_progress_bars()


def pairs_of(batches):
    """Returns rows for DPOTrainer, and the ids that it must find. TRL adds the end of the text."""
    text = tiny_tokenizer.text
    examples = [e for batch in batches for e in batch]
    rows = [{"prompt": text(e["prompt"]), "chosen": text(e["responses"][0][:-1]), "rejected": text(e["responses"][1][:-1])}
            for e in examples]
    return rows, [{"prompt_ids": e["prompt"], "chosen_ids": e["responses"][0], "rejected_ids": e["responses"][1]}
                  for e in examples]


def labelled_of(batches):
    """Returns rows and ids for KTOTrainer. It mismatches a prompt with the response before it and we with the one after
    it, so batches are reversed."""
    text = tiny_tokenizer.text
    examples = [e for batch in batches for e in reversed(batch)]
    rows = [{"prompt": text(e["prompt"]), "completion": text(e["responses"][0][:-1]), "label": e["desirable"]} for e in examples]
    return rows, [{"prompt_ids": e["prompt"], "completion_ids": e["responses"][0]} for e in examples]


def train_by_trl(folder, batches, settings, optimizer_name, lr, warmup, max_norm, adapted=None, weights_of=train_test.weights_of):
    """Trains on texts that TRL tokenizes to exactly these ids. `adapted` makes a PEFT model of the policy. TRL then
    compares it with a copy of its initial adapter."""
    is_kto = settings["name"] == "kto"
    rows, ids = labelled_of(batches) if is_kto else pairs_of(batches)
    load = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    policy = adapted(load()) if adapted else load()
    optimizer = getattr(torch.optim, optimizer_name)([p for p in policy.parameters() if p.requires_grad], lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1)))
    # AutoTokenizer would put the family's own rules in place of the tiny tokenizer's.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(folder, "tokenizer.json")), eos_token=tiny_tokenizer.text([2]))
    own = {key: value for key, value in settings.items() if key not in ("name", "trl")}
    with tempfile.TemporaryDirectory() as scratch:
        arguments = (KTOConfig if is_kto else DPOConfig)(
            output_dir=scratch, loss_type=settings["trl"], per_device_train_batch_size=train_test.BATCH, **own,
            train_sampling_strategy="sequential", num_train_epochs=1, max_grad_norm=max_norm, bf16=False, use_cpu=True,
            gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
        trainer = (KTOTrainer if is_kto else DPOTrainer)(
            model=policy, ref_model=None if adapted else load(), args=arguments, train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer, optimizers=(optimizer, schedule))
        trainer.remove_callback(PrinterCallback)
        found = [{key: e[key] for key in ids[0]} for e in trainer.train_dataset]
        assert found == ids, "TRL sees other tokens"
        trainer.train()
    steps = [record for record in trainer.state.log_history if "grad_norm" in record]
    names = {"losses": "loss", "chosen": "rewards/chosen", "rejected": "rewards/rejected", "norms": "grad_norm"}
    return {ours: [step[theirs] for step in steps] for ours, theirs in names.items()}, weights_of(policy)


def labelled(batches):
    """Keeps one response of each pair, good or bad. A batch has 2 to 6 good ones."""
    return [[{"prompt": e["prompt"], "responses": [e["responses"][(i * i + k) % 7 % 2]], "desirable": (i * i + k) % 7 % 2 == 0}
             for i, e in enumerate(batch)] for k, batch in enumerate(batches)]


RUNS = [({"name": "dpo", "trl": "sigmoid", "beta": 0.1}, "RMSprop", 1e-4, 5, 10.0),
        ({"name": "dpo", "trl": "sigmoid", "beta": 0.3}, "AdamW", 1e-4, 0, 0.5),
        ({"name": "robust", "trl": "robust", "beta": 0.1, "label_smoothing": 0.1}, "RMSprop", 1e-4, 0, 10.0),
        ({"name": "kto", "trl": "kto", "beta": 0.1, "desirable_weight": 1.3, "undesirable_weight": 0.7}, "RMSprop", 1e-4, 0, 10.0)]


def main():
    if not train_test.SHARED.is_dir():
        print(f"not run: {train_test.SHARED} is not there")
        return 77
    batches = train_test.hh_batches(train_test.UPDATES)
    for family in ("gpt_neox", "llama"):
        with tempfile.TemporaryDirectory() as folder:
            tiny_models.make(family, folder, seed=1)
            tiny_tokenizer.make(Path(folder))
            for settings, optimizer, *rest in RUNS:
                data = labelled(batches) if settings["name"] == "kto" else batches
                expected = train_by_trl(folder, data, settings, optimizer, *rest)
                assert len(expected[0]["losses"]) == train_test.UPDATES
                ours = train_test.train_by_probe(folder, data, settings, optimizer, *rest)
                train_test.compare(f"{family}, {settings['trl']}, {optimizer}", ours, expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
