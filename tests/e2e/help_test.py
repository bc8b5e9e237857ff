"""Output for a new user: --help and its examples, dpo config, the output of a run, errors about paths."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tiny_run import PROGRAM, TinyRuns, main

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])


def dpo(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, **options)


def examples_of(text):
    """Returns the commands under 'Examples:' in a --help, split into arguments."""
    block = re.search(r"^Examples:\n((?:  .*\n)+)", text, re.MULTILINE).group(1)
    return [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]


class Help(TinyRuns):
    def failure(self, *arguments, **options):
        done = dpo(*arguments, **options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_help_shows_keys_and_where_to_find_more(self):
        for command in (["train"], ["plan"], ["bench", "train"], ["data"], ["config"]):
            text = dpo(*command, "--help").stdout
            for part in (f"dpo {' '.join(command)} [OPTIONS] [KEY=VALUE ...]", "'dpo config'", "docs/configuration.md"):
                self.assertIn(part, text)
            # The page of `train` lists the main keys, and the other pages refer to it.
            self.assertEqual(re.findall(r"(?m)^  (lr|datasets) {2,}", text), ["datasets", "lr"] if command == ["train"] else [])
            self.assertEqual("'dpo help train' shows the main keys" in text, command != ["train"])
            self.assertGreaterEqual(len(examples_of(text)), 2)
        for command in examples_of(dpo("plan", "--help").stdout):
            done = dpo(*command[1:])
            self.assertIn("Largest models" if "--largest" in command else "Memory", done.stdout, done.stderr)

    def test_without_a_command_the_first_ones_are_shown(self):
        done = dpo()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = re.findall(r"(?m)^  dpo (\w+) +(\S.*)$", done.stdout)
        self.assertEqual([name for name, _ in shown], ["demo", "data", "plan", "train", "serve", "sample"])
        everything = dpo("--help").stdout
        for name, text in shown:
            self.assertRegex(everything, rf"(?m)^  {name} +{re.escape(text)}$")
        self.assertIn("'dpo help' lists all commands", done.stdout)
        for arguments in (["help"], ["help", "help"]):
            self.assertEqual(dpo(*arguments).stdout, everything)

    def test_help_is_a_command(self):
        for command in (["train"], ["sample"], ["bench"], ["bench", "device"]):
            done = dpo("help", *command)
            self.assertEqual((done.returncode, done.stdout), (0, dpo(*command, "--help").stdout))
        self.assertIn("unknown command 'trian'; did you mean 'train'?", self.failure("help", "trian"))
        self.assertIn("unknown command 'lr'; 'dpo config lr' explains the key", self.failure("help", "lr"))

    def test_help_is_in_plain_words_and_fits_a_screen(self):
        commands = [[name] for name in re.findall(r"(?m)^  (\w+) {2,}\S", dpo("--help").stdout.split("Commands:")[1])]
        self.assertGreater(len(commands), 15)
        for command in [*(each for each in commands if each != ["bench"]), ["bench", "train"], ["bench", "device"]]:
            text = dpo(*command, "--help").stdout
            for word in ("Excludes", "Needs:", "Positionals"):
                self.assertNotIn(word, text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 110, line)
        sample = re.sub(r"\s+", " ", dpo("sample", "--help").stdout)
        for part in ("Arguments: MODEL", "system message of conversations that have none (only with --chat)",
                     "messages of a conversation (not with --special)"):
            self.assertIn(part, sample)

    def test_commands_of_other_trainers(self):
        for name, answer in (("chat", "'dpo sample MODEL --chat' talks with a model"), ("eval", "'dpo score MODEL FILE'"),
                             ("resume", "'dpo train resume=RUN' continues a run"), ("export", "'dpo merge' writes a model"),
                             ("kto", "'dpo train loss=kto' trains with it"), ("webui", "'dpo serve' shows runs")):
            text = self.failure(name)
            self.assertIn(f"unknown command '{name}'; ", text)
            self.assertIn(answer, text)
        self.assertIn("unknown command 'reprot'; did you mean 'report'?", self.failure("reprot"))
        self.assertIn("unknown command 'sing' (see", self.failure("sing"))

    def test_a_batch_that_the_data_does_not_fill_is_a_short_error(self):
        arguments = [f"model.name_or_path={self.folder / 'model'}", f"datasets=[{self.folder / 'pairs.jsonl'}]", "exp_name=e",
                     "max_length=64", "max_prompt_length=32", "batch_size=100000", "eval_every=null"]
        for command in ("plan", "train"):
            done = dpo(command, *arguments, f"local_run_dir={self.folder / 'none'}")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"\A(note: .*\n)*error: batch_size=100000 is more than the data's \d+ examples, so there would be "
                                          r"no update; try batch_size=\d+ \(the largest that the data fills\)\n\Z")
            self.assertFalse((self.folder / "none").exists())
        report = json.loads(dpo("plan", *arguments, "--json").stdout)
        self.assertEqual(report["rules"][0]["id"], "batch-size")

    def test_data_without_an_example_left_is_an_error(self):
        file = self.folder / "equal.jsonl"
        file.write_text('{"prompt": "\u0100", "chosen": "\u0101", "rejected": "\u0101"}\n')
        data = ["data", f"datasets=[{file}]", f"model.tokenizer_name_or_path={self.folder / 'model'}", "loss=dpo", "eval_every=null"]
        for more in ([], ["--json"]):
            done = dpo(*data, *more)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertTrue(done.stdout)
            self.assertIn("error: the train split has no example left: 1 row read, 1 example dropped by data.equal_responses; "
                          "try data.equal_responses=keep\n", done.stderr)
        kept = dpo(*data, "data.equal_responses=keep")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertIn("1 row, 1 prompt, 1 pair; 1 example\n", kept.stdout)

    def test_the_examples_of_train_work_and_list_the_files_of_the_run(self):
        (self.folder / "chats.jsonl").write_bytes((self.folder / "pairs.jsonl").read_bytes())
        short, resumed, original = ([word.replace("MODEL", "model") for word in command[1:]]
                                    for command in examples_of(dpo("train", "--help").stdout))
        done = dpo(*short, cwd=self.folder)
        self.check(done)
        self.assertRegex(done.stderr, r"(?m)^update 1 of \d+ +8 examples .* examples/s, \d+ (?:s|min) left$")
        run = "runs/dpo-model"
        self.assertIn(f"files of the run:\n  checkpoint   {run}/LATEST\n  report       {run}/report.html\n"
                      f"  metrics      {run}/metrics.jsonl\n  log          {run}/log.txt\n  samples      {run}/samples\n"
                      f"  evaluations  {run}/eval\n"
                      f"try: dpo sample {run}/LATEST\ncurves: tensorboard --logdir {run}/tensorboard\n", done.stderr)
        self.assertEqual(done.stdout, f"{run}/LATEST\n")
        self.assertEqual(dpo("sample", f"{run}/LATEST", "--max-new-tokens", 2, cwd=self.folder, input="\u0100\n").returncode, 0)
        self.check(dpo(*resumed, cwd=self.folder))
        self.check(dpo("config", *original[1:]))
        misspelt = dpo("train", "model=model", "data=chat.jsonl", "loss=sft", cwd=self.folder)
        self.assertRegex(misspelt.stderr, r"\Aerror: datasets: there is no file or folder 'chat.jsonl' in .*; did you mean 'chats.jsonl'\?\n\Z")

    def test_a_resumed_run_continues_counting(self):
        run = self.folder / "counted"
        self.check(self.train(run, "n_examples=80"))
        done = self.train(run, "n_examples=160", f"resume={run}")
        self.check(done)
        updates = re.findall(r"(?m)^update (\d+) of (\d+) .*?(, \d+ (?:s|min) left)?$", done.stderr)
        self.assertEqual([(int(n), int(of)) for n, of, _ in updates], [(n, 40) for n in range(21, 41)])
        self.assertTrue(all(left for *_, left in updates[:-1]))
        self.assertEqual(updates[-1][2], "")

    def test_without_a_checkpoint_none_is_named(self):
        done = self.train(self.folder / "debug", "n_examples=8", "debug=true")
        self.check(done)
        self.assertIn("no checkpoint was saved: debug=true", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_run_folder_is_not_a_model_but_has_one(self):
        run = self.folder / "suggested"
        self.check(self.train(run, "n_examples=8"))
        pairs, out = self.folder / "pairs.jsonl", self.folder / "out"
        for arguments in (["sample", run], ["score", run, pairs], ["tokenize", run],
                          ["sample", self.folder / "model", "--weights", run],
                          ["plan", f"model.name_or_path={run}", "exp_name=e"],
                          self.train_command(self.folder / "next", f"model.archive={run}")[1:],
                          self.train_command(self.folder / "next", f"model.name_or_path={run}")[1:]):
            self.assertIn(f"is the folder of a run: try {run}/LATEST", self.failure(*arguments, input=""), arguments)
        self.assertFalse((self.folder / "next").exists())
        self.check(dpo("convert", run, out))
        self.assertTrue((out / "model.safetensors").exists())

    def test_paths_may_begin_with_a_tilde(self):
        home = {**os.environ, "HOME": str(self.folder)}
        done = dpo("convert", "~/model", "~/converted", env=home)
        self.check(done)
        (self.folder / "my.yaml").write_text("local_run_dir: ~/tilde\n")
        arguments = self.train_command("?", "n_examples=8", "datasets=[~/pairs.jsonl]", "model.archive=~/converted")[1:]
        arguments.remove("local_run_dir=?")
        self.check(dpo(*arguments, "--config=~/my.yaml", env=home))
        self.assertTrue((self.folder / "tilde" / "LATEST").exists())

    def test_messages_fit_what_was_given(self):
        plan = ["plan", f"model.name_or_path={self.folder / 'model'}", "exp_name=e", "max_length=64", "max_prompt_length=32"]
        file = self.folder / "pairs.jsonl"
        (self.folder / "empty.jsonl").write_text("")
        (self.folder / "my.yml").write_text("lr: 1e-6\n")
        unwrapped = lambda text: re.sub(r"\s+", " ", text)
        self.assertIn("cannot create the run folder /proc/x: /proc is not on a disk",
                      unwrapped(self.failure(*plan, "local_run_dir=/proc/x")))
        self.assertIn(f"{file}/x: {file} is not a folder", unwrapped(self.failure(*plan, f"local_run_dir={file}/x")))
        for arguments in (["convert", "nosuch.json", "out"], ["sample", "runs/a/b"], [*plan, "model.name_or_path=nosuch.json"],
                          ["data", "datasets=[nosuch.jsonl]", f"model.tokenizer_name_or_path={self.folder / 'model'}"],
                          ["data", f"datasets=[{file}]", "model.tokenizer_name_or_path=nosuch.json"]):
            text = self.failure(*arguments, input="")
            self.assertIn("there is no f", text)
            self.assertNotIn("dpo fetch", text)
        for arguments, message in ((["plan", "--gpus", "x"], "invalid value: --gpus = x (see 'dpo plan --help')"),
                                   (["train", "--learning_rate", "1e-5", "--lr=2"],
                                    "unknown option '--learning_rate'; write lr=1e-5 (KEY=VALUE, without dashes) (see 'dpo train --help')"),
                                   (["train", self.folder / "my.yml"], f"{self.folder}/my.yml is a file: write --config {self.folder}/my.yml"),
                                   (["sample", "m", "--max_new_tokens", "3"],
                                    "unknown option '--max_new_tokens'; did you mean '--max-new-tokens'? (see 'dpo sample --help')"),
                                   (["sample", "m", "--dtype", "bf16"],
                                    "--dtype: expected one of float32, bfloat16, float16, got bf16; write --dtype=bfloat16"),
                                   (["train", "--quiet", "--verbose"], "error: --quiet cannot be given together with --verbose\n"),
                                   (["data", "--tokens"], "error: --tokens is given without --order, which it needs\n"),
                                   (["sample", "m", "--samples", "0"], "--samples: expected a whole number of at least 1, got 0"),
                                   (["score", "m", "f", "--batch-tokens", "1.5"], "expected a whole number of at least 1, got 1.5"),
                                   (["score", self.folder / "model", self.folder / "empty.jsonl"], "empty.jsonl: there are no rows in it"),
                                   (["data", "--order", "x"], "--order: expected a whole number of at least 1, got x"),
                                   (["plan", "-gpus", "3"], "unknown option '-gpus'; did you mean '--gpus'?"),
                                   (["doctor", "x"], "unexpected argument 'x' (see 'dpo doctor --help')"),
                                   (["bench", "device", "--jsn"], "did you mean '--json'? (see 'dpo bench device --help')"),
                                   (["plan", "--config", "a", "--config", "b"], "--config is given more than once (see 'dpo plan --help')"),
                                   (["--gpus"], "unknown option '--gpus' (see 'dpo --help')"),
                                   (["bench"], "no command given, expected one of train, device (see 'dpo bench --help')"),
                                   (["bench", "trian"], "unknown command 'trian'; did you mean 'train'? (see 'dpo bench --help')"),
                                   (["bench", "train", "--update=3"], "did you mean '--updates'? (see 'dpo bench train --help')")):
            self.assertIn(message, self.failure(*arguments))

    def test_a_mistyped_model_folder_is_not_a_problem_of_the_network(self):
        if any(item["what"] == "libcurl" for item in json.loads(dpo("doctor", "--json").stdout)["missing"]):
            self.skipTest("built without libcurl")
        place = {"cwd": self.folder, "env": {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}}
        for command in (["tokenize"], ["render"], ["sample"], ["plan", "exp_name=x"], ["train", "exp_name=x", "datasets=[pairs.jsonl]"]):
            for name, hint in (("modle", "; did you mean 'model'? On the hub"), ("runs/model", "; did you mean 'model'? On the hub"),
                               ("nosuch", ". On the hub")):
                text = self.failure(*command, f"model.name_or_path={name}" if "exp_name=x" in command else name, input="", **place)
                self.assertIn(f"error: there is no folder '{name}' here{hint}: model '{name}': cannot reach http://127.0.0.1:9: ", text)
        self.assertNotIn("folder", self.failure("fetch", "nosuch", **place))
        self.assertIn("cannot read nosuch.jinja", self.failure("render", "nosuch.jinja", input="", **place))
        self.assertIn("there is no file nosuch.json; expected a model's folder", self.failure("sample", "nosuch.json", input="", **place))

    def test_config_lists_and_explains(self):
        done = dpo("config")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("\n  lr                           5e-7\n", done.stdout)
        self.assertIn("now      2 (command line: batch_size=2)", dpo("config", "batch_size", "batch_size=2").stdout)
        self.assertIn("did you mean 'lr'?", self.failure("config", "lrr"))
        self.assertIn("does not explain 'lr'", self.failure("config", "lr", "--json"))

    def test_the_script_lists_the_commands_and_bench_is_always_dpos(self):
        helped = [subprocess.run([SOURCE / "run", argument], capture_output=True, text=True) for argument in ("help", "--help", "-h")]
        self.assertEqual({done.returncode for done in helped}, {0})
        self.assertEqual(len({done.stdout for done in helped}), 1)
        commands = re.findall(r"^  (\w+) {2,}(\S.*)$", dpo("--help").stdout.split("Commands:")[1], re.MULTILINE)
        self.assertEqual(re.findall(r"^  (\w+) +(\S.*)$", re.search(r"commands of dpo.*?\n\n", helped[0].stdout, re.DOTALL)
                                    .group(0), re.MULTILINE), commands)
        # The copy of the script does not build, and a program that prints its arguments takes the place of dpo.
        copy = self.folder / "script"
        (copy / "build").mkdir(parents=True)
        shutil.copy(SOURCE / "versions.env", copy)
        text = (SOURCE / "run").read_text()
        self.assertIn("\nbuild() {\n", text)
        (copy / "run").write_text(text.replace("\nbuild() {\n", "\nbuild() { return; }\nthe_build() {\n"))
        (copy / "build" / "dpo").write_text('#!/bin/sh\necho "dpo $*"\n')
        (copy / "build" / "dpo").chmod(0o755)
        for arguments in ("bench train lr=1", "bench weights_read", "bench"):
            done = subprocess.run(["bash", copy / "run", *arguments.split()], capture_output=True, text=True)
            self.assertEqual(done.stdout, f"dpo {arguments}\n", done.stderr)


if __name__ == "__main__":
    main()
