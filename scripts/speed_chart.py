"""Draws docs/speed.svg, the chart of the README, from the tables of docs/benchmarks.md.

The colours follow the reader's light or dark theme.
"""

import argparse
from html import escape
from itertools import dropwhile, takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH, LABELS, BARS, ROW = 760, 190, 470, 26
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .note { fill: #59636e; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .dpo { fill: #0b6e4f; }
  .other { fill: #a3adb8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .dpo { fill: #3fb68b; }
    .other { fill: #656c76; }
  }
"""
# Title, note and heading in docs/benchmarks.md of each table that is drawn.
PANELS = [
    ("Two CPU cores: preference pairs per second (longer is better)",
     "Pythia-70M shape, 64 pairs of HH per step, AdamW, live reference",
     "Training compared with Python on two CPU cores"),
    ("One H200: preference pairs per second",
     "Pythia-2.8B shape, 64 pairs per step with lengths from HH, AdamW, live reference unless cached",
     "Training compared with Python on one H200"),
]


def pairs_per_second(heading):
    """Returns {first column: pairs/s} of the first table below a heading."""
    lines = (ROOT / "docs" / "benchmarks.md").read_text().split(f"## {heading}\n", 1)[1].splitlines()
    table = takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), lines))
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {row[0]: float(row[header.index("pairs/s")]) for row in rows}


def panel(title, note, values, top):
    out = [f'<text class="title" x="20" y="{top + 16}">{escape(title)}</text>',
           f'<text class="note" x="20" y="{top + 36}">{escape(note)}</text>']
    most = max(values.values())
    for i, (name, value) in enumerate(values.items()):
        y = top + 50 + ROW * i
        length = BARS * value / most
        kind = "dpo" if name.startswith("dpo") else "other"
        out.append(f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
                   f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{length:.1f}" height="{ROW - 7}" rx="2"/>'
                   f'<text x="{LABELS + length + 8:.1f}" y="{y + 14}">{value:g}</text>')
    return out, top + 50 + ROW * len(values) + 20


def draw():
    body, top = [], 18
    for title, note, heading in PANELS:
        lines, top = panel(title, note, pairs_per_second(heading), top)
        body += lines
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{top - 1}" rx="6"/>', *body, "</svg>"]) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "docs" / "speed.svg")
    parser.parse_args().out.write_text(draw())
