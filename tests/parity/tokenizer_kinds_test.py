"""Tests every other kind of tokenizer, made here with the Python library, on made-up texts and invalid UTF-8."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import sentencepiece
from tokenizer_kinds import make_all
from tokenizer_parity import PROGRAM, compare, first_difference, lines_of
from tokenizer_texts import WORDS, Texts
from tokenizers import Tokenizer

ALL = "DPO_TEST_ALL" in os.environ
COUNT = 20_000 if ALL else 1000  # made-up texts for each kind


def check_kinds(folder):
    training = Texts(99).list(6000)[500:]
    count = 0
    for seed, (name, tokenizer, round_trip) in enumerate(make_all(training)):
        (folder / name).mkdir()
        tokenizer.save(str(folder / name / "tokenizer.json"))
        count += compare(name, folder / name, tokenizer, Texts(seed).list(COUNT), round_trip)
        count += compare(name + ", special", folder / name, tokenizer, Texts(seed + 50).list(COUNT // 5), special=True)
    print(f"in all {count} texts")


def check_code_points(folder):
    """Checks every code point, for the classes and normal forms in our tables. In planes that are wholly unassigned or
    private, it checks every 16th."""
    uniform = lambda c: 0x40000 <= c < 0xE0000 or c >= 0xF0000
    texts = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and (c % 16 == 0 or not uniform(c))]
    names = ["llama3", "nfkd", "qwen2", "o200k", "deepseek", "digits", "lower", "nfd"]
    for name in names if ALL else names[:2]:
        tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        joined = ["a" + "a ".join(texts[i:i + 16]) + "1'" for i in range(0, len(texts), 16)]
        compare(name + ", all code points", folder / name, tokenizer, joined)


def check_sentencepiece(folder):
    texts = [text for text in Texts(7, special=False).list(COUNT) if not any(t in text for t in ("<s>", "</s>", "<unk>"))]
    corpus = folder / "corpus.txt"
    words = Texts(98).random
    corpus.write_text("\n".join(" ".join(words.choices(WORDS, k=12)) for _ in range(4000)))
    target = folder / "sentencepiece"
    target.mkdir()
    # The type is BPE, like Llama's. With type unigram, releases of sentencepiece differ where two splits score the
    # same.
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(target / "tokenizer"), model_type="bpe", vocab_size=900, byte_fallback=True,
        character_coverage=0.99, minloglevel=2, hard_vocab_limit=False)
    model = sentencepiece.SentencePieceProcessor(model_file=str(target / "tokenizer.model"))
    expected = model.encode(texts)
    first_difference("sentencepiece", "encoding", texts, lines_of(target, texts), expected)
    first_difference("sentencepiece", "decoding", expected, lines_of(target, expected, "--decode"), model.decode(expected))
    bos, eos = model.bos_id(), model.eos_id()
    assert lines_of(target, ["a</s>b"]) == [model.encode("a") + [eos] + model.encode("b")]
    assert lines_of(target, ["a"], "--special") == [[bos] + model.encode("a")]
    print(f"sentencepiece: {len(texts)} texts equal")


def check_invalid_utf8(folder):
    """Bytes that are not UTF-8 are read as with Python's errors="replace"."""
    pieces = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\x80", b"a",
              b" ", "é".encode(), "😀".encode()]
    texts = Texts(5).random
    lines = [b"".join(texts.choices(pieces, k=texts.randint(1, 8))) for _ in range(5000)]
    target = folder / "llama3"
    done = subprocess.run([PROGRAM, "tokenize", str(target)], input=b"\n".join(lines), capture_output=True, check=True)
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    first_difference("invalid UTF-8", "encoding", lines, ours,
                     lines_of(target, [line.decode(errors="replace") for line in lines]))
    print(f"invalid UTF-8: {len(lines)} texts equal")


def main():
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        check_kinds(folder)
        check_code_points(folder)
        check_sentencepiece(folder)
        check_invalid_utf8(folder)


if __name__ == "__main__":
    main()
