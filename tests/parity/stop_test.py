"""Models that transformers' generate() stops by itself: the ends of answers that every written folder declares."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM,
                          PreTrainedTokenizerFast)

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

try:
    from peft import AutoPeftModelForCausalLM
except ImportError:
    print("not run: peft is not in the test environment")
    sys.exit(77)

PROGRAM = os.environ["DPO_PROGRAM"]
os.environ["OMP_NUM_THREADS"] = "1"
GENERATION = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.0}
MESSAGES = [{"role": "user", "content": "Hello é?"}]
# The base model's answer to every prompt: a text and the end of a turn, repeated.
ANSWER = ["H", "i", "<|im_end|>", "Ċ"]
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
OTHER = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


def make_tokenizer(folder, pad=None, template=None):
    """Returns a tokenizer whose tokens are bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<|pad|>"]})
    if pad:
        tokenizer.pad_token = pad
    if template:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(folder, tokenizer, generation=None):
    """Saves a model whose layers add nothing. Its head only knows which token of ANSWER follows which."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=256,
                                         tie_word_embeddings=False, bos_token_id=None, pad_token_id=None,
                                         eos_token_id=tokenizer.eos_token_id))
    with torch.no_grad():
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding.normal_()
        head.normal_(std=0.01)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        ids = tokenizer.convert_tokens_to_ids(ANSWER)
        for before, after in zip([ids[-1], *ids], ids):
            head[after] = embedding[before]
    model.eval().save_pretrained(folder)
    file = folder / "generation_config.json"
    file.unlink()
    if generation is not None:
        file.write_text(json.dumps({**generation, "eos_token_id": tokenizer.eos_token_id}))


def dpo(*words, **options):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"dpo {' '.join(map(str, words))}: {done.stderr}"
    return done


def answer(folder, model=None, **options):
    """Returns the text that generate() writes after a conversation, with the folder's own template and settings."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = model or AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    made = model.generate(**prompt, max_new_tokens=24, do_sample=False, **options)
    return tokenizer.decode(made[0, prompt["input_ids"].shape[1]:])


class Stop(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.base = self.folder / "base"
        self.base.mkdir()

    def make(self, generation=GENERATION, **options):
        self.tokenizer = make_tokenizer(self.base, **options)
        make_model(self.base, self.tokenizer, generation)
        self.ends = self.tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])

    def train(self, *keys, rows=None):
        """Trains two updates that change nothing. Returns the last checkpoint."""
        file = self.folder / "rows.jsonl"
        rows = rows or [{"messages": [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": "Hi"}]} for i in range(8)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        dpo("train", f"model.name_or_path={self.base}", f"datasets=[{file}]", "loss=sft", "exp_name=stop", f"local_dirs=[{self.folder}]",
            f"local_run_dir={self.folder}/run", "batch_size=4", "n_examples=8", "eval_every=null", "data.test_share=0", "lr=1e-9",
            "warmup_steps=1", "max_length=128", "max_prompt_length=64", "overwrite=true", *keys)
        return self.folder / "run" / "LATEST"

    def check(self, folder, generation=GENERATION):
        """Checks that the model stops, keeps its other settings, and renders like dpo."""
        written = json.loads((folder / "generation_config.json").read_text())
        self.assertEqual(written.pop("eos_token_id"), self.ends)
        self.assertEqual(written, generation)
        self.assertEqual(answer(folder), "Hi<|im_end|>")
        rendered = json.loads(dpo("render", folder, input=json.dumps({"messages": MESSAGES, "add_generation_prompt": True})).stdout)
        self.assertEqual(rendered, AutoTokenizer.from_pretrained(folder).apply_chat_template(MESSAGES, tokenize=False,
                                                                                             add_generation_prompt=True))
        self.assertEqual(rendered, "<|im_start|>user\nHello é?<|im_end|>\n<|im_start|>assistant\n")

    def test_checkpoints_and_what_is_converted_from_them(self):
        self.make()
        checkpoint = self.train("chat_template=chatml")
        self.check(checkpoint)
        dpo("convert", checkpoint, self.folder / "converted")
        self.check(self.folder / "converted")

    def test_a_base_without_settings_and_with_another_template(self):
        self.make(None, pad="<|pad|>", template=[{"name": "default", "template": OTHER}, {"name": "tool_use", "template": OTHER}])
        pad = self.tokenizer.pad_token_id
        self.assertEqual(AutoModelForCausalLM.from_pretrained(self.base).generation_config.eos_token_id, self.ends[0])
        checkpoint = self.train("chat_template=chatml")
        self.check(checkpoint, {"pad_token_id": pad})
        tools = [{"type": "function", "function": {"name": "add"}}]
        self.assertEqual(AutoTokenizer.from_pretrained(checkpoint).apply_chat_template(MESSAGES, tools=tools, tokenize=False),
                         "<|im_start|>user\nHello é?<|im_end|>\n")

    def test_the_tokenizer_of_another_folder(self):
        self.make()
        other = self.folder / "tokenizer"
        for file in ("tokenizer.json", "tokenizer_config.json"):
            other.mkdir(exist_ok=True)
            (self.base / file).rename(other / file)
        self.check(self.train("chat_template=chatml", f"model.tokenizer_name_or_path={other}"))

    def test_adapters(self):
        self.make()
        adapter = self.train("chat_template=chatml", "adapter=lora", "adapter.r=2", "adapter.merge_on_save=true")
        written = json.loads((adapter / "generation_config.json").read_text())
        self.assertEqual(written, {**GENERATION, "eos_token_id": self.ends})
        # PEFT and transformers use the base's settings, so those of the adapter's folder must be passed to generate().
        own = GenerationConfig.from_pretrained(adapter)
        for loader in (AutoModelForCausalLM, AutoPeftModelForCausalLM):
            model = loader.from_pretrained(adapter)
            self.assertEqual(answer(adapter, model), "Hi<|im_end|>\n" * 6)
            self.assertEqual(answer(adapter, model, generation_config=own), "Hi<|im_end|>")
        self.check(self.folder / "run" / "merged")
        dpo("merge", self.base, adapter, self.folder / "out")
        self.check(self.folder / "out")
        (adapter / "generation_config.json").unlink()  # older versions of dpo, and PEFT, do not write it
        dpo("merge", self.base, adapter, self.folder / "older")
        self.check(self.folder / "older")

    def test_folders_of_others_are_converted_with_a_note(self):
        self.make()
        (self.base / "chat_template.jinja").write_text(CHATML)
        done = dpo("convert", self.base, self.folder / "converted")
        self.assertIn(f"generation_config.json: eos_token_id is [{self.ends[0]}, {self.ends[1]}] now", done.stderr)
        self.check(self.folder / "converted")
        (self.base / "chat_template.jinja").write_text("{% not a template")
        done = dpo("convert", self.base, self.folder / "unknown")
        self.assertIn("generation_config.json is unchanged, since it is not known how an answer ends", done.stderr)
        self.assertEqual((self.folder / "unknown/generation_config.json").read_bytes(), (self.base / "generation_config.json").read_bytes())

    def test_plain_text_changes_nothing(self):
        rows = [{"prompt": f"Q: {i}\nA:", "chosen": " b", "rejected": " c"} for i in range(8)]
        self.make()
        checkpoint = self.train(rows=rows)
        self.assertEqual((checkpoint / "generation_config.json").read_bytes(), (self.base / "generation_config.json").read_bytes())
        (self.base / "generation_config.json").unlink()
        self.assertFalse((self.train(rows=rows) / "generation_config.json").exists())


if __name__ == "__main__":
    unittest.main()
