"""Compares GGUF files with the programs that read them: the gguf package (bytes), transformers (logits of the families
that it loads) and llama.cpp (tokens of texts, greedy answers, where generation stops, adapters)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import sentencepiece
import tiny_models
import torch
from tokenizer_kinds import CL100K, O200K, QWEN2, of_bytes, of_spaces, split, with_bos
from tokenizer_texts import Texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoModelForCausalLM

try:
    import gguf
    import xllamacpp
except ImportError as missing:
    print(f"not run: {missing.name} is not in the test environment")
    sys.exit(77)

PROGRAM = os.environ["DPO_PROGRAM"]
ALL = "DPO_TEST_ALL" in os.environ
PROMPT = "The quick brown fox"
TRAINING = Texts(99).list(1500)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

# Tiny models whose settings llama.cpp supports.
CHANGES = {
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3_text": {"query_pre_attn_scalar": 16, "num_hidden_layers": 7, "layer_types": None},
    "olmo3": {"rope_parameters": {"full_attention": {**tiny_models.YARN_ROPE, "beta_fast": 32.0},
                                  "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}},
    "smollm3": {"num_hidden_layers": 5, "no_rope_layer_interval": 4},
    # llama.cpp uses the long factors if its context, of at least 256 tokens, exceeds the original one.
    "phi3": {"max_position_embeddings": 400, "original_max_position_embeddings": 300, "sliding_window": None},
    "olmoe": {"num_key_value_heads": 6},
    "cohere": {"tie_word_embeddings": True},
    "qwen3": {"rope_parameters": {**tiny_models.YARN_ROPE, "beta_fast": 32.0, "rope_theta": 1e6}},
    "gpt2": {"tie_word_embeddings": True},
    "gpt_neox": {"tie_word_embeddings": True},
}
# transformers reads only some settings from GGUF files, and has these where it reads none.
GEMMA = {"head_dim": 256, "query_pre_attn_scalar": 256}
SETTINGS_OF_TRANSFORMERS = {
    "llama": {"rope_parameters": None}, "qwen3": {"rope_parameters": None, "head_dim": 128}, "gpt2": {"n_inner": 192},
    "gemma2": {**GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3_text": {**GEMMA, "rope_parameters": None},
}
FAMILIES = [family for family in tiny_models.FAMILIES if family != "gptj"]
SOME = FAMILIES if ALL else ["llama", "gemma3_text", "gpt2", "qwen3_moe"]
LOADED_BY_TRANSFORMERS = ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "gpt2", "qwen3_moe"]


def dpo(*words, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, **settings)


def of_gpt2(**settings) -> Tokenizer:
    return of_bytes(TRAINING, [pre_tokenizers.ByteLevel(add_prefix_space=False)], specials=("<|endoftext|>", "<|done|>"),
                    vocab_size=600, **settings)


def split_at(pattern: str, **settings) -> Tokenizer:
    return of_bytes(TRAINING, [split(Regex(pattern), "isolated"), BYTES], **settings)


TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
KINDS = {
    "gpt-2": of_gpt2,
    "smollm": lambda: of_bytes(TRAINING, [pre_tokenizers.Digits(individual_digits=True),
                                          pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": lambda: with_bos(split_at(CL100K, ignore_merges=True), "<|begin_of_text|>"),
    "dbrx": lambda: split_at(CL100K),
    "qwen2": lambda: split_at(QWEN2),
    "gpt-4o": lambda: split_at(O200K),
    "tekken": lambda: split_at(TEKKEN, ignore_merges=True),
}
# Letters with marks and of other cases, which llama.cpp's pattern for gpt-4o and tekken treats differently, are left out.
PLAIN = ["Hello world", " I'll don't CAN'T we've", "3 33 333 3333 1.5e10", "a\n\nb\n  c \t d", "  leading and trailing  ",
         "x=foo(bar[1]);// done!\n", "你好，世界 мир", "🚀 (normal) ✅", "$5.00 --- ===", "\r\n\r\n end"]


def save_tokenizer(folder: Path, tokenizer: Tokenizer, **special) -> None:
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(special))


def make_model(folder: Path, family: str, tokenizer: Tokenizer, special: dict | None = None, **changes) -> Path:
    """Saves a tiny model with a tokenizer. Its vocabulary has a few rows that are no tokens."""
    special = special or {"eos_token": "<|endoftext|>"}
    settings = {"vocab_size": tokenizer.get_vocab_size() + 5, "bos_token_id": None,
                "eos_token_id": tokenizer.token_to_id(special["eos_token"]), **CHANGES.get(family, {}), **changes}
    made = tiny_models.model(family, **settings)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() == 2 and "embed" not in name and "wte" not in name:
                parameter.mul_(2)  # so that the most likely token leads clearly
    made.save_pretrained(folder)
    save_tokenizer(folder, tokenizer, **special)
    return folder


class LlamaCpp:
    """A server of llama.cpp in this process."""

    def __init__(self, file: Path, adapter: Path | None = None) -> None:
        settings = xllamacpp.CommonParams()
        settings.model.path = str(file)
        settings.n_ctx = 64
        settings.n_parallel = 1
        settings.cpuparams.n_threads = 1
        settings.cpuparams_batch.n_threads = 1
        settings.warmup = False
        settings.fit_params = False
        settings.verbosity = -1
        settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        if adapter:
            settings.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
        self.server = xllamacpp.Server(settings)

    def post(self, path: str, **body) -> dict:
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def tokens(self, text: str, special: bool = False) -> list[int]:
        return self.post("/tokenize", content=text, add_special=special, parse_special=True)["tokens"]

    def greedy(self, prompt: list[int], count: int) -> dict:
        return self.post("/completion", prompt=prompt, n_predict=count, temperature=0, return_tokens=True, n_probs=1,
                         cache_prompt=False)


class Gguf(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.gpt2 = of_gpt2()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, source: Path, *options, name: str = "") -> Path:
        out = self.folder / (name or f"{source.name}-{'-'.join(options)}.gguf")
        answer = dpo("convert", source, out, *options)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.stderr, self.stdout = answer.stderr, answer.stdout
        return out

    def sample(self, folder: Path, *options, count: int = 12) -> dict:
        answer = dpo("sample", folder, "--prompt", PROMPT, "--greedy", "--json", "--device", "cpu", "--dtype", "float32",
                     "--max-new-tokens", count, *options)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def check_answers(self, ours: dict, server: LlamaCpp, tokenizer: Tokenizer, count: int = 12) -> None:
        theirs = server.greedy(tokenizer.encode(PROMPT, add_special_tokens=False).ids, count)
        self.assertEqual(theirs["tokens"], ours["tokens"])

    def test_every_family(self) -> None:
        for family in SOME:
            with self.subTest(family=family):
                source = make_model(self.folder / family, family, self.gpt2)
                file = self.convert(source, "--dtype", "f32")
                self.check_answers(self.sample(source), LlamaCpp(file), self.gpt2)

    def test_logits_in_transformers(self) -> None:
        for family in LOADED_BY_TRANSFORMERS if ALL else ["llama", "gemma2", "gpt2"]:
            with self.subTest(family=family):
                source = make_model(self.folder / family, family, self.gpt2, **SETTINGS_OF_TRANSFORMERS.get(family, {}))
                file = self.convert(source, "--dtype", "f32")
                ids = torch.tensor([self.gpt2.encode(PROMPT).ids])
                expected = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)(ids).logits
                loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
                torch.testing.assert_close(loaded(ids).logits, expected, rtol=1e-5, atol=1e-5)

    def test_numbers(self) -> None:
        """Compares every tensor with what the gguf package computes from the file in f32."""
        source = make_model(self.folder / "model", "llama", self.gpt2, hidden_size=64, num_attention_heads=8,
                            num_key_value_heads=4, head_dim=8, intermediate_size=96, tie_word_embeddings=False)
        exact = {tensor.name: tensor for tensor in gguf.GGUFReader(self.convert(source, "--dtype", "f32")).tensors}
        self.assertEqual(self.stderr, "")
        kind = gguf.GGMLQuantizationType
        for dtype in ("f16", "bf16", "q8_0", "q4_0"):
            with self.subTest(dtype=dtype):
                file = self.convert(source, "--dtype", dtype)
                self.assertIn(f", {dtype}, ", self.stdout)
                tensors = gguf.GGUFReader(file).tensors
                self.assertEqual([tensor.name for tensor in tensors], list(exact))
                for tensor in tensors:
                    wanted = kind[dtype.upper()]
                    if dtype == "q4_0" and tensor.name == "output.weight":
                        wanted = kind.Q8_0
                    if len(tensor.shape) == 1:
                        wanted = kind.F32
                    self.assertEqual(tensor.tensor_type, wanted, tensor.name)
                    values = gguf.quants.quantize(exact[tensor.name].data, wanted)
                    self.assertEqual(tensor.data.tobytes(), values.tobytes(), tensor.name)

    def test_rows_without_blocks(self) -> None:
        source = make_model(self.folder / "model", "llama", self.gpt2)
        tensors = gguf.GGUFReader(self.convert(source, "--dtype", "q8_0")).tensors
        self.assertIn("these tensors are f16, since q8_0 needs rows of a multiple of 32 numbers", self.stderr)
        self.assertIn("attn_q.weight (48)", self.stderr)
        self.assertNotIn("attn_norm", self.stderr)
        names = {tensor.name: tensor.tensor_type.name for tensor in tensors}
        self.assertEqual(names["blk.0.attn_q.weight"], "F16")
        self.assertEqual(names["blk.0.attn_norm.weight"], "F32")

    def test_tokenizers_of_bytes(self) -> None:
        for pre, make in KINDS.items():
            with self.subTest(pre=pre):
                tokenizer = make()
                names = {"eos_token": tokenizer.id_to_token(0)}
                if pre == "llama-bpe":
                    names["bos_token"] = "<|begin_of_text|>"
                source = make_model(self.folder / pre, "llama", tokenizer, names)
                server = LlamaCpp(self.convert(source, "--dtype", "f32"))
                for text in PLAIN if pre in ("gpt-4o", "tekken") else PLAIN + Texts(5).list(60):
                    if "\0" in text:
                        continue  # llama.cpp ends texts there
                    self.assertEqual(server.tokens(text), tokenizer.encode(text, add_special_tokens=False).ids, text)
                self.assertEqual(server.tokens("a", special=True), tokenizer.encode("a").ids)

    def make_sentencepiece(self, folder: Path) -> sentencepiece.SentencePieceProcessor:
        folder.mkdir()
        corpus = self.folder / "corpus.txt"
        corpus.write_text("\n".join(Texts(98, special=False).sentence() for _ in range(2000)))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(folder / "tokenizer"), model_type="bpe", vocab_size=700, byte_fallback=True,
            character_coverage=0.99, minloglevel=2, hard_vocab_limit=False, normalization_rule_name="identity",
            remove_extra_whitespaces=False)
        return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    def as_json(self, model: sentencepiece.SentencePieceProcessor) -> Tokenizer:
        """Returns the tokenizer.json that transformers makes of a sentencepiece model."""
        ids = {model.id_to_piece(i): i for i in range(model.get_piece_size())}
        merges = [(-model.get_score(ids[piece]), piece[:at], piece[at:]) for piece in ids for at in range(1, len(piece))
                  if piece[:at] in ids and piece[at:] in ids and not model.is_control(ids[piece])]
        merges.sort(key=lambda merge: (merge[0], ids[merge[1]], ids[merge[2]]))
        made = Tokenizer(models.BPE(ids, [merge[1:] for merge in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                          decoders.Strip(" ", 1, 0)])
        made.add_special_tokens(["<unk>", "<s>", "</s>"])
        return with_bos(made, "<s>")

    def test_tokenizers_of_sentencepiece(self) -> None:
        model = self.make_sentencepiece(self.folder / "pieces")
        texts = [text for text in PLAIN + Texts(6, special=False).list(40) if "\0" not in text]
        names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        from_json = make_model(self.folder / "json", "llama", self.as_json(model), names)
        from_model = make_model(self.folder / "model", "llama", self.as_json(model), names)
        (from_model / "tokenizer.json").unlink()
        (self.folder / "pieces" / "tokenizer.model").rename(from_model / "tokenizer.model")
        for source in (from_json, from_model):
            with self.subTest(source=source.name):
                server = LlamaCpp(self.convert(source, "--dtype", "f32"))
                self.assertNotIn("merges", self.stderr)
                for text in texts:
                    self.assertEqual(server.tokens(text), model.encode(text), text)
                self.assertEqual(server.tokens("a", special=True), [model.bos_id(), *model.encode("a")])

    def test_stops_at_the_end_of_a_turn(self) -> None:
        """<|done|> ends a turn only in the chat template; llama.cpp does not know its name."""
        source = make_model(self.folder / "model", "llama", self.gpt2, tie_word_embeddings=False)
        template = ("{% for m in messages %}{{ m.role + ': ' + m.content + '<|done|>' }}{% endfor %}"
                    "{% if add_generation_prompt %}assistant: {% endif %}")
        (source / "chat_template.jinja").write_text(template)
        self.end_after(source, 3, self.gpt2.token_to_id("<|done|>"))
        same = self.folder / "same"
        self.assertEqual(dpo("convert", source, same).returncode, 0)  # adds generation_config.json
        server = LlamaCpp(self.convert(source, "--dtype", "f32"))
        ours = self.sample(same)
        theirs = server.greedy(self.gpt2.encode(PROMPT).ids, 12)
        self.assertEqual(ours["finish"], "eos")
        self.assertEqual(theirs["stop_type"], "eos")
        self.assertEqual(len(theirs["tokens"]), theirs["tokens_predicted"])
        self.assertLess(theirs["tokens_predicted"], 12)
        without_end = [token for token in theirs["tokens"] if token != self.gpt2.token_to_id("<|done|>")]
        self.assertEqual([t for t in ours["tokens"] if t != self.gpt2.token_to_id("<|done|>")], without_end)
        messages = [{"role": "user", "content": "Hi"}]
        self.assertEqual(server.post("/apply-template", messages=messages)["prompt"], "user: Hi<|done|>assistant: ")

    def end_after(self, source: Path, count: int, end: int) -> None:
        """Changes the head so that the token `end` becomes the most likely one after `count` tokens, or earlier."""
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
        prompt = torch.tensor([self.gpt2.encode(PROMPT).ids])
        text = model.generate(prompt, max_new_tokens=count, do_sample=False, eos_token_id=None)
        with torch.no_grad():
            hidden = model.model(text).last_hidden_state[0, -1]
            model.lm_head.weight[end] = hidden * (model.lm_head(hidden).max() + 1) / hidden.dot(hidden)
        model.save_pretrained(source)

    def test_adapter(self) -> None:
        from peft import LoraConfig, get_peft_model
        for family, settings in {
            "llama": {"r": 4, "lora_alpha": 16, "use_rslora": True, "rank_pattern": {"k_proj": 2}, "target_modules": "all-linear"},
            "gpt2": {"r": 4, "lora_alpha": 12, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
            "gpt_neox": {"r": 4, "lora_alpha": 12, "target_modules": ["query_key_value", "dense_4h_to_h"]},
        }.items():
            with self.subTest(family=family):
                source = make_model(self.folder / family, family, self.gpt2)
                model = get_peft_model(AutoModelForCausalLM.from_pretrained(source), LoraConfig(**settings))
                torch.manual_seed(1)
                with torch.no_grad():
                    for name, parameter in model.named_parameters():
                        if "lora_B" in name:
                            parameter.normal_(std=0.1)
                adapter = self.folder / f"{family}-adapter"
                model.save_pretrained(adapter)
                ours = self.sample(source, "--adapter", adapter)
                self.assertNotEqual(ours["tokens"], self.sample(source)["tokens"])
                file = self.convert(adapter)
                self.assertIn("LoRA for", self.stdout)
                self.check_answers(ours, LlamaCpp(self.convert(source, "--dtype", "f32"), file), self.gpt2)
                merged = self.folder / f"{family}-merged.gguf"
                answer = dpo("merge", source, adapter, merged, "--dtype", "f32")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.check_answers(ours, LlamaCpp(merged), self.gpt2)

    def refuse(self, messages: list[str], *words) -> None:
        before = sorted(self.folder.rglob("*"))
        answer = dpo(*words)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        for message in messages:
            self.assertIn(message, answer.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "files were left")

    def test_refused(self) -> None:
        out = self.folder / "out.gguf"
        gptj = make_model(self.folder / "gptj", "gptj", self.gpt2)
        self.refuse(["llama.cpp does not know GPT-J", "it knows GPT-2, GPT-NeoX, Llama"], "convert", gptj, out)
        grouped = make_model(self.folder / "olmoe", "olmoe", self.gpt2, num_key_value_heads=2)
        self.refuse(["llama.cpp does not support fewer heads of keys than of queries in OLMoE"], "convert", grouped, out)
        other = make_model(self.folder / "gemma2", "gemma2", self.gpt2, query_pre_attn_scalar=20)
        self.refuse(["llama.cpp does not support this factor of attention scores", "in Gemma 2"], "convert", other, out)
        model = make_model(self.folder / "model", "llama", self.gpt2)
        self.refuse(["--dtype q8_0: only for a GGUF file"], "convert", model, self.folder / "out", "--dtype", "q8_0")
        self.refuse(["--modelfile: only for a GGUF file"], "convert", model, self.folder / "out", "--modelfile")
        unknown = of_bytes(TRAINING, [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)],
                           specials=("<|endoftext|>",), vocab_size=600)
        save_tokenizer(model, unknown)
        self.refuse(["tokenizer.json: llama.cpp has no rules for this pre_tokenizer", "known: gpt-2, smollm"],
                    "convert", model, out)
        (model / "tokenizer.json").unlink()
        self.refuse(["no tokenizer in"], "convert", model, out)
        out.touch()
        self.refuse(["out.gguf exists; choose another path"], "convert", model, out)

    def test_differences_are_noted(self) -> None:
        window = make_model(self.folder / "window", "mistral", self.gpt2, sliding_window=20)
        self.convert(window)
        self.assertIn("full attention where this model has a sliding window", self.stderr)
        self.assertIn("more than 20 tokens", self.stderr)
        trained = of_spaces(TRAINING, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                            byte_fallback=True, fuse_unk=True)
        trained.add_tokens([AddedToken("[LEFT]", lstrip=True)])
        self.convert(make_model(self.folder / "trained", "llama", trained, {"eos_token": "</s>"}))
        self.assertRegex(self.stderr, r"llama.cpp merges \d+ pairs of tokens that are not in the tokenizer's list")
        self.assertIn("some special tokens include the spaces next to them", self.stderr)

    def test_modelfile(self) -> None:
        source = make_model(self.folder / "model", "llama", self.gpt2)
        template = ("{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|done|>\\n' }}{% endfor %}"
                    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")
        (source / "chat_template.jinja").write_text(template)
        self.convert(source, "--modelfile", name="tiny.gguf")
        self.assertEqual((self.folder / "Modelfile").read_text(), (
            'FROM ./tiny.gguf\n\nTEMPLATE """{{ if .System }}<|system|>\n{{ .System }}<|done|>\n{{ else }}{{ end }}'
            '{{ range .Messages }}{{ if eq .Role "user" }}<|user|>\n{{ .Content }}<|done|>\n<|assistant|>\n'
            '{{ else if eq .Role "assistant" }}{{ .Content }}<|done|>\n{{ end }}{{ end }}"""\n'
            'PARAMETER stop "<|endoftext|>"\nPARAMETER stop "<|done|>"\n'))
        self.refuse(["Modelfile exists; choose another path"], "convert", source, self.folder / "2.gguf", "--modelfile")
        (self.folder / "Modelfile").unlink()
        (source / "chat_template.jinja").write_text(template + "{{ messages | length }}")
        self.convert(source, "--modelfile", name="other.gguf")
        self.assertIn("it cannot be translated", self.stderr)
        self.assertNotIn("TEMPLATE", (self.folder / "Modelfile").read_text())


if __name__ == "__main__":
    unittest.main()
