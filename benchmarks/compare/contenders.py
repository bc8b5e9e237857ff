"""Times one DPO step of a Python contender in a separate process, for compare/cpu.py.

    contenders.py NAME MODEL STEP.json PAIRS THREADS

STEP.json: {"pairs": [{"prompt_ids", "chosen_ids", "rejected_ids"}...], "warm_up": [...]}. The first PAIRS pairs of the
step are computed, as they would be within the whole step, followed by an update. Prints {"pairs", "seconds", "chosen"}: the
chosen responses' mean log-probability shows that all contenders compute the same.
"""

import json
import os
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoModelForCausalLM

from peers import LR, MasterWeights, dpo_loss, padded, padded_log_probs

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def load(folder, dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)


def rows_of(pairs):
    """Returns all chosen responses with their prompts, then all rejected ones."""
    return [(p["prompt_ids"], p[side]) for side in ("chosen_ids", "rejected_ids") for p in pairs]


def timed(step):
    start = time.perf_counter()
    chosen = step()
    return time.perf_counter() - start, chosen


class Original:
    """Computes as direct-preference-optimization does: the batch padded to its longest sequence, four pairs at a time,
    logits of all positions, log-softmax in float32."""

    def __init__(self, folder, dtype):
        self.policy, self.reference = load(folder, dtype).train(), load(folder, dtype).eval()
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=LR)

    log_probs = staticmethod(padded_log_probs)

    def step(self, whole, pairs):
        width = max(len(prompt) + len(response) for prompt, response in rows_of(whole))
        chosen = 0.0
        for begin in range(0, len(pairs), 4):
            batch = padded(rows_of(pairs[begin:begin + 4]), width)
            with torch.no_grad():
                reference = self.log_probs(self.reference, *batch)
            policy = self.log_probs(self.policy, *batch)
            (dpo_loss(policy, reference) / len(pairs)).backward()
            chosen += policy.chunk(2)[0].sum().item()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 10.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return chosen / len(pairs)


class Tuned:
    """Runs the fastest transformers version we could write: pairs sorted by length, two at a time, padded to the longer
    one; bfloat16 over float32 master weights; the head on response tokens only."""

    def __init__(self, folder):
        self.policy, self.reference = load(folder, torch.bfloat16).train(), load(folder, torch.bfloat16).eval()
        self.master = MasterWeights(self.policy)

    @staticmethod
    def log_probs(model, ids, mask, is_response):
        hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[:, :-1]
        counted = is_response[:, 1:]
        logits = model.get_output_embeddings()(hidden[counted]).float()
        by_token = -F.cross_entropy(logits, ids[:, 1:][counted], reduction="none")
        return torch.zeros(len(ids)).index_add(0, counted.nonzero()[:, 0], by_token)

    def step(self, whole, pairs):
        length = lambda p: len(p["prompt_ids"]) + max(len(p["chosen_ids"]), len(p["rejected_ids"]))
        pairs = sorted(pairs, key=length)
        chosen = 0.0
        for begin in range(0, len(pairs), 2):
            batch = padded(rows_of(pairs[begin:begin + 2]))
            with torch.no_grad():
                reference = self.log_probs(self.reference, *batch)
            policy = self.log_probs(self.policy, *batch)
            (dpo_loss(policy, reference) / len(pairs)).backward()
            chosen += policy.chunk(2)[0].sum().item()
        self.master.update()
        return chosen / len(pairs)


class Trl:
    """Runs DPOTrainer as documented: a model's name, a data set, and its defaults (8 pairs at a time, bfloat16
    autocast, gradient checkpointing, AdamW), with accumulation up to the step's size. The data is tokenized beforehand
    for all contenders."""

    def __init__(self, folder):
        self.folder = folder

    def step(self, whole, pairs):
        from datasets import Dataset, disable_progress_bars
        from transformers import PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
        from trl import DPOConfig, DPOTrainer

        disable_progress_bars()

        class Trainer(DPOTrainer):
            def _prepare_dataset(self, dataset, *_):
                return dataset

        class Clock(TrainerCallback):
            def on_step_begin(self, *_, **__):
                self.start = time.perf_counter()

            def on_step_end(self, *_, **__):
                self.seconds = time.perf_counter() - self.start

        clock, at_once = Clock(), min(8, len(pairs))
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{self.folder}/tokenizer.json", eos_token="<|endoftext|>")
        with tempfile.TemporaryDirectory() as scratch:
            arguments = DPOConfig(
                output_dir=scratch, per_device_train_batch_size=at_once, gradient_accumulation_steps=-(-len(pairs) // at_once),
                max_steps=1, learning_rate=LR, train_sampling_strategy="sequential", use_cpu=True, logging_steps=1,
                save_strategy="no", report_to="none", disable_tqdm=True)
            trainer = Trainer(model=str(self.folder), args=arguments, train_dataset=Dataset.from_list(pairs),
                              processing_class=tokenizer, callbacks=[clock])
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        self.seconds = clock.seconds
        return trainer.state.log_history[0]["logps/chosen"]


CONTENDERS = {"original float32": lambda folder: Original(folder, torch.float32),
              "original bfloat16": lambda folder: Original(folder, torch.bfloat16),
              "tuned": Tuned, "trl": Trl}


def main():
    name, folder, file, count, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    with open(file) as text:
        step = json.load(text)
    pairs = step["pairs"][:int(count)]
    contender = CONTENDERS[name](folder)
    contender.step(step["warm_up"], step["warm_up"])
    seconds, chosen = timed(lambda: contender.step(step["pairs"], pairs))
    seconds = getattr(contender, "seconds", seconds)  # TRL measures itself, without the time to create the trainer
    print(json.dumps({"pairs": len(pairs), "seconds": seconds, "chosen": chosen}))


if __name__ == "__main__":
    main()
