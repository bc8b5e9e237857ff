"""Tests real tokenizers on real text: GPT-2, GPT-NeoX and a Llama, on every row of HH and on made-up texts."""

import gzip
import json
import os
import sys
from pathlib import Path

ALL = "DPO_TEST_ALL" in os.environ
COUNT = 100_000 if ALL else 1000  # made-up texts for each tokenizer


def shared_data():
    beside = Path(os.environ["DPO_SOURCE_DIR"]).parent / "shared" / "data"
    folder = Path(os.environ.get("DPO_SHARED_DATA", beside))
    if not (folder / "tokenizers").is_dir():
        print(f"not run: {folder} holds no tokenizers; DPO_SHARED_DATA names the folder of real data")
        sys.exit(77)
    return folder


def hh_texts(folder):
    texts = []
    for file in sorted((folder / "hh").glob("*.jsonl.gz")):
        with gzip.open(file, "rt") as rows:
            for row in map(json.loads, rows):
                texts += [row["chosen"], row["rejected"]]
    return texts


def gpt2(folder):
    """Returns the tokenizer that GPT2TokenizerFast makes from vocab.json and merges.txt."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    return tokenizer


def main():
    data = shared_data()
    from tokenizer_parity import compare
    from tokenizer_texts import Texts
    from tokenizers import Tokenizer

    rows = hh_texts(data)[:None if ALL else 2000]
    for seed, name in enumerate(["gpt2", "gpt-neox", "llama"]):
        folder = data / "tokenizers" / name
        reference = gpt2(folder) if name == "gpt2" else Tokenizer.from_file(str(folder / "tokenizer.json"))
        compare(f"{name}, HH", folder, reference, rows, round_trip=name != "llama")
        # GPT-NeoX normalizes, so some made-up texts do not survive decoding.
        compare(f"{name}, made up", folder, reference, Texts(seed).list(COUNT), round_trip=name == "gpt2")
        compare(f"{name}, with special tokens", folder, reference, Texts(seed + 10).list(COUNT // 20), special=True)


if __name__ == "__main__":
    main()
