"""Parquet files, written by pyarrow, give the rows that JSON lines give."""

import datetime
import decimal
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
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

    def check_columns(self, columns: dict, like: dict) -> None:
        """Compares rows of columns in Arrow's types with rows of plain values, as a loss gets them."""
        parquet = self.folder / "rows.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), parquet)
        lines = write_lines(self.folder / "rows.jsonl",
                            [dict(zip(like, row)) for row in zip(*like.values(), strict=True)])
        got, wanted = (order(10**9, f"datasets=[{file}]", "loss=dpo", "data.test_share=0",
                             "batch_size=1") for file in (parquet, lines))
        self.assertEqual(got, wanted)
        self.assertTrue(wanted)

    def test_categories(self) -> None:
        """A pandas Categorical is a dictionary column. So are system prompts of which a program stores each once."""
        texts = {"system": ["Be brief.", "Sei höflich.", "Be brief.", None], "question": ["q0", "q1", "q2", "q3"],
                 "chosen": ["a", "b", "c", "d"], "rejected": ["e", "f", "g", "h"]}
        for index in (pyarrow.int8(), pyarrow.int32()):
            kind = pyarrow.dictionary(index, pyarrow.string())
            self.check_columns(texts | {"system": pyarrow.array(texts["system"], kind)}, texts)
        self.assertEqual([line["prompt"][0] for line in order(2, f"datasets=[{self.folder}/rows.parquet]", "loss=dpo",
                                                              "data.test_share=0")],
                         [line["prompt"][0] for line in order(2, f"datasets=[{self.folder}/rows.jsonl]", "loss=dpo",
                                                              "data.test_share=0")])

    def test_nested_categories(self) -> None:
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        message = pyarrow.struct([("role", kind), ("content", pyarrow.large_string())])
        said = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"q{i}"}] for i in range(4)]
        answers = {name: [[{"role": "assistant", "content": f"{name} {i}"}] for i in range(4)]
                   for name in ("chosen", "rejected")}
        self.check_columns({"prompt": pyarrow.array(said, pyarrow.list_(message))} |
                           {name: pyarrow.array(answers[name], pyarrow.list_(message)) for name in answers},
                           {"prompt": said} | answers)

    def test_kinds_of_text(self) -> None:
        texts = {"prompt": ["p é", "q 😀"], "chosen": ["a", "b"], "rejected": ["c", "d"]}
        for kind in (pyarrow.string_view(), pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary_view()):
            encode = (lambda text: text) if kind == pyarrow.string_view() else str.encode
            self.check_columns({name: pyarrow.array([encode(text) for text in texts[name]], kind) for name in texts},
                               texts)
        fixed = texts | {"chosen": pyarrow.array([b"a", b"b"], pyarrow.binary(1))}
        self.check_columns(fixed, texts)
        date, time = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5)
        self.check_columns(texts | {"chosen": pyarrow.array([date, date])}, texts | {"chosen": [str(date)] * 2})
        for unit in ("s", "ms", "us", "ns"):
            self.check_columns(texts | {"chosen": pyarrow.array([time, time], pyarrow.timestamp(unit))},
                               texts | {"chosen": [str(time)] * 2})

    def test_kinds_of_numbers(self) -> None:
        lists = {"prompt": ["p", "q"], "responses": [["a", "b"], ["c", "d"]], "scores": [[1.5, 0.25], [-2.0, 3.0]]}
        for kind in (pyarrow.float16(), pyarrow.decimal128(9, 2), pyarrow.decimal256(50, 2), pyarrow.float32()):
            make = numpy.float16 if kind == pyarrow.float16() else float
            if pyarrow.types.is_decimal(kind):
                make = decimal.Decimal
            values = [[make(score) for score in scores] for scores in lists["scores"]]
            for outer in (pyarrow.list_(kind), pyarrow.large_list(kind), pyarrow.list_(kind, 2)):
                self.check_columns(lists | {"scores": pyarrow.array(values, outer)}, lists)

    def test_maps(self) -> None:
        chats = {"question": ["q0", "q1"], "chosen": ["a", "b"], "rejected": ["c", "d"],
                 "chat_template_kwargs": [{"a": "x"}, {"a": "y", "b": "z"}]}
        kind = pyarrow.map_(pyarrow.string(), pyarrow.string())
        columns = chats | {"chat_template_kwargs": pyarrow.array([list(row.items()) for row in
                                                                  chats["chat_template_kwargs"]], kind),
                           "system": pyarrow.nulls(2)}
        self.check_columns(columns, chats | {"system": [None, None]})

    def test_an_odd_column_matters_where_it_is_read(self) -> None:
        pairs = {"prompt": ["p", "q"], "chosen": ["a", "b"], "rejected": ["c", "d"]}
        image = [{"bytes": b"\x89PNG\xff", "path": "x.png"}] * 2
        waited = pyarrow.array([5, 6], pyarrow.duration("s"))
        self.check_columns(pairs | {"image": image, "waited": waited, "pages": [[b"\xff"], [b"\xfe"]]},
                           pairs | {"image": [0, 0]})
        message = pyarrow.array([[{"role": "assistant", "content": "a", "image": b"\xff"}]] * 2)
        for columns, problem in (
                ({"prompt": waited}, "'prompt' is a value that is not text, a number, a list or an object "
                 "(type duration[s]), expected a string"),
                ({"prompt": [b"\xff", b"\xff"]}, "'prompt' is bytes that are not UTF-8 text (type binary)"),
                ({"system": waited, "question": ["p", "q"], "prompt": None}, "'system' is a value that is not text"),
                ({"chosen": message}, "'chosen' has a message whose 'image' is bytes that are not UTF-8 text")):
            table = {name: values for name, values in (pairs | columns).items() if values is not None}
            pyarrow.parquet.write_table(pyarrow.table(table), self.folder / "odd.parquet")
            answer = dpo_data("--order", "1", f"datasets=[{self.folder}/odd.parquet]", "loss=dpo", "data.test_share=0")
            self.assertEqual(answer.returncode, 1, problem)
            self.assertIn(f"odd.parquet:1: {problem}", answer.stderr)

    def check_bomb(self, table: pyarrow.Table, **options) -> None:
        """A small file that decodes to gigabytes is rejected before it takes the memory."""
        file = self.folder / "bomb.parquet"
        pyarrow.parquet.write_table(table, file, compression="zstd", **options)
        self.assertLess(file.stat().st_size, 200_000)
        with subprocess.Popen([os.environ["DPO_PROGRAM"], "data", "--order", "1", f"datasets=[{file}]", "loss=dpo",
                               "data.test_share=0"], stderr=subprocess.PIPE, text=True) as program:
            said = program.stderr.read()
            _, status, used = os.wait4(program.pid, 0)
            program.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(program.returncode, 1, said)
        self.assertIn("bomb.parquet: decodes to more than 256 MiB", said)
        self.assertLess(used.ru_maxrss << 10, 1 << 30)

    def test_bombs(self) -> None:
        def table(rows: int, text: str) -> pyarrow.Table:
            same = pyarrow.DictionaryArray.from_arrays(pyarrow.array(numpy.zeros(rows, numpy.int32)), [text])
            return pyarrow.table({"prompt": same, "chosen": same, "rejected": same})

        self.check_bomb(table(1000, "x" * 500_000))
        self.check_bomb(table(1000, "x" * 500_000), store_schema=False)  # read as plain strings
        self.check_bomb(table(7_000_000, "x"))

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
