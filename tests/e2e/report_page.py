"""Reads a page of dpo report as a browser would, and checks the properties of every page."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.open, self.tags, self.parts, self.code = [], [], [], {"script": [], "style": []}
        self.feed(self.source)
        self.close()
        self.text = "\n".join(self.parts)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> within {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in self.code:
            self.code[self.open[-1]].append(data)
        else:
            self.parts.append(data)

    def all(self, tag, name=None):
        return [attributes for kind, attributes in self.tags if kind == tag and name in (None, attributes.get("class"))]

    def charts(self):
        """Returns the points of each chart's curves, by the chart's title and the curve's name."""
        charts = {}
        for tag, attributes in self.tags:
            if tag == "svg" and attributes.get("class") == "plot":
                charts[attributes["aria-label"]] = current = {}
            elif tag == "g":
                current[attributes["data-name"]] = [tuple(map(float, pair.split(","))) for pair in attributes["data-points"].split()]
        return charts

    def check(self):
        """Checks that the page is well-formed, has one script and one style, both named by their hash, and loads or
        runs nothing else."""
        assert not self.open, self.open
        for tag, attributes in self.tags:
            assert tag not in {"img", "iframe", "object", "embed", "form", "base", "video", "audio", "image", "use"}, tag
            for name, value in attributes.items():
                assert not name.startswith("on") and name not in {"src", "srcset", "style", "xlink:href", "srcdoc"}, (tag, name)
                if name == "href":
                    assert value == "data:," or re.fullmatch(r"#part-\d+", value), value
        assert "://" not in "".join(self.code["style"] + self.code["script"])
        assert "@import" not in "".join(self.code["style"]) and "url(" not in "".join(self.code["style"])
        policy, = (tag["content"] for tag in self.all("meta") if tag.get("http-equiv") == "Content-Security-Policy")
        assert "default-src 'none'" in policy
        for kind in ("script", "style"):
            assert len(self.all(kind)) == 1, kind
            digest = base64.b64encode(hashlib.sha256("".join(self.code[kind]).encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}'" in policy, policy
        assert any(tag.get("name") == "viewport" for tag in self.all("meta"))
        assert "prefers-color-scheme: dark" in self.source
        for plot in self.all("svg", "plot"):
            assert plot["tabindex"] == "0" and plot["role"] == "img" and plot["aria-label"], plot
        identifiers = [attributes["id"] for _, attributes in self.tags if "id" in attributes]
        assert len(identifiers) == len(set(identifiers)), identifiers
        return self
