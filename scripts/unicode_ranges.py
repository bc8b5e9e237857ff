"""Writes src/text/unicode_data.cpp: the character classes of the `tokenizers` library.

The library mixes Unicode versions: its regular expressions, its standard library and its normal forms each follow a
different one. A distribution's PCRE2 and utf8proc follow yet others. This script therefore asks the library itself.

Usage: .deps/venv/bin/python scripts/unicode_ranges.py >src/text/unicode_data.cpp
"""

import unicodedata

from tokenizers import Regex, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "N", "Nd", "No", "P", "Pd", "Po", "S", "Sm", "So"]


def ranges(codes):
    found = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def matched(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in CODE_POINTS if not split.pre_tokenize_str(chr(c))}


def numeric():
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in CODE_POINTS if len(digits.pre_tokenize_str("a" + chr(c))) == 2}


def word():
    whitespace = pre_tokenizers.Whitespace()
    return {c for c in CODE_POINTS if len(whitespace.pre_tokenize_str("a" + chr(c) + "a")) == 1}


def newer(category):
    """Returns the characters added to this category since Unicode 14, the oldest version of a supported PCRE2."""
    assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
    return {c for c in matched(rf"\p{{{category}}}") if unicodedata.category(chr(c)) == "Cn"}


def print_array(name, codes):
    print(f"constexpr Range {name}[] = {{")
    line = "   "
    for first, last in ranges(codes):
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(item) > 110:
            print(line)
            line = "   "
        line += item
    print(line + "\n};\n")


def main():
    print("// Made by scripts/unicode_ranges.py; do not edit.")
    print('#include "text/unicode.h"\n\nnamespace dpo::text {\nnamespace {\n\n// clang-format off')
    letters, numbers = matched(r"\p{L}"), matched(r"\p{N}")
    print_array("kLetters", letters)
    print_array("kNumbers", numbers)
    print_array("kOtherNumeric", numeric() - numbers)
    print_array("kOtherWord", word() - letters)
    print_array("kSpaces", matched(r"\s"))
    gained = {category: newer(category) for category in CATEGORIES}
    for category in CATEGORIES:
        if gained[category]:
            print_array(f"kNewer{category}", gained[category])
    print("constexpr NewerCategory kNewer[] = {")
    for category in CATEGORIES:
        if gained[category]:
            print(f'    {{"{category}", kNewer{category}}},')
    print("};\n// clang-format on\n\n}  // namespace\n")
    for function, array in [("letter", "kLetters"), ("number", "kNumbers"), ("other_numeric", "kOtherNumeric"),
                            ("other_word", "kOtherWord"), ("space", "kSpaces")]:
        print(f"std::span<const Range> {function}_ranges() {{ return {array}; }}")
    print("std::span<const NewerCategory> newer_categories() { return kNewer; }")
    print("\n}  // namespace dpo::text")


if __name__ == "__main__":
    main()
