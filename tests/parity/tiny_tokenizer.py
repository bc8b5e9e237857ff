"""Makes a tokenizer for tiny models at test time. Every id is one character.

    tiny_tokenizer.make(folder, size=131, eos=2)
    tiny_tokenizer.text([5, 17, 3])     # what it encodes to these ids
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models

FIRST = 0x100  # the first of the Latin letters with marks, of two bytes each


def text(ids: list[int]) -> str:
    return "".join(chr(FIRST + i) for i in ids)


def make(folder: Path, size: int = 131, eos: int = 2) -> Path:
    tokenizer = Tokenizer(models.BPE(vocab={text([i]): i for i in range(size)}, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(text([eos]), special=True, normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": text([eos])}))
    return folder
