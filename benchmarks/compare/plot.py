"""Draws line charts with logarithmic axes, as SVG."""

from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 70, 230, 50, 60
COLOURS = ["#0b6e4f", "#7fb800", "#b23a48", "#f18f01", "#2e4057", "#8d6a9f"]


def ticks(low, high):
    """Returns 1, 2 and 5 times powers of ten that span two numbers."""
    steps = [m * 10.0**e for e in range(-6, 7) for m in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low)
    last = min(i for i, step in enumerate(steps) if step >= high)
    return steps[first:last + 1]


def scale(marks, start, end):
    from math import log
    low, high = log(marks[0]), log(marks[-1])
    return lambda value: start + (end - start) * (log(value) - low) / ((high - low) or 1)


def line_chart(title, x_label, y_label, lines):
    """Draws `lines`: {name: [(x, y)...]}."""
    points = [point for line in lines.values() for point in line]
    xs, ys = sorted({x for x, _ in points}), ticks(min(y for _, y in points), max(y for _, y in points))
    x_at, y_at = scale(xs, LEFT, WIDTH - RIGHT), scale(ys, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="28" font-size="16">{escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 15}" text-anchor="middle">{escape(x_label)}</text>',
           f'<text transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>']
    for y in ys:
        out.append(f'<path d="M{LEFT} {y_at(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in xs:
        out.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:g}</text>')
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in sorted(line))
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3.5" fill="{colour}"/>' for x, y in line]
        at = TOP + 10 + 22 * i
        out.append(f'<path d="M{WIDTH - RIGHT + 15} {at}h20" stroke="{colour}" stroke-width="3"/>'
                   f'<text x="{WIDTH - RIGHT + 42}" y="{at + 4}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
