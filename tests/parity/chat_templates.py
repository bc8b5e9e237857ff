"""Compares small templates of every kind, made at random, with the real environment."""

import json
import os
import random
import subprocess
import unicodedata
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

from chat_cases import CASES
from chat_reference import plain_text, reference_marks

VARIABLES = {
    "n": 7, "zero": 0, "neg": -13, "big": 123456789, "x": 2.5, "half": 0.5, "tiny": 1e-7, "huge": 1e20, "yes": True, "no": False,
    "nothing": None, "s": "Hello World", "t": "  padded\ttext \n", "u": "naïve ΑΣ ß 日本😀", "e": "", "digits": "42", "q": "it's \"q\"",
    "html": "<b>&amp;</b>", "csv": "a,b,,c", "lines": "one\ntwo\r\n\nthree", "nums": [3, 1, 2, 2], "words": ["b", "A", "c", "a"],
    "mixed": [1, "two", None, 2.0, True], "nested": [[1, [2, 3]], []], "void": [],
    "d": {"a": 1, "b": "two", "items": [1], "c": {"k": [1, 2]}}, "empty": {}, "odd": {"key with space": None, "ключ": 1.5},
    "rows": [{"name": "bob", "age": 3, "tags": ["x"]}, {"name": "Al", "age": 5}, {"name": "al", "age": None, "tags": []}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}
NAMES = {
    "str": ["s", "t", "u", "e", "digits", "q", "html", "csv", "lines", "d.b", "words[0]", "rows[1].name"],
    "int": ["n", "zero", "neg", "big", "nums[0]", "d.a"],
    "float": ["x", "half", "tiny", "huge"],
    "bool": ["yes", "no"],
    "list": ["nums", "words", "mixed", "nested", "void", "rows", "tree", "d['items']", "rows[0].tags"],
    "dict": ["d", "empty", "odd", "rows[0]", "d.c"],
    "any": ["nothing", "missing", "d.missing", "rows[9]", "d['a']", "n", "s", "nums", "d", "missing.deep"],
}
LITERALS = {
    "str": ["'a'", "\"b c\"", "''", "'x\\ny'", "'é'", "'%s-%s'", "'{} {}'", "'{0:>5}|{k}'", "'{:^7}|{:.2f}'", "'{:,}|{k:05}'", "' '", "','", "'\\u00e9\\x41\\t'", "'%d'",
            "'%5.2f|'", "'%-6s|%03d'", "'a' 'b'"],
    "int": ["0", "1", "2", "3", "-1", "-2", "10", "100", "1000"],
    "float": ["1.0", "0.5", "-2.75", "1e3", "3.14159", "1.5e-3", "100.0"],
    "bool": ["true", "false", "True", "False"],
    "list": ["[]", "[1, 2, 3]", "['a', 'b']", "[none, true]", "(1, 2)", "()", "range(3)|list", "range(5, 0, -2)|list", "(1,)"],
    "dict": ["{}", "{'a': 1}", "{'k': 'v', 'n': [1]}", "dict(a=1, b=2)", "{1: 'x', 2.5: 'y'}"],
    "any": ["none", "None", "[[]]", "namespace(a=1).a"],
}
TYPES = ["str", "str", "int", "float", "bool", "list", "list", "dict", "any"]
STR_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "string", "safe", "indent",
               "replace('a', 'b')", "replace('l', '', 1)", "indent(2, true)",
               "indent('> ', blank=true)", "trim('Hd ')", "default('z')", "default('z', true)", "reverse", "format('p', 'q')",
               "tojson", "join", "join('-')", "replace('', '.')", "d('w')"]
LIST_FILTERS = ["list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "unique|list", "reverse|list", "map('string')|list",
                "map('upper')|list", "select|list", "reject|list", "select('odd')|list", "select('string')|list", "reject('none')|list",
                "select('equalto', 2)|list", "select('in', [1, 2])|list", "map('default', 'x')|list", "items|list",
                "dictsort", "map(attribute='name')|list",
                "map(attribute='name', default='?')|list", "selectattr('tags')|list", "selectattr('age', '>', 3)|list",
                "rejectattr('age', 'none')|list", "selectattr('name', 'defined')|list", "sort(attribute='name')", "sort(attribute='age,name')",
                "unique(attribute='name')|list", "map('first')|list", "map('length')|list", "map(attribute='tags.0')|list", "dictsort(by='value')",
                "dictsort(false, 'key', true)", "map('int')|list", "map('tojson')|list"]
ANY_FILTERS = ["first", "last", "max", "min", "sum", "random_is_unknown", "default(1)", "int", "float", "length", "count", "abs", "round",
               "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "tojson", "tojson(indent=2)", "string", "list",
               "sum(start=10)", "sum(attribute='age')", "min(attribute='age')",
               "max(attribute='name')", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))",
               "items|list", "int(default=5)", "float(1.5)", "map", "select('nothing')|list", "join(', ', attribute='name')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "iterable", "sequence",
         "callable", "odd", "even", "divisibleby 3", "divisibleby(2)", "in [1, 2, 'a']", "eq 1", "equalto('a')", "ne 2",
         "gt 1", "lessthan 3", "ge(2)", "le 2", "sameas none", "sameas true", "nosuchtest", "lt 'b'"]
STR_METHODS = ["strip()", "lstrip()", "rstrip('\\n ')", "split()", "split(',')", "split('o', 1)", "rsplit(None, 1)", "upper()", "lower()", "title()",
               "capitalize()", "startswith('H')", "endswith(('d', 'x'))", "find('o')", "rfind('o')", "find('zz')",
               "index('l')", "count('l')", "replace('l', 'L')", "replace('o', '0', 1)", "join(['a', 'b'])", "join(words)", "format('A', k='K')",
               "format(1, 2, k=3)", "partition(' ')", "rpartition('o')",
               "removeprefix('He')", "removesuffix('ld')", "splitlines()", "splitlines(true)", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isdecimal()",
               "count('')", "strip('Hd')", "split(maxsplit=1)", "__class__", "nosuch"]
LIST_METHODS = ["count(2)", "index(2)", "index(99)", "copy()", "append(1)", "pop()", "sort()", "extend([1])", "insert(0, 1)", "reverse()",
                "__len__", "nosuch"]
DICT_METHODS = ["get('a')", "get('zz')", "get('zz', 'dflt')", "keys()|list", "values()|list", "items()|list", "items()", "keys()", "copy()", "pop('a')",
                "update({})", "setdefault('a', 2)", "items", "nosuch", "b", "clear()"]
INDICES = ["0", "1", "-1", "9", "'a'", "'nosuch'", "'b'", "none", "1.0", "true", "x"]
SLICES = [":2", "1:", "::-1", "::2", "-2:", ":-1", "1:3", "5:1:-1", "::0", ":none", "n:", "-100:100"]
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "~"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
LOOP = ["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0", "loop.previtem",
        "loop.nextitem", "loop", "loop['index']"]


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def pick(self, *lists):
        return self.rng.choice([item for each in lists for item in each])

    def expr(self, kind=None, depth=0):
        rng = self.rng
        kind = kind or rng.choice(TYPES)
        if rng.random() < 0.06:
            kind = "any"
        if depth > 3 or rng.random() < 0.25:
            return self.pick(NAMES[kind], LITERALS[kind])
        inner = lambda wanted: self.expr(wanted, depth + 1)
        both = {
            "str": [lambda: f"({inner('str')}|{self.pick(STR_FILTERS)})", lambda: f"{self.atom('str')}.{self.pick(STR_METHODS)}",
                    lambda: f"({inner('str')} ~ {inner('any')})", lambda: f"({inner('str')} + {inner('str')})",
                    lambda: f"{self.atom('str')}[{self.pick(SLICES)}]", lambda: f"({inner('str')} * {rng.randrange(-1, 4)})",
                    lambda: f"({inner('str')} % ({inner('any')}, {inner('int')}))", lambda: f"({inner('any')}|string)",
                    lambda: f"({inner('any')}|tojson)", lambda: f"({inner('list')}|join({inner('str')}))"],
            "int": [lambda: f"({inner('int')} {rng.choice(['+', '-', '*', '//', '%'])} {inner('int')})", lambda: f"({inner('list')}|length)",
                    lambda: f"({inner('any')}|int)", lambda: f"(-{inner('int')})", lambda: f"{self.atom('str')}.count('a')"],
            "float": [lambda: f"({inner('float')} {rng.choice(['+', '-', '*', '/'])} {inner('int')})", lambda: f"({inner('any')}|float)",
                      lambda: f"({inner('float')}|round({rng.randrange(4)}))", lambda: f"({inner('int')} / {inner('int')})"],
            "bool": [lambda: f"({inner(None)} {rng.choice(COMPARISONS)} {inner(None)})", lambda: f"(not {inner(None)})",
                     lambda: f"({inner(None)} is {rng.choice(['', 'not '])}{self.pick(TESTS)})", lambda: f"({inner('int')} < {inner('int')} <= {inner('float')})",
                     lambda: f"({inner('str')} in {inner('str')})"],
            "list": [lambda: f"({inner('list')}|{self.pick(LIST_FILTERS)})", lambda: f"[{inner(None)}, {inner(None)}]", lambda: f"({inner('list')} + {inner('list')})",
                     lambda: f"{self.atom('list')}[{self.pick(SLICES)}]", lambda: f"{self.atom('str')}.split({inner('str')})",
                     lambda: f"{self.atom('list')}.{self.pick(LIST_METHODS)}", lambda: f"({inner('dict')}|{self.pick(LIST_FILTERS)})",
                     lambda: f"({inner('list')} * {rng.randrange(3)})", lambda: f"({inner('str')}|list)", lambda: f"range({rng.randrange(5)}, {inner('int')})|list"],
            "dict": [lambda: f"{{{inner('str')}: {inner(None)}, {self.pick(LITERALS['int'])}: {inner(None)}}}", lambda: f"{self.atom('dict')}.{self.pick(DICT_METHODS)}",
                     lambda: f"dict({inner('dict')}, z={inner(None)})", lambda: f"dict({inner('list')})"],
            "any": [lambda: f"({inner(None)}|{self.pick(ANY_FILTERS, STR_FILTERS, LIST_FILTERS)})", lambda: f"{self.atom(None)}[{self.pick(INDICES)}]",
                    lambda: f"({inner(None)} if {inner('bool')} else {inner(None)})", lambda: f"({inner(None)} if {inner('bool')})",
                    lambda: f"({inner(None)} {rng.choice(['and', 'or'])} {inner(None)})", lambda: f"({inner(None)} {self.pick(ARITHMETIC)} {inner(None)})",
                    lambda: f"{self.atom(None)}.{self.pick(STR_METHODS, LIST_METHODS, DICT_METHODS)}", lambda: f"{self.atom(None)}[{self.pick(SLICES)}]",
                    lambda: self.pick(LOOP), lambda: f"({inner(None)}, {inner(None)})", lambda: f"(+{inner(None)})"],
        }
        return rng.choice(both[kind])()

    def atom(self, kind):
        kind = kind or self.rng.choice(TYPES)
        return self.pick(NAMES[kind]) if self.rng.random() < 0.7 else f"({self.expr(kind, 3)})"

    def open(self, tag):
        return self.rng.choice(["{%", "{%", "{%-", "{%+"]) + f" {tag} " + self.rng.choice(["%}", "%}", "-%}", "+%}"])

    def text(self):
        return self.pick(["", " ", "\n", "a", "  b\n", "\n  ", "{# c #}", "{#- c -#}\n", "\t", "é", "{% raw %}{{ x }}{% endraw %}", "x { y } % z", "#}"])

    def statement(self, depth=0):
        rng, body = self.rng, lambda: self.body(depth + 1)
        output = lambda: rng.choice(["{{", "{{-"]) + f" {self.expr()} " + rng.choice(["}}", "-}}"])
        if depth > 2:
            return output()
        name = rng.choice(["i", "v", "s", "n", "w"])
        loop = f"{{{{ {self.pick(LOOP)} }}}}"
        kinds = [
            output, output, output, self.text,
            lambda: self.open(f"set {name} = {self.expr()}"),
            lambda: self.open(f"set {name}, v = {self.expr('list')}"),
            lambda: self.open(f"set {name}{rng.choice(['', ' | upper', ' | trim | length'])}") + body() + self.open("endset"),
            lambda: self.open(f"if {self.expr('bool')}") + body() + self.open("else") + body() + self.open("endif"),
            lambda: self.open(f"if {self.expr('bool')}") + body() + self.open(f"elif {self.expr()}") + body() + self.open("endif"),
            lambda: self.open(f"for i in {self.expr('list')}") + loop + body() + self.open("endfor"),
            lambda: self.open(f"for i in {self.expr('list')}") + body() + self.open("else") + body() + self.open("endfor"),
            lambda: self.open(f"for i in {self.expr('list')} if {rng.choice(['i', 'i is odd', 'loop is undefined', self.expr('bool')])}") + loop + body() + self.open("endfor"),
            lambda: self.open(f"for i, v in {self.expr('dict')}.items()") + "{{ i }}={{ v }}" + body() + self.open("endfor"),
            lambda: self.open(f"for i in {self.expr('list')}") + body() + self.open(f"if {rng.choice(['loop.index > 1', self.expr('bool')])}")
            + self.open(rng.choice(["break", "continue"])) + self.open("endif") + body() + self.open("else") + "E" + self.open("endfor"),
            lambda: self.open(f"macro m(v, w={self.expr()})") + body() + "{{ w }}{{ caller() if caller }}" + self.open("endmacro")
            + f"{{{{ m({self.expr()}) }}}}{{{{ m(1, 2) }}}}" + rng.choice(["", "{{ m(1, 2, 3) }}", "{{ m(w=5) }}", "{{ m(1, z=3) }}", "{% call m(1) %}C{{ s }}{% endcall %}"]),
            lambda: "{% macro r(i) %}{{ i }}{% if i > 0 %}{{ r(i - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
            lambda: "{% macro c() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(v, w=3) c() %}{{ v }}{{ w }}{{ s }}{% endcall %}",
            lambda: self.open(f"filter {rng.choice(['upper', 'trim', 'length', 'replace(s, e)', 'indent', 'upper|trim'])}") + body() + self.open("endfilter"),
            lambda: "{% set ns = namespace(a=0) %}" + self.open(f"for i in {self.expr('list')}") + "{% set ns.a = ns.a + 1 %}{% set v = i %}" + body()
            + self.open("endfor") + "{{ ns.a }}{{ v }}{{ ns }}",
            lambda: "{% generation %}" + body() + "{% endgeneration %}",
            lambda: "{% break %}", lambda: "{{ raise_exception('stop') }}",
        ]
        return rng.choice(kinds)()

    def body(self, depth=0):
        return "".join(self.text() + self.statement(depth) for _ in range(self.rng.randrange(1, 3)))

    def template(self):
        if self.rng.random() < 0.6:
            return "{{ " + self.expr() + " }}"
        return self.body() + self.text()


# Errors for features that dpo rejects on purpose (docs/chat.md), and for slices of numbers, which Jinja2 accepts where
# it folds constants.
LIMITS = ["cannot be sliced", "64 bits", "not supported", "does not support", "nested too deeply", "too long", "too many", "too large"]
# Texts that differ from one process to the next.
NOT_COMPARABLE = [" object at 0x", "<generator", "<built-in", "<function", "<bound", " at 0x", "wrap_str_format", "<LoopContext", "<Macro"]


def probe_lines(templates):
    text = "".join(json.dumps({"template": source, "variables": VARIABLES}) + "\n" for source in templates)
    done = subprocess.run([os.environ["DPO_CHAT_PROBE"]], input=text.encode(), capture_output=True, check=False)
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) != len(templates):
        raise SystemExit(f"the probe ended with {done.returncode} at {templates[len(lines)]!r}\n{done.stderr.decode()}")
    return [json.loads(line) for line in lines]


def rendered(source):
    try:
        return plain_text(source, json.loads(json.dumps(VARIABLES)))  # a copy, since `list|indent` changes its list
    except Exception as error:  # pylint: disable=broad-except
        return error


def check_small_templates(count, seed):
    """Compares the templates written by hand and random ones. Returns how many differ, and prints the shortest of
    them."""
    maker = Maker(seed)
    templates = CASES + [maker.template() for _ in range(count)]
    bad, texts, refused, skipped = [], 0, 0, 0
    for source, ours in zip(templates, probe_lines(templates)):
        theirs = rendered(source)
        if isinstance(theirs, str) and any(mark in theirs for mark in NOT_COMPARABLE):
            skipped += 1
        elif isinstance(theirs, Exception) and "error" in ours:
            refused += 1
        elif isinstance(theirs, str) and ours.get("text") == theirs:
            texts += 1
        elif "error" in ours and any(mark in ours["error"] for mark in LIMITS):
            skipped += 1
        else:
            bad.append((source, ours, theirs))
    print(f"{len(templates)} small templates: {texts} texts equal, {refused} refused by both, {skipped} not comparable, {len(bad)} differ",
          flush=True)
    for source, ours, theirs in sorted(bad, key=lambda each: len(each[0]))[:int(os.environ.get("DPO_TEST_SHOWN", "5"))]:
        print(f"  {source!r}\n    dpo:      {ours}\n    expected: {theirs!r}")
    return len(bad)


# Names of Jinja2 and Python, and templates that use one of them.
ENVIRONMENT = _compile_jinja_template("").environment
NAMES_OF_JINJA = [
    ("{{ s|NAME }}", ENVIRONMENT.filters), ("{{ [n]|select('NAME')|list }}", ENVIRONMENT.tests), ("{{ NAME is defined }}", ENVIRONMENT.globals),
    ("{{ s.NAME is defined }}", dir(str)), ("{{ nums.NAME is defined }}", dir(list)), ("{{ n.NAME is defined }}", dir(int)),
]


def check_names():
    """Every name of Jinja2 and Python is supported, or rejected by name."""
    templates = [source.replace("NAME", name) for source, names in NAMES_OF_JINJA for name in names]
    for source, ours in zip(templates, probe_lines(templates)):
        theirs = rendered(source)
        known = "does not support" in ours.get("error", "") or ours.get("text") == theirs or isinstance(theirs, Exception)
        assert known or "is defined" not in source, f"{source}: {ours}, expected {theirs}"
        assert not ours.get("error", "").startswith("no "), f"{source}: {ours}"
    page = (Path(os.environ["DPO_SOURCE_DIR"]) / "docs" / "chat.md").read_text(encoding="utf-8")
    aliases = {"eq", "ge", "greaterthan", "gt", "le", "lessthan", "lt", "ne"}
    documented = [name for names in (ENVIRONMENT.filters, ENVIRONMENT.tests, ENVIRONMENT.globals, dir(str)) for name in names
                  if name.isidentifier() and name[0] != "_" and name not in aliases]
    missing = [name for name in documented if f"`{name}`" not in page]
    assert not missing, f"docs/chat.md does not name {missing}"
    print(f"{len(templates)} names", flush=True)


CASES_OF_CHARACTERS = "{% for c in s %}{{ c.upper() }}|{{ c.lower() }}|{{ ('a' ~ c ~ 'b').title() }}|{{ c|capitalize }}|{{ c.isdigit() }}{{ c.isalnum() }}{% endfor %}"


def check_characters():
    """Compares the case and class of every character that has a case or is a number."""
    wanted = [c for c in map(chr, range(0x80, 0x110000)) if c.upper() != c or c.lower() != c or unicodedata.category(c) in ("Lt", "Lm", "Nd", "Nl", "No")]
    lines = [json.dumps({"template": CASES_OF_CHARACTERS, "variables": {"s": wanted[at:at + 500]}}) for at in range(0, len(wanted), 500)]
    done = subprocess.run([os.environ["DPO_CHAT_PROBE"]], input="\n".join(lines).encode(), capture_output=True, check=True)
    ours = "".join(json.loads(line)["text"] for line in done.stdout.decode().splitlines())
    theirs = "".join(f"{c.upper()}|{c.lower()}|{('a' + c + 'b').title()}|{c.capitalize()}|{c.isdigit()}{c.isalnum()}" for c in wanted)
    assert ours == theirs, next((a, b) for a, b in zip(ours.split("|"), theirs.split("|")) if a != b)
    print(f"{len(wanted)} characters", flush=True)


GENERATION = ("{% for m in messages %}{{ m.role }}: {% generation %}{{ m.content }}é{% endgeneration %}\n{% endfor %}", {
    "messages": [{"role": "user", "content": "ü😀"}, {"role": "assistant", "content": "b"}]})


def check_generation_marks():
    source, variables = GENERATION
    text, marks = reference_marks(source, variables)
    line = json.dumps({"template": source, "variables": variables}) + "\n"
    done = subprocess.run([os.environ["DPO_CHAT_PROBE"]], input=line.encode(), capture_output=True, check=True)
    ours = json.loads(done.stdout)
    in_bytes = [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in marks]
    assert ours == {"text": text, "generated": in_bytes}, f"{ours} {in_bytes}"


def write(name, text):
    return lambda folder: (folder / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")


def several(*writers):
    return lambda folder: [each(folder) for each in writers]


HI = {"messages": [{"role": "user", "content": "hi"}]}
TOKENS = {"bos_token": "<s>", "eos_token": {"content": "</s>", "__type": "AddedToken"}, "pad_token": None}
NAMED = [{"name": "default", "template": "default"}, {"name": "tool_use", "template": "tools"}]
# (name, files, input, expected text)
FOLDER_CASES = [
    ("text", write("tokenizer_config.json", {**TOKENS, "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}"}), HI, "<s>hi</s>"),
    ("named", write("tokenizer_config.json", {"chat_template": NAMED}), HI, "default"),
    ("named_tools", write("tokenizer_config.json", {"chat_template": NAMED}), {**HI, "tools": []}, "tools"),
    ("no_tools", write("tokenizer_config.json", {"chat_template": NAMED}), {**HI, "tools": None}, "default"),
    ("file", several(write("tokenizer_config.json", {**TOKENS, "chat_template": "config"}), write("chat_template.jinja", "file {{ bos_token }}\n")), HI, "file <s>"),
    ("processor", several(write("tokenizer_config.json", TOKENS), write("chat_template.json", {"chat_template": "processor"})), HI, "processor"),
    ("given", write("tokenizer_config.json", {**TOKENS, "chat_template": "{{ bos_token }}{{ tools }}{{ add_generation_prompt }}"}), {**HI, "bos_token": "B"}, "BNoneFalse"),
    ("aliases", write("chat_template.jinja", "{{ messages|tojson }}"), {"messages": [{"role": "assistant", "thinking": "t"}]},
     '[{"thinking": "t", "role": "assistant", "reasoning_content": "t"}]'),
]
