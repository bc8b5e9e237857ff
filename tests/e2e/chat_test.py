"""Chats outside of training data: talking with a model, scoring conversations, checkpoints that carry their template."""

import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["DPO_PROGRAM"]
SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
SHARED = Path(os.environ.get("DPO_SHARED_DATA", SOURCE.parent / "shared" / "data"))
os.environ["OMP_NUM_THREADS"] = "1"
if not Path(PROGRAM + "-engine").exists() or not (SHARED / "chat_templates").is_dir():
    print("not run: built without LibTorch, or no shared data")
    sys.exit(77)

import torch
import transformers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tiny_run import HANGS

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

ANSWER = ["Hi", " there", "<|im_end|>"]  # the model's answer to every prompt
TOOLS = [{"type": "function", "function": {"name": "add", "description": "a < b & é", "parameters": {"type": "object"}}}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def make_tokenizer(folder, template=None, name="gpt-neox"):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(SHARED / "tokenizers" / name / "tokenizer.json"),
                                        bos_token="<|begin_of_text|>", eos_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<|eot_id|>",
                                                                "<|start_header_id|>", "<|end_header_id|>"]})
    if template:
        tokenizer.chat_template = (SHARED / "chat_templates" / f"{template}.jinja").read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(folder, tokenizer):
    """Saves a model whose layers add nothing. After a line break, which ends the prompt, the head writes ANSWER."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=512,
                                         tie_word_embeddings=False, bos_token_id=None,
                                         eos_token_id=tokenizer.eos_token_id))
    with torch.no_grad():
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding.normal_()
        head.normal_(std=0.01)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        for before, after in zip(["\n", *ANSWER], ANSWER):
            (last,) = tokenizer.encode(before, add_special_tokens=False)
            (next_token,) = tokenizer.encode(after, add_special_tokens=False)
            head[next_token] = embedding[last]
    model.eval().save_pretrained(folder)
    return model


def random_model(folder, tokenizer):
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=512,
                                         initializer_range=0.2))
    model.eval().save_pretrained(folder)
    return model


def dpo(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, **options)


class Terminal:
    """Runs a program on a pseudo-terminal."""

    def __init__(self, *arguments):
        self.controller, terminal = pty.openpty()
        self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.shown = ""

    def read_until(self, text):
        """Returns the output before the text, without earlier output."""
        while text not in self.shown:
            ready, _, _ = select.select([self.controller], [], [], HANGS)
            assert ready, f"no {text!r} in {self.shown!r}"
            try:
                piece = os.read(self.controller, 4096)
            except OSError:  # the other end is closed
                piece = b""
            assert piece, f"it ended without {text!r} in {self.shown!r}"
            self.shown += piece.decode()
        before, self.shown = self.shown.split(text, 1)
        return before

    def type(self, text):
        os.write(self.controller, text.encode())

    def close(self):
        status = self.process.wait(timeout=HANGS)
        os.close(self.controller)
        return status


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.model = cls.folder / "model"
        cls.tokenizer = make_tokenizer(cls.model, "Qwen-Qwen2.5-7B-Instruct")
        make_model(cls.model, cls.tokenizer)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_dpo(self, *arguments, **options):
        done = dpo(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def failure(self, *arguments, **options):
        done = dpo(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertNotIn("bug", done.stderr)
        return " ".join(done.stderr.split())

    def lines(self, name, rows):
        file = self.folder / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return file

    def rendered(self, messages, **options):
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)

    def test_each_line_of_a_pipe_is_a_conversation(self):
        self.assertEqual(self.run_dpo("sample", self.model, "--chat", "--greedy", input="Hello\n"), "Hi there\n")
        output = self.run_dpo("sample", self.model, "--chat", "--greedy", "--json", "--system", "Be brief.", input="Hello\né?\n")
        results = [json.loads(line) for line in output.splitlines()]
        for text, result in zip(["Hello", "é?"], results, strict=True):
            messages = [{"role": "system", "content": "Be brief."}, user(text)]
            self.assertEqual(list(result), ["prompt", "sample", "text", "tokens", "finish", "messages"])
            self.assertEqual(result["prompt"], self.rendered(messages))
            self.assertEqual(result["messages"], [*messages, assistant("Hi there")])
            self.assertEqual((result["text"], result["finish"]), ("Hi there", "eos"))
            self.assertEqual(result["tokens"], self.tokenizer.convert_tokens_to_ids(["Hi", "Ġthere", "<|im_end|>"]))

    def test_prompts_of_a_file(self):
        turns = [user("1 + 1?"), assistant("2"), user("3 & 4?")]
        tools = self.folder / "tools.json"
        tools.write_text(json.dumps(TOOLS))
        rows = [{"messages": turns}, {"prompt": turns}, {"prompt": "x"}, {"messages": [user("y")], "tools": TOOLS},
                {"conversations": [{"from": "human", "value": "z"}]}]
        wanted = [(turns, None), (turns, None), ([user("x")], None), ([user("y")], TOOLS), ([user("z")], None)]
        file = self.lines("prompts.jsonl", rows)
        for options, given in (([], None), (["--tools", tools], TOOLS)):
            output = self.run_dpo("sample", self.model, "--chat", "--prompts", file, "--json", "--greedy", *options)
            for line, (messages, own) in zip(output.splitlines(), wanted, strict=True):
                self.assertEqual(json.loads(line)["prompt"], self.rendered(messages, tools=own or given))

    def test_templates_by_name_and_file_with_variables(self):
        file = self.folder / "own.jinja"
        file.write_text("{{ messages[0].content }}{% if loud %}!{% endif %}{{ count + 1 if count else '' }}\n\n")
        sample = ["sample", self.model, "--chat", "--prompt", "a", "--json", "--greedy", "--chat-template"]
        prompt = lambda *options: json.loads(self.run_dpo(*sample, *options))["prompt"]
        self.assertEqual(prompt(file), "a\n")
        self.assertEqual(prompt(file, "--template-kwargs", "loud=true", "--template-kwargs", "count=2"), "a!3\n")
        self.assertEqual(prompt("chatml"), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n")
        file.write_text("{{ messages[0].content }}")  # after "Hi" the model writes " there"
        (result,) = map(json.loads, self.run_dpo("sample", self.model, "--chat", "--prompt", "Hi", "--json", "--greedy",
                                                 "--max-new-tokens", "1", "--chat-template", file).splitlines())
        self.assertEqual((result["text"], result["messages"]), (" there", [user("Hi"), assistant("there")]))
        self.assertIn("--template-kwargs loud: expected KEY=VALUE", self.failure(*sample, file, "--template-kwargs", "loud"))

    def test_every_end_token_of_the_model_stops(self):
        config = self.model / "generation_config.json"
        before = config.read_text()
        self.addCleanup(config.write_text, before)
        there = self.tokenizer.convert_tokens_to_ids("Ġthere")
        config.write_text(json.dumps({**json.loads(before), "eos_token_id": [self.tokenizer.eos_token_id, there]}))
        self.assertEqual(self.run_dpo("sample", self.model, "--chat", "--greedy", input="Hello\n"), "Hi\n")

    def test_talking_on_a_terminal(self):
        file = self.folder / "echo.jinja"  # this template raises when the user has more than two turns
        file.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '<|im_end|>' if m.role == 'assistant' }}\n"
                        "{% endfor %}{% if messages|selectattr('role', 'equalto', 'user')|list|length > 2 %}"
                        "{{ raise_exception('too many turns, the last answer was ' ~ messages[-2].content) }}{% endif %}")
        talk = Terminal("sample", self.model, "--chat", "--greedy", "--chat-template", file)
        commands = "/reset starts a new conversation, /exit or Ctrl-D ends, /help shows this."
        self.assertIn(commands, talk.read_until("you> "))
        for name, shown in (("/help", commands), ("/quit", f"note: there is no command /quit. Each line is a message. {commands}")):
            talk.type(name + "\n")
            self.assertIn(shown, talk.read_until("you> "))
        for text in ("one", "two"):
            talk.type(text + "\n")
            self.assertEqual(talk.read_until("you> "), f"{text}\r\nHi there\r\n")
        talk.type("three\n")
        self.assertIn("too many turns, the last answer was Hi there (/reset starts a new conversation)", talk.read_until("you> "))
        talk.type("/reset\n")
        talk.read_until("you> ")
        talk.type("four\n")
        self.assertEqual(talk.read_until("you> "), "four\r\nHi there\r\n")
        talk.type("/exit\n")
        self.assertEqual(talk.close(), 0)
        talk = Terminal("sample", self.model, "--chat", "--greedy", "--max-new-tokens", "1")
        talk.read_until("you> ")
        talk.type("one\n")
        self.assertIn("Hi\r\nnote: the answer is cut", talk.read_until("you> "))
        talk.type("\x04")  # Ctrl-D
        self.assertEqual(talk.close(), 0)

    def test_refusals(self):
        bare = self.folder / "bare"
        tokenizer = make_tokenizer(bare)
        random_model(bare, tokenizer)
        conversation = self.lines("conversation.jsonl", [{"messages": [user("a"), assistant("b")]}])
        missing = f"conversations need a chat template, but the tokenizer in {bare} has none"
        self.assertIn(missing, self.failure("sample", bare, "--chat", "--prompt", "a"))
        self.assertIn(missing, self.failure("score", bare, conversation))
        self.assertIn(missing, self.failure("train", f"model.name_or_path={bare}", f"datasets=[{conversation}]", "loss=sft",
                                            "exp_name=e", f"local_dirs=[{self.folder}]", "data.test_share=0", "eval_every=null",
                                            "batch_size=1"))
        for row in ({"messages": [user("a")]}, {"prompt": [user("a")]}):
            self.assertIn("refused.jsonl:1: this is a conversation; --chat renders it",
                          self.failure("sample", self.model, "--prompts", self.lines("refused.jsonl", [row])))
        self.assertIn("'prompt' is a number", self.failure("sample", self.model, "--chat", "--prompts",
                                                           self.lines("refused.jsonl", [{"prompt": 3}])))
        self.assertIn("--system is given without --chat, which it needs", self.failure("sample", self.model, "--system", "a", "--prompt", "a"))
        self.assertIn("--special cannot be given together with --chat", self.failure("sample", self.model, "--chat", "--special", "--prompt", "a"))

    def test_scores_equal_those_of_transformers(self):
        for template, name in (("Qwen-Qwen2.5-7B-Instruct", "gpt-neox"), ("meta-llama-Llama-3.1-8B-Instruct", "llama")):
            folder = self.folder / template
            tokenizer = make_tokenizer(folder, template, name)
            model = random_model(folder, tokenizer)
            prompt = [user("What is 1 + 1?"), assistant("It is 2."), user("And 2 + 2?")]
            rows = [({"prompt": prompt, "chosen": [assistant("4")], "rejected": [assistant("It is 5, I think.")]},
                     (prompt, [[assistant("4")], [assistant("It is 5, I think.")]])),
                    ({"chosen": [*prompt, assistant("4")], "rejected": [*prompt, assistant("5")]},
                     (prompt, [[assistant("4")], [assistant("5")]])),
                    ({"prompt": prompt, "responses": ["a", "b c", "d"]},
                     (prompt, [[assistant("a")], [assistant("b c")], [assistant("d")]])),
                    ({"messages": [*prompt, assistant("4")]}, (prompt[:1], [[*prompt[1:], assistant("4")]])),
                    ({"prompt": [user("x")], "completion": [assistant("y")], "label": True}, ([user("x")], [[assistant("y")]])),
                    ({"system": "s", "question": "q", "chosen": "a", "rejected": "b"},
                     ([{"role": "system", "content": "s"}, user("q")], [[assistant("a")], [assistant("b")]]))]
            file = self.lines("scored.jsonl", [row for row, _ in rows])
            kwargs = {"date_string": "26 Jul 2024"}
            output = self.run_dpo("score", folder, file, "--device", "cpu", "--template-kwargs", "date_string=26 Jul 2024")
            for line, (row, (messages, responses)) in zip(output.splitlines(), rows, strict=True):
                got = json.loads(line)
                wanted = [expected_score(model, tokenizer, messages, response, kwargs) for response in responses]
                self.assertEqual(got["tokens"], [count for _, count in wanted], (template, row))
                for ours, (theirs, _) in zip(got["logps"], wanted, strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-3, msg=(template, row))

    def test_scores_of_other_forms(self):
        rows = [{"q": "x", "completion": "a"}, {"q": "x", "chosen": "a", "rejected": "b"}, {"text": "x y"}]
        file = self.lines("columns.jsonl", rows)
        output = self.run_dpo("score", self.model, file, "--columns", "prompt=q")
        self.assertEqual([len(json.loads(line)["logps"]) for line in output.splitlines()], [1, 2, 1])
        self.assertIn("columns.jsonl:1: expected the columns", self.failure("score", self.model, file))
        self.assertIn("--columns NAME=COLUMN", self.failure("score", self.model, file))
        table = self.folder / "pairs.csv"
        table.write_text("prompt,chosen,rejected\nx,a,b\n")
        self.assertIn('"logps":[', self.run_dpo("score", self.model, table))

    def train(self, name, *more):
        run = self.folder / name
        rows = [{"messages": [user(f"question {i}"), assistant("Hi there")]} for i in range(40)]
        file = self.lines("train.jsonl", rows)
        self.run_dpo("train", f"model.name_or_path={self.model}", f"datasets=[{file}]", "loss=sft", "exp_name=chat",
                     f"local_dirs=[{self.folder}]", f"local_run_dir={run}", "batch_size=4", "eval_batch_size=2",
                     "n_eval_examples=2", "data.test_share=0.2", "eval_every=16", "n_examples=16", "lr=1e-9", "warmup_steps=1",
                     "max_length=128", "max_prompt_length=64", "sample_during_eval=true", "n_eval_model_samples=2", *more)
        return run

    def test_checkpoints_carry_the_template(self):
        run = self.train("own")
        template = (self.model / "chat_template.jinja").read_bytes()
        self.assertEqual((run / "LATEST" / "chat_template.jinja").read_bytes(), template)
        for file in (run / "samples").iterdir():
            for line in map(json.loads, file.read_text().splitlines()):
                self.assertTrue(line["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n"), line)
                self.assertEqual(line["policy"], "Hi there")  # the answer ends with the turn
        file = self.folder / "trained.jinja"
        file.write_text("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
        run = self.train("chosen", f"chat_template={file}")
        self.assertEqual((run / "LATEST" / "chat_template.jinja").read_bytes(), file.read_bytes())
        self.assertEqual(AutoTokenizer.from_pretrained(run / "LATEST").chat_template, file.read_text())
        output = self.run_dpo("sample", run / "LATEST", "--chat", "--greedy", "--json", input="a\n")
        self.assertEqual(json.loads(output)["prompt"], "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(json.loads(output)["text"], "Hi there")


@torch.no_grad()
def expected_score(model, tokenizer, prompt, response, kwargs):
    """Returns the log-probability of the assistant's text in the response, and the number of its tokens."""
    def ids(messages, **more):
        return tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **kwargs, **more)["input_ids"]
    messages = prompt + response
    whole = ids(messages)
    logps = model(torch.tensor([whole])).logits[0, :-1].double().log_softmax(-1)
    total, count = 0.0, 0
    for i in range(len(prompt), len(messages)):
        if messages[i]["role"] != "assistant":
            continue
        begin, end = len(ids(messages[:i], add_generation_prompt=True)), len(ids(messages[:i + 1]))
        for at in range(begin, end):
            total += logps[at - 1, whole[at]].item()
            count += 1
    return total, count


if __name__ == "__main__":
    unittest.main()
