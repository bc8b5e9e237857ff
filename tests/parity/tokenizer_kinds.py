"""Small tokenizers of every kind that dpo reads, trained by the Python library."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
byte_level = pre_tokenizers.ByteLevel
split = pre_tokenizers.Split


def train(texts, specials=(), pre_tokenizer=None, normalizer=None, decoder=None, alphabet=(), vocab_size=1500, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder:
        tokenizer.decoder = decoder
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(specials), initial_alphabet=list(alphabet),
                                  show_progress=False, limit_alphabet=200 if vocab_size < 500 else 400)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def of_bytes(texts, steps, normalizer=None, specials=("<|begin_of_text|>", "<|eot|>"), **model):
    pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    return train(texts, specials, pre_tokenizer, normalizer, decoders.ByteLevel(), byte_level.alphabet(), **model)


def with_bos(tokenizer, token):
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token} $B",
                                      special_tokens=[(token, tokenizer.token_to_id(token))])])
    return tokenizer


def of_spaces(texts, normalizer=None, pre_tokenizer=None, specials=("<unk>", "<s>", "</s>", *BYTE_TOKENS), **model):
    """Returns a tokenizer like Llama's: a visible character for a space, bytes for what the vocabulary lacks."""
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer = train(texts, specials, pre_tokenizer, normalizer, decoders.Sequence(steps), vocab_size=2200,
                      unk_token="<unk>", **model)
    # The trainer's special tokens become part of the vocabulary only, except these.
    made = Tokenizer(tokenizer.model)
    made.normalizer, made.pre_tokenizer, made.decoder = tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


def with_flags(tokenizer):
    tokenizer.add_tokens([
        AddedToken("[LEFT]", lstrip=True), AddedToken("[RIGHT]", rstrip=True, normalized=False),
        AddedToken("[BOTH]", lstrip=True, rstrip=True, special=True, normalized=False),
        AddedToken("[WORD]", single_word=True, normalized=False), AddedToken("Lower", single_word=True),
        AddedToken("  ", normalized=True), AddedToken("assistant", special=True, normalized=False)])
    return tokenizer


def make_all(texts):
    """Returns a list of (name, tokenizer, True if every text survives decoding)."""
    lower = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase(),
                                  normalizers.Replace(Regex(r"[\s]{2,}"), " "), normalizers.Replace("...", "…")])
    metaspace = pre_tokenizers.Metaspace
    yield "llama3", with_bos(of_bytes(texts, [split(Regex(CL100K), "isolated"), byte_level(False, use_regex=False)],
                                      ignore_merges=True), "<|begin_of_text|>"), True
    yield "qwen2", of_bytes(texts, [split(Regex(QWEN2), "isolated"), byte_level(False, use_regex=False)],
                            normalizers.NFC()), False
    yield "o200k", of_bytes(texts, [split(Regex(O200K), "removed", invert=True), byte_level(False, use_regex=False)]), True
    yield "deepseek", of_bytes(texts, [split(Regex(r"\p{N}{1,3}"), "isolated"), split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
                                       split(Regex(DEEPSEEK), "isolated"), byte_level(False, use_regex=False)]), True
    yield "digits", of_bytes(texts, [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), False
    yield "digit groups", with_flags(of_bytes(texts, [pre_tokenizers.Digits(), byte_level(False)])), False
    yield "flags", with_flags(of_bytes(texts, [byte_level(False)], normalizers.Lowercase())), False
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        yield f"split {behavior}", of_bytes(texts, [split(Regex(r"[aeiou]|\d"), behavior), split(" ", behavior),
                                                    byte_level(False, use_regex=False)]), behavior != "removed"
    yield "llama2", with_bos(of_spaces(texts, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                                       byte_fallback=True, fuse_unk=True), "<s>"), False
    yield "mistral", with_bos(of_spaces(texts, None, metaspace(prepend_scheme="first", split=False), byte_fallback=True,
                                        fuse_unk=True), "<s>"), False
    yield "gemma", of_spaces(texts, normalizers.Replace(" ", "▁"), split("▁", "merged_with_previous"), byte_fallback=True), False
    for scheme in ["always", "never", "first"]:
        tokenizer = of_spaces(texts, None, metaspace(prepend_scheme=scheme, split=True), ("<unk>", "<s>", "</s>"),
                              fuse_unk=scheme == "always")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
        yield f"metaspace {scheme}", with_flags(tokenizer), False
    yield "lower", train(texts, ["<unk>"], pre_tokenizers.WhitespaceSplit(), lower, unk_token="<unk>"), False
    yield "nfd", of_bytes(texts, [byte_level(False)], normalizers.NFD()), False
    yield "nfkd", of_bytes(texts, [byte_level(False)], normalizers.NFKD()), False
    for unknown in [None, "<unk>"]:
        part = train(texts, ["<unk>"], byte_level(False), decoder=decoders.ByteLevel(), alphabet="abcdefghĠĊ",
                     vocab_size=300, unk_token=unknown)
        yield f"part of the bytes, unknown {unknown}", part, False
