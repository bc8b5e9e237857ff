"""Runs steps of TRL's DPOTrainer for compare/gpu.py from pairs of tokens; gives its time and log-probabilities of the
chosen responses."""

import importlib.metadata
import tempfile
import time

import torch
import torch.nn.functional as F

import packed
from peers import BETA, LR


def version():
    """Returns the version of the installed TRL, such as 0.28, or None if it is not installed."""
    try:
        return ".".join(importlib.metadata.version("trl").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return None


def trainer_and_settings():
    import trl.import_utils as found

    probe = found._is_package_available
    if isinstance(probe("trl"), tuple):  # transformers 5 returns one, which TRL 0.28 takes for "installed"
        found._is_package_available = lambda name, return_version=False: probe(name, True) if return_version else probe(name)[0]
    from trl import DPOConfig, DPOTrainer

    return DPOTrainer, DPOConfig


def can_be_padding_free():
    """Returns True for versions that implement padding-free training. Newer ones accept the setting and ignore it."""
    return hasattr(trainer_and_settings()[0], "concatenated_forward")


def note_sequences(model, positional, named):
    """Tells the attention before a forward pass where sequences start, which is where positions are 0."""
    del model, positional
    positions = named["position_ids"][0]
    starts = F.pad((positions == 0).nonzero()[:, 0], (0, 1), value=len(positions))
    packed.current = starts.to(torch.int32), int(positions.max()) + 1


def train(model, steps, pairs_at_once, reference=None, adapter=None, padding_free=False):
    """Trains on steps: [pairs of a step]. Returns the seconds and the mean log-probability of each step.

    Padding-free runs have no gradient checkpointing and "packed" attention in the model. Others have TRL's defaults.
    """
    from datasets import Dataset, disable_progress_bars
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, PrinterCallback, TrainerCallback

    disable_progress_bars()
    DPOTrainer, DPOConfig = trainer_and_settings()
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    if can_be_padding_free():
        names = ("prompt_input_ids", "chosen_input_ids", "rejected_input_ids")
    rows = [dict(zip(names, pair)) for pairs in steps for pair in pairs]

    class Trainer(DPOTrainer):
        def _prepare_dataset(self, dataset, *_):
            return dataset

    class Clock(TrainerCallback):
        def __init__(self):
            self.seconds = []

        def on_step_begin(self, *_, **__):
            torch.cuda.synchronize()
            self.start = time.perf_counter()

        def on_step_end(self, *_, **__):
            torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - self.start)

    clock, more = Clock(), {}
    if padding_free:
        more = {"padding_free": True, "gradient_checkpointing": False}
        for each in (model, reference):
            each.register_forward_pre_hook(note_sequences, with_kwargs=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), eos_token="a",
                                        pad_token="a")
    with tempfile.TemporaryDirectory() as scratch:
        settings = DPOConfig(output_dir=scratch, per_device_train_batch_size=pairs_at_once,
                             gradient_accumulation_steps=len(steps[0]) // pairs_at_once, max_steps=len(steps), beta=BETA,
                             learning_rate=LR, train_sampling_strategy="sequential", optim="adamw_torch_fused", bf16=True,
                             logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, **more)
        trainer = Trainer(model=model, ref_model=reference, args=settings, train_dataset=Dataset.from_list(rows),
                          processing_class=tokenizer, peft_config=adapter, callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.seconds, [logged["logps/chosen"] for logged in trainer.state.log_history if "logps/chosen" in logged]
