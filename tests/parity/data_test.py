"""Compares hh, shp and se, their order, their tokens and their truncation with data_reference.py."""

import json
import random
import tempfile
import unittest
from pathlib import Path

import data_reference as reference
from data_program import dpo_data, order, shared_data, write_lines
from tokenizers import Tokenizer

SHARED = shared_data()
NEOX = SHARED / "tokenizers" / "gpt-neox"


def texts(examples: list[reference.Example]) -> list[tuple]:
    return [(e.prompt, e.chosen, e.rejected) for e in examples]


def got_texts(lines: list[dict]) -> list[tuple]:
    return [(e["prompt"], e["chosen"], e.get("rejected")) for e in lines]


def flat(batches) -> list[reference.Example]:
    return [example for batch in batches for example in batch]


def shp_rows(count: int) -> list[dict]:
    draw = random.Random(1)
    return [{"history": f"question {draw.randrange(count // 3)} é", "human_ref_A": f"answer {draw.randrange(40)}",
             "human_ref_B": f"answer {draw.randrange(40)}", "score_A": draw.randrange(1, 30),
             "score_B": draw.randrange(1, 30), "labels": draw.randrange(2)} for _ in range(count)]


def html(draw: random.Random) -> str:
    parts = ["<p>Use <em>this</em> &amp; that</p>", "<pre><code>a &lt; b\n  c</code></pre>", "<p>x<p>y</p>", "<hr>",
             "<p>See <code>f()</code> here.</p>\n", "<blockquote><p>quoted</p></blockquote>", "<code>top</code>", "\n",
             "<p>caf&eacute; &#39;q&#39; &#8217; &unknown; 1 < 2</p>", "<ul><li>item</li></ul>", "<p>a <br> b</p>",
             "<pre>no code <code>one</code> and <code>two</code></pre>", "loose text", "<p> <b>x</b> </p>"]
    return "".join(draw.choice(parts) for _ in range(draw.randrange(1, 8)))


def se_rows(count: int) -> list[dict]:
    draw = random.Random(2)
    return [{"question": f"<p>Question {draw.randrange(count)}</p>" + html(draw),
             "answers": [{"text": html(draw), "pm_score": draw.randrange(4)} for _ in range(draw.randrange(2, 6))]}
            for _ in range(count)]


class Data(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.hh = {split: reference.hh(reference.read_lines(SHARED / "hh" / f"{split}.jsonl.gz"))
                   for split in ("train", "test")}

    def words(self, *more: str) -> list[str]:
        return [f"model.tokenizer_name_or_path={NEOX}", f"local_dirs=[{self.folder}]", f"dataset_paths.hh={SHARED}/hh",
                *more]

    def test_hh_in_its_order(self) -> None:
        for sft in (False, True):
            wanted = flat(reference.batches([(self.hh["train"], "keep_end")], sft=sft, batch_size=8, n_epochs=3))
            got = order(10**9, *self.words(f"loss={'sft' if sft else 'dpo'}", "batch_size=8", "n_epochs=3"))
            self.assertEqual(got_texts(got), texts(wanted))

    def test_hh_evaluation_set(self) -> None:
        for count in (64, 128, 176):
            wanted = flat(reference.batches([(self.hh["test"], "keep_end")], batch_size=16, n_examples=count))
            got = order(10**9, *self.words("loss=dpo", "--split", "test", f"n_eval_examples={count}"))
            self.assertEqual(got_texts(got), texts(wanted))
        everything = flat(reference.batches([(self.hh["test"], "keep_end")], batch_size=1, n_epochs=1))
        self.assertLess(len(everything), 500)
        got = order(10**9, *self.words("loss=dpo", "--split", "test", "n_eval_examples=500"))  # the original would begin again
        self.assertEqual(sorted(got_texts(got)), sorted(texts(everything)))

    def test_published_folders_merge_prompts(self) -> None:
        rows = reference.read_lines(SHARED / "hh" / "train.jsonl.gz")
        parts = {"harmless-base": rows[:300], "helpful-base": rows[200:500], "helpful-online": rows[450:600],
                 "helpful-rejection-sampled": rows[:50]}
        for name, part in parts.items():
            write_lines(self.folder / "hh" / name / "train.jsonl", part)
        write_lines(self.folder / "hh" / "red-team-attempts" / "red_team_attempts.jsonl", [{"transcript": ""}])
        entries = reference.hh([row for part in parts.values() for row in part])
        wanted = flat(reference.batches([(entries, "keep_end")], batch_size=4, n_epochs=1))
        got = order(10**9, *self.words("loss=dpo", f"dataset_paths.hh={self.folder}/hh"))
        self.assertEqual(got_texts(got), texts(wanted))

    def test_rejected_is_cut_by_characters(self) -> None:
        row = {"chosen": "\n\nHuman: é?\n\nAssistant: yes", "rejected": "\n\nHuman: ee?\n\nAssistant: no"}
        write_lines(self.folder / "hh" / "train.jsonl", [row, {"chosen": row["chosen"], "rejected": "é"}])
        entries = reference.hh([row, {"chosen": row["chosen"], "rejected": "é"}])
        wanted = flat(reference.batches([(entries, "keep_end")], batch_size=2, n_epochs=1))
        got = order(2, *self.words("loss=dpo", f"dataset_paths.hh={self.folder}/hh", "batch_size=2",
                                   "data.empty_response=keep"))
        self.assertEqual(got_texts(got), texts(wanted))

    def test_shp(self) -> None:
        rows = shp_rows(600)
        for name, part in (("askbaking", rows[:400]), ("legaladvice", rows[400:])):
            write_lines(self.folder / "shp" / name / "train.json", part)
        for sft in (False, True):
            wanted = flat(reference.batches([(reference.shp(rows), "keep_start")], sft=sft, batch_size=4, n_epochs=2))
            got = order(10**9, *self.words("datasets=[shp]", f"dataset_paths.shp={self.folder}/shp",
                                           f"loss={'sft' if sft else 'dpo'}", "n_epochs=2",
                                           "data.equal_responses=keep"))
            self.assertEqual(got_texts(got), texts(wanted))

    def test_se_both_splits(self) -> None:
        rows = se_rows(1500)
        write_lines(self.folder / "se" / "data" / "site.jsonl", rows)
        words = self.words("datasets=[se]", f"dataset_paths.se={self.folder}/se", "loss=dpo",
                           "data.equal_responses=keep", "data.empty_response=keep", "eval_batch_size=4")
        train = flat(reference.batches([(reference.se(rows, "train"), "keep_start")], batch_size=4, n_epochs=1))
        self.assertEqual(got_texts(order(10**9, *words)), texts(train))
        test = flat(reference.batches([(reference.se(rows, "test"), "keep_start")], batch_size=4, n_examples=40))
        self.assertEqual(got_texts(order(10**9, *words, "--split", "test", "n_eval_examples=40")), texts(test))

    def test_mixed(self) -> None:
        rows = shp_rows(300)
        write_lines(self.folder / "shp" / "x" / "train.json", rows)
        sets = [(reference.shp(rows), "keep_start"), (self.hh["train"], "keep_end")]
        wanted = flat(reference.batches(sets, batch_size=4, n_epochs=2))
        got = order(10**9, *self.words("datasets=[shp, hh]", f"dataset_paths.shp={self.folder}/shp", "loss=dpo",
                                       "n_epochs=2", "data.equal_responses=keep"))
        self.assertEqual(got_texts(got), texts(wanted))

    def test_tokens_after_truncation(self) -> None:
        tokenizer = Tokenizer.from_file(str(NEOX / "tokenizer.json"))
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # noqa: E731
        eos = tokenizer.token_to_id("<|endoftext|>")
        rows = shp_rows(90)
        for row in rows:
            row["history"] *= 9
        write_lines(self.folder / "shp" / "x" / "train.json", rows)
        sets = [(reference.shp(rows), "keep_start"), (self.hh["train"], "keep_end")]
        for limits in ((512, 256), (128, 64), (60, 50), (40, 8)):
            for sft in (False, True):
                wanted = [reference.truncated_ids(e, encode, eos, *limits)
                          for e in flat(reference.batches(sets, sft=sft, batch_size=4, n_epochs=1))]
                got = order(10**9, "--tokens", *self.words(
                    "datasets=[shp, hh]", f"dataset_paths.shp={self.folder}/shp", f"loss={'sft' if sft else 'dpo'}",
                    "data.equal_responses=keep", f"max_length={limits[0]}", f"max_prompt_length={limits[1]}"))
                self.assertEqual([(e["prompt_ids"], [e["chosen_ids"]] + ([] if sft else [e["rejected_ids"]]))
                                  for e in got], wanted)

    def test_lengths_are_what_the_planner_reads(self) -> None:
        file = self.folder / "lengths.yaml"
        answer = dpo_data("--json", "--lengths", str(file), *self.words("loss=dpo"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        lengths = json.loads(answer.stdout)["lengths"]
        self.assertEqual(lengths["train"], {"prompts": 900, "pairs": 900, "rankings": 900, "ranked": 1800})
        self.assertEqual(len(lengths["prompt"]), 20)
        self.assertIn("longest: {prompt: 833,", file.read_text())


if __name__ == "__main__":
    unittest.main()
