"""Texts that are hard for a tokenizer: scripts, emoji, marks, controls, whitespace, long runs, special tokens, case."""

import random

SPACES = [chr(c) for c in [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
                           0x3000]]
ALMOST_SPACES = [chr(c) for c in (0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x1C, 0x1F, 0x2581)]
CONTROLS = [chr(c) for c in [*range(0, 9), *range(14, 32), *range(0x7F, 0xA0), 0xAD, 0x200E, 0x202E, 0x2066]]
MARKS = [chr(c) for c in [*range(0x300, 0x370), 0x3099, 0x309A, 0x5B0, 0x64B, 0x93C, 0x94D, 0x9BE, 0xE38, 0x1DFA, 0x20D0,
                          0xFE20, 0x1D165, 0x1E8D0, 0x110BA, 0x11935, 0x11930, 0x16D67]]
DIGITS = [chr(base + i) for base in (0x30, 0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10, 0x1D7CE, 0x10D40, 0x1E5F1)
          for i in range(10)] + list("½²³¹Ⅷⅷ①㊿㉈一二〇௰፩𐄇")
EDGES = [chr(c) for c in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xF8FF, 0xFDD0, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000,
                          0x1FFFF, 0xF0000, 0x10FFFD, 0x10FFFF)]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "🫠", "❤️", "😀", "👨🏿‍🚀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☃", "™️"]
WORDS = """the quick brown fox jumps over a lazy dog Human Assistant I'm don't we'll you've they're he'd it's CAN'T I'LL
 WE'RE naïve café Straße İstanbul ΣΊΣΥΦΟΣ ſharp 'ſ ’s O'Neill rock'n'roll hello_world fooBar x86_64 C++ a.b.c http://x.org/?q=1&b=%20
 Привет мир здравствуйте שלום مرحبا नमस्ते สวัสดี 你好世界 日本語テキスト ひらがな カタカナ 한국어 조합 ﬁne ﬃ ㍿ ﷺ Å Å ǆ ㎏ ½ x² ﾊﾝｶｸ
 2023 3.14159 1,000,000 12345678901234567890 0x1F 1e-9 --- ... !!! ??! (ok) [x] {y} <z> "q" `c` ~ @ # $ % ^ & * = + | \\ / ; : < >
 def return function int main() {} // # end assistant RWKV""".split()
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "[PAD]", "<|im_start|>", "<|im_end|>", "<|padding|>", "assistant",
           "<|begin_of_text|>", "<|eot|>", "[LEFT]", "[RIGHT]", "[BOTH]", "[WORD]", "Lower", "[mask]", "<0x41>", "<0xFF>"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x6FF), (0x900, 0xDFF), (0xE00, 0x10FF),
          (0x1100, 0x11FF), (0x1C80, 0x1C8F), (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x3000, 0x33FF), (0x4E00, 0x9FFF),
          (0xA720, 0xA7FF), (0xAC00, 0xD7FB), (0xE000, 0xE0FF), (0xF900, 0xFFFF), (0x10000, 0x10FFF), (0x11000, 0x11FFF),
          (0x12000, 0x16FFF), (0x1B000, 0x1BCFF), (0x1CC00, 0x1E8FF), (0x1F000, 0x1FBFF), (0x20000, 0x323AF),
          (0xE0000, 0xE01FF)]


class Texts:
    def __init__(self, seed, special=True):
        self.random = random.Random(seed)
        self.special = special
        self.makers = [self.words, self.words, self.sentence, self.spaces, self.marks, self.digits, self.block, self.emoji,
                       self.run, self.anything, self.edges, self.lines, self.tokens]

    def some(self, choices, most):
        return "".join(self.random.choices(choices, k=self.random.randint(1, most)))

    def words(self):
        words = self.random.choices(WORDS, k=self.random.randint(1, 6))
        return self.random.choice([" ", "", "  ", "\n", "\t", " \n"]).join(words)

    def sentence(self):
        return "\n\nHuman: " + " ".join(self.random.choices(WORDS, k=8)) + "\r\n\r\nAssistant: "

    def spaces(self):
        return self.some(SPACES + ALMOST_SPACES + [" "] * 30 + ["\n", "\r\n"] * 5, 6)

    def marks(self):
        return "".join(self.random.choice("aeiouAOyㄱ가กक") + self.some(MARKS, 3) for _ in range(self.random.randint(1, 4)))

    def digits(self):
        return self.some(DIGITS, 8)

    def block(self):
        first, last = self.random.choice(BLOCKS)
        return "".join(chr(self.random.randint(first, last)) for _ in range(self.random.randint(1, 6)))

    def emoji(self):
        return self.some(EMOJI, 3)

    def run(self):
        return self.random.choice([*" a0.\n\t'-=é漢", "ab", "\r\n", " \n", "é", "👍🏽"]) * self.random.randint(2, 60)

    def anything(self):
        code = self.random.choice([self.random.randrange(0xD800), self.random.randrange(0xE000, 0x110000)])
        return chr(code)

    def edges(self):
        return self.some(EDGES + CONTROLS, 3)

    def lines(self):
        return self.random.choice(["\r\n", "\n\n", "\r", "\n \n", "  \r\n\t", "\u2028"])

    def tokens(self):
        if not self.special:
            return self.words()
        around = ["", " ", "  ", "\n", "a", "é", "_", "1", "\u3000"]
        return self.random.choice(around) + self.random.choice(SPECIAL) + self.random.choice(around)

    def text(self):
        return "".join(self.random.choice(self.makers)() for _ in range(self.random.randint(1, 6)))

    def list(self, count):
        whole = [chr(c) for c in range(1, 0x250)] + SPACES + ALMOST_SPACES + EDGES + [""]
        long = ["a" * 20000, " " * 20000, "ab " * 7000, "漢字" * 5000, "\n" * 5000, "1" * 5000, "e\u0301" * 3000]
        fixed = whole + [a + b for a in whole[:128] for b in " a\n"] + long
        return fixed + [self.text() for _ in range(count - len(fixed))]
