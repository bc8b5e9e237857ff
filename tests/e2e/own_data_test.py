"""A user's own data with default settings: few rows, other column names, typos in arguments."""

import json
import os
import random
import subprocess

from tiny_run import CONFIG, PROGRAM, TinyRuns, main, make_tokenizer


class OwnData(TinyRuns):
    def rows(self, name, count, **columns):
        """Writes a file of `count` rows. Each value of `columns` computes a column from a row's number."""
        draw = random.Random(3)
        text = lambda low, high: "".join(chr(0x100 + draw.randrange(62)) for _ in range(draw.randint(low, high)))
        file = self.folder / name
        with open(file, "w") as lines:
            for i in range(count):
                shared = text(4, 8)
                row = {"prompt": text(4, 12), "chosen": f"{shared}\n{text(3, 9)}", "rejected": f"{shared}\n{text(3, 9)}"}
                row |= {column: made(i) for column, made in columns.items()}
                lines.write(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n")
        return file

    def dpo(self, command, file, *more):
        needed = [] if command == "data" else ["exp_name=own"]
        words = [PROGRAM, command, f"model.name_or_path={self.folder / 'model'}", f"datasets=[{file}]",
                 f"local_dirs=[{self.folder}]", *needed, *more]
        return subprocess.run(words, capture_output=True, text=True)

    def test_two_hundred_rows_train_with_defaults(self):
        file = self.rows("few.jsonl", 200)
        sft = self.dpo("train", file, "loss=sft", f"local_run_dir={self.folder / 'few-sft'}")
        self.check(sft)
        self.assertIn("small file: the test split is 8 % of its prompts, ", sft.stderr)
        self.assertRegex(sft.stderr, r"warning warmup +warmup_steps=150 is not less than the run's \d\d updates")
        dpo = self.dpo("train", file, "loss=dpo", "loss.beta=0.1", f"local_run_dir={self.folder / 'few-dpo'}",
                       f"model.archive={self.folder / 'few-sft' / 'LATEST'}", "data.test_share=0.03")
        self.check(dpo)
        self.assertIn("note: the test split has only", dpo.stderr)
        self.assertIn("an evaluation uses each of them once (data.test_share=0.1 keeps a tenth", dpo.stderr)
        self.assertNotIn("n_eval_examples=", dpo.stderr)
        (evaluated,) = {line["counters/eval_examples"] for line in self.metrics(self.folder / "few-dpo") if "loss/eval" in line}
        self.assertLess(evaluated, 16)

    def test_own_data_is_counted(self):
        """A folder of 1,100 rows in HH's layout is not taken for the 160,800 rows of HH, before and after
        tokenizing."""
        folder = self.folder / "hh"
        folder.mkdir()
        for split, count in (("train", 1100), ("test", 40)):
            with open(folder / f"{split}.jsonl", "w") as lines:
                for i in range(count):
                    talk = "\n\nHuman: " + chr(0x100 + i % 60) * (i % 30 + 1) + f"{i}\n\nAssistant:"
                    lines.write(json.dumps({"chosen": f"{talk} Ā{i}", "rejected": f"{talk} ā"}) + "\n")
        words = ["model=pythia28", f"model.tokenizer_name_or_path={self.folder / 'model'}", "loss=dpo", "loss.beta=0.1",
                 "exp_name=e", "datasets=[hh]", f"dataset_paths.hh={folder}", f"local_dirs=[{self.folder}]", "batch_size=4", "eval_every=320"]
        plan = lambda *more: subprocess.run([PROGRAM, "plan", *words, "--device", "h200", *more], capture_output=True, text=True)
        first = plan()
        self.check(first)
        self.assertIn("1,100 pairs counted", first.stdout)
        self.assertIn("275 updates over 1,100 pairs", first.stdout)
        self.assertIn("4 checkpoints of", first.stdout)
        subprocess.run([PROGRAM, "data", *words], capture_output=True, check=True)
        self.assertRegex(" ".join(plan().stdout.split()), r"1,100 pairs, \d+ tokens per pair on average, all counted")
        elsewhere = plan("model.tokenizer_name_or_path=no/where")
        self.check(elsewhere)
        self.assertIn("estimated at four bytes per token", " ".join(elsewhere.stdout.split()))
        away = plan("datasets=[nobody/has-this]")
        self.check(away)
        self.assertIn("nobody/has-this is not on this machine", " ".join(away.stdout.split()))

    def test_a_template_that_plain_text_does_not_use_is_named(self):
        folder = self.folder / "instruct"
        folder.mkdir()
        make_tokenizer(folder)
        (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
        file = self.rows("plain.jsonl", 100)
        told = "note: the data is plain text: the model's chat template is not used\n"
        for words in (["data"], ["train", f"local_run_dir={self.folder / 'plain'}", "n_examples=8"]):
            done = self.dpo(words[0], file, f"model.tokenizer_name_or_path={folder}", *words[1:])
            self.check(done)
            self.assertEqual(done.stderr.count(told), 1, done.stderr)
        self.assertNotIn(told, self.dpo("data", file).stderr)

    def with_test_file(self, name, tests):
        """Writes a folder with files of both splits. The test split has `tests` rows."""
        folder = self.folder / name
        folder.mkdir()
        self.rows(f"{name}/train.jsonl", 64)
        self.rows(f"{name}/test.jsonl", tests)
        return folder

    def test_advice_is_for_those_whom_it_concerns(self):
        """Advice to fine-tune first appears once, for base models. Advice about data.test_share appears without test
        data."""
        instruct = self.folder / "with-template"
        instruct.mkdir()
        make_tokenizer(instruct)
        (instruct / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
        data = self.with_test_file("both", 5)
        words = ("loss=dpo", "loss.beta=0.1", "n_examples=16", "batch_size=8", "warmup_steps=0")
        base, tuned = self.folder / "of-base", self.folder / "of-instruct"
        advice, share = "no model.archive", "test_share"
        trained = self.dpo("train", data, *words, f"local_run_dir={base}")
        self.check(trained)
        self.assertIn(advice, trained.stderr)
        self.assertIn("note: the test split has only 5 examples: an evaluation uses each of them once\n", trained.stderr)
        self.assertNotIn(share, trained.stderr)
        resumed = self.dpo("train", data, *words, f"resume={base}", "n_examples=32")
        self.check(resumed)
        self.assertNotIn(advice, resumed.stderr)
        self.check(self.dpo("train", data, *words, f"local_run_dir={self.folder / 'again'}"))
        self.assertNotIn(advice, (self.folder / "again/report.html").read_text())
        trained = self.dpo("train", data, *words, f"model.tokenizer_name_or_path={instruct}", f"local_run_dir={tuned}")
        self.check(trained)
        self.assertNotIn(advice, trained.stderr)
        self.assertIn("0.5 (ties, n=5)", trained.stderr)
        self.assertIn("\ndid it learn? Not measurably: ", trained.stderr)

    def test_held_out_examples_are_recorded(self):
        def digest(run, data, *more):
            self.check(self.dpo("train", data, "loss=sft", "n_examples=8", "batch_size=8", "warmup_steps=0", f"local_run_dir={self.folder / run}", *more))
            return json.loads((self.folder / run / "plan.json").read_text()).get("held_out_sha256")
        sixteen = self.with_test_file("sixteen", 16)
        first = digest("held1", sixteen)
        self.assertRegex(first, "^[0-9a-f]{64}$")
        self.assertEqual(digest("held2", sixteen, "max_length=16", "max_prompt_length=8"), first)
        self.assertNotEqual(digest("held3", self.with_test_file("five", 5)), first)
        self.assertIsNone(digest("held4", sixteen, "eval_every=null"))
        page = self.folder / "held.html"
        subprocess.run([PROGRAM, "report", self.folder / "held1", self.folder / "held3", "--output", page], check=True, capture_output=True)
        self.assertIn("different held-out sets: 5 and 16 examples; not comparable", page.read_text())

    def test_few_rows_train_with_defaults(self):
        for count, batch in ((3, 2), (5, None), (20, None)):
            file = self.rows(f"rows{count}.jsonl", count)
            run = self.folder / f"run{count}"
            done = self.dpo("train", file, "loss=sft", f"local_run_dir={run}")
            self.check(done)
            if batch:
                self.assertIn(f"note: batch_size={batch} in place of the default: there are only {batch} examples\n", done.stderr)
                self.assertIn("eval_every: 20000", (run / "config.yaml").read_text())
            self.assertTrue((run / "LATEST" / "model.safetensors").exists())
            self.check(self.dpo("plan", file, "loss=sft"))
            self.check(self.dpo("data", file, "--order", "3"))
        refused = self.dpo("train", self.folder / "rows3.jsonl", "loss=sft", "batch_size=4", "local_run_dir=none")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("batch_size=4 is more than the data's 2 examples", " ".join(refused.stderr.split()))

    def test_default_lengths_fit_the_model(self):
        source, model, run = (self.folder / name for name in ("short-source", "short", "short-run"))
        source.mkdir()
        (source / "config.json").write_text(json.dumps(CONFIG | {"max_position_embeddings": 128}))
        make_tokenizer(source)
        subprocess.run([PROGRAM, "init", source, model], check=True, capture_output=True)
        file = self.rows("short.jsonl", 60)
        words = ["loss=sft", f"model.name_or_path={model}", "eval_every=null", "data.test_share=0"]
        note = "note: max_length=128 in place of the default: the model has 128 positions\n"
        follows = "note: max_prompt_length=64 in place of the default: max_length=128\n"
        for command, notes in ((["plan"], 1), (["data"], 1), (["train", f"local_run_dir={run}", "n_examples=8"], 1),
                               (["train", f"resume={run}", "n_examples=16"], 0)):  # the run's config.yaml has the values
            done = self.dpo(command[0], file, *words, *command[1:])
            self.check(done)
            self.assertEqual((done.stderr.count(note), done.stderr.count(follows)), (notes, notes), done.stderr)
            if command[1:] and notes:
                self.assertRegex((run / "config.yaml").read_text(), "max_length: 128 +# default, adapted to this run")
        for typed, problem in ((["max_length=512"], "max_length=512 exceeds the model's context of 128 tokens"),
                               (["max_prompt_length=128"], "max_prompt_length=128 leaves no room for a response")):
            refused = self.dpo("plan", file, *words, *typed)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(problem, " ".join(refused.stdout.split()))
        self.assertIn("note: max_prompt_length=20 in place of the default: max_length=40\n",
                      self.dpo("plan", file, *words, "max_length=40").stderr)

    def test_keys_without_effect_are_named(self):
        file = self.rows("idle.jsonl", 60)
        tools = self.folder / "tools.json"
        tools.write_text("[]")
        words = ["loss=sft", "chat_template=chatml", f"data.tools={tools}", "data.train_on=last", "data.keep_system=false",
                 "chat_template_kwargs={a: b}", "eval_every=null", "eval_batch_size=8", "sample_during_eval=false",
                 "n_eval_model_samples=3", "reference=cached", "rank_timeout_secs=9", "dataset_paths.shp=x", "save_every=8"]
        named = ("note: keys without effect on this run: chat_template, chat_template_kwargs, data.train_on, data.keep_system, "
                 "data.tools (the data is plain text); dataset_paths.shp (not in datasets); reference (loss=sft has no "
                 "reference); eval_batch_size, n_eval_model_samples (eval_every=null); rank_timeout_secs "
                 "(trainer=BasicTrainer is one process)\n")
        for command in (["plan"], ["data"], ["data", "--order", "1"],
                        ["train", f"local_run_dir={self.folder / 'idle'}", "n_examples=8"]):
            done = self.dpo(command[0], file, *words, *command[1:])
            self.check(done)
            self.assertEqual(done.stderr.count(named), 1, done.stderr)
        self.assertNotIn("without effect", self.dpo("data", file, "eval_batch_size=8", "data.train_on=assistant").stderr)
        for wrong in ("chat_template=/nonexistent.jinja", "chat_template=nonexistent", "data.tools=/nonexistent.json"):
            for command in ("plan", "data", "train"):
                refused = self.dpo(command, file, "loss=sft", wrong, *(["local_run_dir=none"] if command == "train" else []))
                self.assertEqual(refused.returncode, 1, wrong)
                self.assertIn(wrong.partition("=")[0], refused.stderr)

    def test_a_folder_named_as_a_known_data_set(self):
        place = self.folder / "place"
        (place / "hh").mkdir(parents=True)
        cached = self.folder / "hh-files"
        cached.mkdir()
        for folder in (place / "hh", cached):
            for split in ("train", "test"):
                talk = "".join("\n\nHuman: Ā" for _ in range(3)) + "\n\nAssistant:"
                (folder / f"{split}.jsonl").write_text(json.dumps({"chosen": talk + " Ā", "rejected": talk + " ā"}) + "\n")
        data = lambda *words: subprocess.run([PROGRAM, "data", "loss=dpo", "--order", "1", *words], cwd=place, text=True,
                                             capture_output=True, env=os.environ | {"HF_HUB_CACHE": str(self.folder / "no-hub"),
                                                                                    "HF_HUB_OFFLINE": "1"})
        told = "datasets: 'hh' is Anthropic/hh-rlhf, not the folder ./hh, which datasets=[./hh] reads\n"
        meant = data("datasets=[hh]")
        self.assertEqual(meant.returncode, 1)
        self.assertIn("note: " + told, meant.stderr)
        self.assertNotIn(told, data("datasets=[hh]", f"dataset_paths.hh={cached}").stderr)
        self.assertNotIn("Anthropic", data("datasets=[./hh]").stderr)

    def test_lengths_are_not_written_over_other_files(self):
        file = self.rows("lengths.jsonl", 100)
        before = file.read_text()
        refused = self.dpo("data", file, "--lengths", str(file))
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr, f"error: {file} exists; choose another path, or remove it\n")
        self.assertEqual(file.read_text(), before)
        for _ in range(2):  # a file that it wrote may be replaced
            self.check(self.dpo("data", file, "--lengths", str(self.folder / "lengths.yaml")))

    def test_rules_are_judged_again_when_the_data_is_known(self):
        """Rows with equal responses are counted, but dropped when they are tokenized, so few updates are left."""
        file = self.rows("equal.jsonl", 200, rejected=lambda i: "Ā", chosen=lambda i: "ā" if i % 5 == 0 else "Ā")
        run = self.folder / "equal"
        done = self.dpo("train", file, "loss=dpo", "loss.beta=0.1", "warmup_steps=20", f"local_run_dir={run}", "eval_every=null",
                        "data.test_share=0", "--verbose")
        self.check(done)
        self.assertIn("ok      warmup          20 of 50 updates", done.stderr)
        self.assertIn("warning: warmup: warmup_steps=20 is not less than the run's 10 updates", done.stderr)
        plan = json.loads((run / "plan.json").read_text())
        self.assertEqual(plan["time"]["updates"], 10)
        strict = self.dpo("train", file, "loss=dpo", "loss.beta=0.1", "warmup_steps=20", "plan.strict=true", "eval_every=null",
                          "data.test_share=0", "max_length=64", "max_prompt_length=32", f"model.archive={run / 'LATEST'}",
                          f"local_run_dir={self.folder / 'strict'}", f"local_dirs=[{self.folder / 'other'}]")
        self.assertEqual(strict.returncode, 1)
        self.assertIn("the plan fails for the actual data: warmup:", strict.stderr)
        self.assertFalse((self.folder / "strict").exists())

    def test_a_column_that_no_row_has_is_refused(self):
        file = self.rows("named.jsonl", 100, prompt=lambda i: None, question=lambda i: f"Ā{i}", system=lambda i: "Ā")
        for command in ("data", "plan", "train"):
            with self.subTest(command=command):
                run = [f"local_run_dir={self.folder / 'misspelt'}"] if command == "train" else []
                done = self.dpo(command, file, "data.columns={prompt: qestion}", *run)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("no row has a column 'qestion'; did you mean 'question'?", done.stderr)
        self.assertFalse((self.folder / "misspelt").exists())

    def test_columns_that_nothing_reads_are_named_once(self):
        file = self.rows("unread.jsonl", 100, system=lambda i: "Ā", topic=lambda i: None if i else "x")
        for command in ("plan", "train", "data", "plan"):  # before the tokens are cached, and after
            with self.subTest(command=command):
                run = [f"local_run_dir={self.folder / 'unread'}"] if command == "train" else []
                done = self.dpo(command, file, *run)
                self.check(done)
                self.assertEqual(done.stderr.count("unused columns: system, topic;"), 1, done.stderr)

    def test_a_column_can_be_switched_off(self):
        file = self.rows("margins.jsonl", 100, margin=lambda i: 1)
        words = ("loss=ipo", "loss.beta=0.1", f"local_run_dir={self.folder / 'margins'}")
        refused = self.dpo("train", file, *words)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("data.columns={margin: none}", refused.stderr)
        self.check(self.dpo("train", file, *words, "data.columns={margin: none}"))


if __name__ == "__main__":
    main()
