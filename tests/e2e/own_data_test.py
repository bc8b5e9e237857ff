"""Your own data with default settings: few rows, other column names, typos in arguments."""

import json
import random
import subprocess

from tiny_run import PROGRAM, TinyRuns, main, make_tokenizer


class OwnData(TinyRuns):
    def rows(self, name, count, **columns):
        """A file of so many rows; `columns` are made of a row's number."""
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
        self.assertIn("note: n_eval_examples=256: the test split has only", dpo.stderr)
        (evaluated,) = {line["counters/eval_examples"] for line in self.metrics(self.folder / "few-dpo") if "loss/eval" in line}
        self.assertLess(evaluated, 16)

    def test_own_data_is_counted(self):
        """1,100 rows laid out as HH's are not the 160,800 of HH, before they are tokenized and after."""
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
        told = "note: the data are plain text: the model's chat template is not used\n"
        for words in (["data"], ["train", f"local_run_dir={self.folder / 'plain'}", "n_examples=8"]):
            done = self.dpo(words[0], file, f"model.tokenizer_name_or_path={folder}", *words[1:])
            self.check(done)
            self.assertEqual(done.stderr.count(told), 1, done.stderr)
        self.assertNotIn(told, self.dpo("data", file).stderr)

    def test_lengths_are_not_written_over_other_files(self):
        file = self.rows("lengths.jsonl", 100)
        before = file.read_text()
        refused = self.dpo("data", file, "--lengths", str(file))
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr, f"error: {file} exists; choose another path, or remove it\n")
        self.assertEqual(file.read_text(), before)
        for _ in range(2):  # its own file is written again
            self.check(self.dpo("data", file, "--lengths", str(self.folder / "lengths.yaml")))

    def test_rules_are_judged_again_when_the_data_is_known(self):
        """Rows whose responses are equal are counted, and dropped when they are tokenized: few updates are left."""
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
