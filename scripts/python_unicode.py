"""Writes src/text/jinja/unicode_tables.h: the characters for which Python's str differs from the general category and
from utf8proc's case.
"""
import unicodedata

CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(wanted):
    found = []
    for code in CODES:
        if wanted(chr(code), unicodedata.category(chr(code))):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def print_array(kind, name, comment, items):
    print(f"// {comment}\ninline constexpr {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 110:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};\n")


def print_ranges(name, comment, wanted):
    print_array("CodeRange", name, comment, [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(wanted)])


def literal(text):
    return 'U"' + "".join(f"\\U{ord(c):08x}" if ord(c) > 126 else c for c in text) + '"'


assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
print("// Made by scripts/python_unicode.py; do not edit.\n#pragma once\n\nnamespace dpo::text::jinja {\n")
print("struct CodeRange {\n  char32_t first, last;\n};\n")
print("struct SpecialCase {\n  char32_t code;\n  const char32_t *upper, *title;\n};\n\n// clang-format off")
print_ranges("kOtherDigits", "isdigit(), other than Nd", lambda c, g: c.isdigit() and g != "Nd")
print_ranges("kNumericLetters", "isnumeric(), other than Nd, Nl and No", lambda c, g: c.isnumeric() and g[0] == "L")
print_ranges("kOtherLower", "islower(), other than Ll", lambda c, g: c.islower() and g != "Ll")
print_ranges("kOtherUpper", "isupper(), other than Lu", lambda c, g: c.isupper() and g != "Lu")
special = [c for c in map(chr, CODES) if len(c.upper()) > 1 or len(c.title()) > 1]
print_array("SpecialCase", "kSpecialCases", "Characters whose upper case has more than one, in order",
            [f"{{0x{ord(c):x}, {literal(c.upper())}, {literal(c.title())}}}" for c in special])
print("// clang-format on\n\n}  // namespace dpo::text::jinja")
