"""Checks that comments, messages and pages are plain English: no private words, and no comment that opens with a
fragment.

english.py FOLDER: the root of the checkout. Prints each place, and exits with 1 if there is one.
"""

import re
import sys
from pathlib import Path

CODE = {".cpp", ".h", ".cu", ".cuh", ".js"}
FOLDERS = ("src", "tests", "benchmarks", "docs", "cmake", "scripts", "python")
SCRIPTS = {".py", ".sh", ".cmake", ".txt"}

# Maps a word that readers stumble over to its replacement.
WORDS = {
    r"mend(s|ed|ing)?": "fix", r"lent": "borrowed", r"whom": "who", r"thereof": "of it", r"besides": "also", r"as ever": "(nothing)",
    r"likewise": "also", r"heretofore": "so far",
}
# These words open a fragment, but a sentence needs a subject and a verb.
OPENINGS = ("Of", "The same", "Those", "What", "Which", "Whether", "As", "So that")

WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
OPENING = re.compile(rf"({'|'.join(OPENINGS)})\b")


def advice_on(word):
    return next(better for pattern, better in WORDS.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def openings(lines, mark):
    """Returns the first line of each comment: (number, text)."""
    was_comment = False
    for number, line in enumerate(lines, 1):
        code, found, text = line.partition(mark)
        is_whole = found and not code.strip()
        if found and code.count('"') % 2 == 0 and not (is_whole and was_comment) and not code.endswith(":"):
            yield number, text.strip()
        was_comment = bool(is_whole)


def findings(path, text):
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        for found in WORD.finditer(line):
            yield number, f"'{found[0]}': write {advice_on(found[0])}"
    if path.suffix in CODE | SCRIPTS:
        for number, comment in openings(lines, "//" if path.suffix in CODE else "#"):
            if OPENING.match(comment):
                yield number, f"the comment opens with a fragment: '{comment[:60]}'"


def main(root):
    files = [file for folder in FOLDERS for file in (root / folder).rglob("*")] + list(root.glob("*.md"))
    paths = sorted(file.relative_to(root) for file in files if file.suffix in CODE | SCRIPTS | {".md", ".html", ".css"}
                   and file != Path(__file__).resolve())  # it lists the words
    problems = [(path, number, problem) for path in paths for number, problem in findings(path, (root / path).read_text())]
    for path, number, problem in problems:
        print(f"{path}:{number}: {problem}")
    print(f"{len(paths)} files read, {len(problems)} findings")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
