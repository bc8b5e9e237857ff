"""Parquet files, written by pyarrow, give the rows that JSON lines give."""

import sys
import tempfile
import unittest
from pathlib import Path

import pyarrow
import pyarrow.parquet
from data_program import dpo_data, order, write_lines

TRIPLES = [{"prompt": f"question {i} é", "chosen": f"good {i}", "rejected": f"bad {i}"} for i in range(3000)]
LISTS = [{"prompt": f"p{i}", "responses": ["a", "b", "c"], "scores": [i, 5.0, 2.0]} for i in range(50)]
ANSWERS = [{"question": f"<p>q{i}</p>", "date": None,
            "answers": [{"text": "<p>a</p>", "pm_score": i % 3}, {"text": f"<p>b{i}</p>", "pm_score": 1}]}
           for i in range(300)]


class Parquet(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, rows: list[dict], schema: pyarrow.Schema | None = None, **options) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path, **options)
        return path

    def check_same(self, rows: list[dict], **options) -> None:
        parquet = self.write("rows.parquet", rows, **options)
        lines = write_lines(self.folder / "rows.jsonl", rows)
        got, wanted = (order(10**9, f"datasets=[{file}]", "loss=dpo", "data.test_share=0") for file in (parquet, lines))
        self.assertEqual(got, wanted)
        self.assertTrue(wanted)

    def test_texts(self) -> None:
        self.check_same(TRIPLES, row_group_size=700)
        self.check_same(TRIPLES, compression="zstd")
        self.check_same(TRIPLES, schema=pyarrow.schema([(name, pyarrow.large_string()) for name in TRIPLES[0]]))

    def test_lists(self) -> None:
        self.check_same(LISTS)

    def test_lists_of_objects(self) -> None:
        self.write("se/data/site/0.parquet", ANSWERS)
        write_lines(self.folder / "lines" / "data.jsonl", ANSWERS)
        got, wanted = (order(10**9, "datasets=[se]", f"dataset_paths.se={self.folder}/{name}", "loss=dpo")
                       for name in ("se", "lines"))
        self.assertEqual(got, wanted)

    def test_bad_rows_have_a_number(self) -> None:
        file = self.write("rows.parquet", TRIPLES[:2] + [{"prompt": "x", "chosen": None, "rejected": "y"}])
        answer = dpo_data("--order", "1", f"datasets=[{file}]", "loss=dpo", "data.test_share=0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("rows.parquet:3: 'chosen' is null, expected a string", answer.stderr)

    def test_damage(self) -> None:
        file = self.write("rows.parquet", TRIPLES)
        file.write_bytes(file.read_bytes()[:-100])
        answer = dpo_data("--order", "1", f"datasets=[{file}]", "loss=dpo")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("rows.parquet: cannot be read as Parquet", answer.stderr)


def is_built_with_arrow() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.parquet").write_bytes(b"PAR1")
        return "built without Parquet support" not in dpo_data("--order", "1", f"datasets=[{folder}/x.parquet]").stderr


if __name__ == "__main__":
    if not is_built_with_arrow():
        print("not run: the program was built without Parquet support")
        sys.exit(77)
    unittest.main()
