"""Twenty updates on real HH rows against TRL's DPOTrainer: its tokenizing, collator, loss, clipping and loop, as they are.

A tiny GPT-NeoX and a tiny Llama, float32, the same rows in the same order. Loss, rewards and gradient norm of every
update, and the final weights, to the tolerance of train_test.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import train_test  # before torch: it decides about threads
import tiny_models
import tiny_tokenizer
import torch
from datasets import Dataset, disable_progress_bars
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl import DPOConfig, DPOTrainer

disable_progress_bars()


def train_by_trl(folder, batches, settings, optimizer_name, lr, warmup, max_norm):
    """Texts that TRL tokenizes to exactly these ids; it adds the end-of-text token itself."""
    rows = [{"prompt": tiny_tokenizer.text(e["prompt"]), "chosen": tiny_tokenizer.text(e["responses"][0][:-1]),
             "rejected": tiny_tokenizer.text(e["responses"][1][:-1])} for batch in batches for e in batch]
    load = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    policy = load()
    optimizer = getattr(torch.optim, optimizer_name)(policy.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1)))
    # Not AutoTokenizer, which would put the family's own rules in place of the tiny tokenizer's.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(folder, "tokenizer.json")), eos_token=tiny_tokenizer.text([2]))
    with tempfile.TemporaryDirectory() as scratch:
        arguments = DPOConfig(
            output_dir=scratch, loss_type=settings["trl"], beta=settings["beta"],
            label_smoothing=settings.get("label_smoothing", 0.0), per_device_train_batch_size=train_test.BATCH,
            train_sampling_strategy="sequential", num_train_epochs=1, max_grad_norm=max_norm, bf16=False, use_cpu=True,
            gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
        trainer = DPOTrainer(model=policy, ref_model=load(), args=arguments, train_dataset=Dataset.from_list(rows),
                             processing_class=tokenizer, optimizers=(optimizer, schedule))
        trainer.remove_callback(PrinterCallback)
        found = [(e["prompt_ids"], e["chosen_ids"], e["rejected_ids"]) for e in trainer.train_dataset]
        assert found == [(e["prompt"], *e["responses"]) for batch in batches for e in batch], "TRL sees other tokens"
        trainer.train()
    steps = [record for record in trainer.state.log_history if "grad_norm" in record]
    names = {"losses": "loss", "chosen": "rewards/chosen", "rejected": "rewards/rejected", "norms": "grad_norm"}
    return {ours: [step[theirs] for step in steps] for ours, theirs in names.items()}, train_test.weights_of(policy)


RUNS = [({"name": "dpo", "trl": "sigmoid", "beta": 0.1}, "RMSprop", 1e-4, 5, 10.0),
        ({"name": "dpo", "trl": "sigmoid", "beta": 0.3}, "AdamW", 1e-4, 0, 0.5),
        ({"name": "robust", "trl": "robust", "beta": 0.1, "label_smoothing": 0.1}, "RMSprop", 1e-4, 0, 10.0)]


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
                expected = train_by_trl(folder, batches, settings, optimizer, *rest)
                assert len(expected[0]["losses"]) == train_test.UPDATES
                ours = train_test.train_by_probe(folder, batches, settings, optimizer, *rest)
                train_test.compare(f"{family}, {settings['trl']}, {optimizer}", ours, expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
