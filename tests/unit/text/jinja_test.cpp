#include <sys/resource.h>

#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/jinja/characters.h"
#include "text/jinja/parser.h"
#include "text/jinja/template.h"
#include "text/jinja/unsupported.h"

namespace dpo::text::jinja {
namespace {

Dict variables() {
  return parse_json(R"({"n": 7, "s": "naïve", "nums": [3, 1, 2], "d": {"a": 1, "items": [1]}, "x": "outer",
                        "rows": [{"k": "b", "v": 1}, {"k": "a"}]})")
      .dict();
}

std::string render(const std::string& source, const Limits& limits = {}) {
  return Template(source).render(variables(), limits).text;
}

std::string error_of(const std::string& source, const Limits& limits = {}) {
  try {
    render(source, limits);
  } catch (const SyntaxError& error) {
    return "syntax " + std::to_string(error.at.line) + ":" + std::to_string(error.at.column) + " " +
           error.what();
  } catch (const RenderError& error) {
    return std::to_string(error.at.line) + ":" + std::to_string(error.at.column) + " " + error.what();
  }
  return "no error";
}

TEST(Jinja, TrimsBlocksAsTransformersDoes) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a  {%- if true -%}  b  {%- endif -%}  c"), "abc");
  EXPECT_EQ(render("  {%+ if true +%}\nx{% endif %}"), "  \nx");
  EXPECT_EQ(render("  {{ n }}\n{# c #}\ny\r\n\r\n"), "  7\ny\n");
  EXPECT_EQ(render("{% raw %}\n{{ n }}{% endraw %}\nz"), "\n{{ n }}z");
}

TEST(Jinja, PrintsValuesAsPython) {
  EXPECT_EQ(render("{{ [1, 2.0, none, true, 'it\\'s', (1,)] }}"), "[1, 2.0, None, True, \"it's\", (1,)]");
  EXPECT_EQ(render("{{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 1 / 2 }}"),
            "1e+16 1000000000000000.0 1e-05 0.30000000000000004 -4 2 0.5");
  EXPECT_EQ(render("{{ d }} {{ {} }} {{ 'ü\\n' | list }}"), "{'a': 1, 'items': [1]} {} ['ü', '\\n']");
  EXPECT_EQ(render("{{ missing }}|{{ d.missing is defined }}"), "|False");
}

TEST(Jinja, WritesJsonAsPython) {
  EXPECT_EQ(render("{{ {'a': [1.0, 'é\\x01'], 'b': none}|tojson }}"),
            R"({"a": [1.0, "é\u0001"], "b": null})");
  EXPECT_EQ(render("{{ {'b': [], 'a': {}}|tojson(indent=2, sort_keys=true) }}"),
            "{\n  \"a\": {},\n  \"b\": []\n}");
  EXPECT_EQ(render("{{ ['é', '😀']|tojson(ensure_ascii=true, separators=(',', ':')) }}"),
            R"(["\u00e9","\ud83d\ude00"])");
}

TEST(Jinja, IndexesTextByCodePoint) {
  EXPECT_EQ(render("{{ s[2] }}{{ s[-3:] }}{{ s[::-1] }}{{ s|length }}{{ s.find('v') }}"), "ïïveevïan53");
}

TEST(Jinja, AttributesComeBeforeItemsAndItemsBeforeAttributes) {
  EXPECT_EQ(render("{{ d['items'] }}{{ d.items() | list }}"), "[1][('a', 1), ('items', [1])]");
  EXPECT_EQ(render("{{ d.__class__ }}{{ d.nosuch }}"), "");
  EXPECT_EQ(error_of("{{ nums.append(1) }}"), "1:15 access to attribute 'append' of 'list' object is unsafe");
}

TEST(Jinja, VariablesOfLoopsStayInLoops) {
  EXPECT_EQ(render("{% for i in nums %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{{ i }}"), "312outer");
  EXPECT_EQ(
      render(
          "{% set ns = namespace(k=0) %}{% for i in nums %}{% set ns.k = ns.k + i %}{% endfor %}{{ ns.k }}"),
      "6");
  EXPECT_EQ(render("{% for i in nums %}{{ x }}{% endfor %}{% set x = 1 %}{{ x }}"), "1");
  EXPECT_EQ(render("{% if false %}{% set x = 1 %}{% endif %}{{ x }}"), "outer");
  EXPECT_EQ(render("{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"), "1outer");
}

TEST(Jinja, LoopsKnowWhereTheyAre) {
  EXPECT_EQ(render("{% for i in nums %}{{ loop.index }}/{{ loop.length }}{{ loop.nextitem }}"
                   "{{ '.' if loop.last }} {% endfor %}"),
            "1/31 2/32 3/3. ");
  EXPECT_EQ(render("{% for i in nums if i > 1 %}{{ loop.index }}{{ loop.revindex }}{{ i }} {% endfor %}"),
            "123 212 ");
  EXPECT_EQ(
      render("{% for i in nums %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}"),
      "3");
  EXPECT_EQ(render("{% for i in [] %}{% else %}none{% endfor %}"), "none");
  // Jinja2 does not count an iteration that `continue` ends.
  EXPECT_EQ(render("{% for i in nums %}{% continue %}{% else %}else{% endfor %}"), "else");
}

TEST(Jinja, MacrosTakeArgumentsAndCallers) {
  EXPECT_EQ(
      render("{% macro m(a, b=a + 1) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(b=3, a=2) }}"),
      "121523");
  EXPECT_EQ(
      render("{% macro m() %}<{{ caller(2) }}>{% endmacro %}{% call(i) m() %}{{ i }}{{ x }}{% endcall %}"),
      "<2outer>");
  EXPECT_EQ(render("{% macro f(i) %}{{ i }}{{ f(i - 1) if i }}{% endmacro %}{{ f(3) }}"), "3210");
  EXPECT_EQ(error_of("{% macro m(a) %}{% endmacro %}\n {{ m(1, 2) }}"),
            "2:6 macro 'm' takes not more than 1 argument(s)");
}

TEST(Jinja, FiltersReadLazily) {
  EXPECT_EQ(render("{% set g = nums|map('nosuch') %}ok"), "ok");
  EXPECT_EQ(render("{{ rows|map(attribute='v')|first }}{{ rows|selectattr('v')|list|length }}"), "11");
  EXPECT_EQ(render("{% set g = nums|select %}{{ g|list }}{{ g|list }}"), "[3, 1, 2][]");
  EXPECT_EQ(error_of("{{ nums|select|length }}"), "1:16 object of type 'generator' has no len()");
}

TEST(Jinja, MistakesNameLineAndColumn) {
  EXPECT_EQ(error_of("a\n é {% if %}"), "syntax 2:10 expected an expression, got '%}'");
  EXPECT_EQ(error_of("{% for i in nums %}"), "syntax 1:20 expected one of the tags: endfor, else");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), "1:8 unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(error_of("\n{{ raise_exception('stop') }}"), "2:19 stop");
  EXPECT_EQ(error_of("{{ missing.deep }}"), "1:11 'missing' is undefined");
  EXPECT_EQ(error_of("{{ 1|nosuch }}"), "syntax 1:6 no filter named 'nosuch'");
  EXPECT_EQ(error_of("{% if n == 0 %}{{ 1|nosuch }}{% endif %}"), "no error");
  EXPECT_EQ(error_of("{% break %}"), "syntax 1:4 break and continue must be in a loop");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"), "1:24 an integer does not fit into 64 bits");
}

TEST(Jinja, TextThatIsAddedToSafeTextIsEscaped) {
  EXPECT_EQ(render("{{ '<a>'|safe + '<b>' + s }}{{ '<c>' ~ '<d>'|safe }}"), "<a>&lt;b&gt;naïve<c><d>");
  EXPECT_EQ(render("{% set x = d|tojson|safe %}{{ x }}{{ x|trim|length }}"), "{\"a\": 1, \"items\": [1]}22");
  EXPECT_EQ(error_of("{{ ('a'|safe).strip() }}"),
            "1:14 methods of a text from the filter safe are not supported");
}

TEST(Jinja, FormatsTexts) {
  EXPECT_EQ(
      render("{{ '%s|%5s|%-5s|%05d|%.2f|%g|%e|%%|%r' % ('a', 'b', 'c', -42, 3.14159, 0.0001, 1e7, 'q') }}"),
      "a|    b|c    |-0042|3.14|0.0001|1.000000e+07|%|'q'");
  EXPECT_EQ(render("{{ '{} {:>3}|{:^5}|{:03d}|{:,}|{:.1f}|{:.0%}|{{}}'.format('a', 'b', 'ï', 7, 1234567, "
                   "2.25, 0.5) }}"),
            "a   b|  ï  |007|1,234,567|2.2|50%|{}");
  EXPECT_EQ(render("{{ '{1}{0}{k}'.format(1, 2, k='é') }}{{ '%(a)s %(a)d' % d }}"), "21é1 1");
  EXPECT_EQ(error_of("{{ '%x' % 1 }}"), "1:9 the format '%x' is not supported");
  EXPECT_EQ(error_of("{{ '{:+d}'.format(1) }}"), "1:18 the format specification '+d' is not supported");
  EXPECT_EQ(error_of("{{ '{0.real}'.format(1) }}"), "1:21 the format field '{0.real}' is not supported");
}

// Returns a template that uses a name of Jinja2 or Python.
std::string template_with(std::string_view kind, const std::string& name) {
  if (kind == "tag") return "{% " + name + " x %}";
  if (kind == "loop modifier") return "{% for i in nums " + name + " %}{% endfor %}";
  if (kind == "variable") return "{% macro m() %}{{ " + name + " }}{% endmacro %}";
  if (kind == "macro parameter") return "{% macro m(" + name + "=1) %}{% endmacro %}";
  if (kind == "loop attribute") return "{% for i in nums %}{{ loop." + name + " }}{% endfor %}";
  if (kind == "macro attribute") return "{% macro m() %}{% endmacro %}{{ m." + name + " }}";
  if (kind == "operator") return "{{ n " + name + " 2 }}";
  if (kind == "function") return "{{ " + name + "() }}";
  if (kind == "filter") return "{{ s|" + name + " }}";
  if (kind == "test") return "{{ s is " + name + " }}";
  if (kind == "text method") return "{{ s." + name + "() }}";
  return "{{ n." + name + " }}";
}

TEST(Jinja, RejectsUnsupportedNames) {
  for (const auto& [kind, names] : unsupported_names()) {
    for (const std::string_view name : split_space(names)) {
      const std::string source = template_with(kind, std::string(name));
      EXPECT_NE(error_of(source).find(unsupported(kind, name)), std::string::npos)
          << source << ": " << error_of(source);
    }
  }
  EXPECT_EQ(error_of("{{ s|xmlattr }}"),
            "syntax 1:6 the template uses the filter xmlattr, which dpo does not support");
  EXPECT_EQ(error_of("{{ nums|map('wordcount')|list }}"),
            "1:26 the template uses the filter wordcount, which dpo does not support");
  EXPECT_EQ(error_of("{% if n == 0 %}{{ s|xmlattr }}{% endif %}"), "no error");
  EXPECT_EQ(render("{{ cycler is defined }}"), "True");
  EXPECT_EQ(render("{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}"), "1");
}

// Returns the peak memory of this process in bytes.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

TEST(Jinja, RefusesLargeValuesBeforeTheyTakeMemory) {
  const std::int64_t before = peak_memory();
  for (const char* const asks :
       {"'%1000000000d' % 1", "'%-1000000000s' % 'x'", "'%.1000000000f' % 1", "'{:1000000000}'.format('x')",
        "'{:01000000000}'.format(1)", "'{:.1000000000f}'.format(1.5)", "'x'|indent(1000000000, true)",
        "'x' * 1000000000", "[1] * 1000000000", "[1]|tojson(indent=1000000000)",
        "('y' * 60000000)|replace('', 'z' * 60000000)", "('y' * 60000000).join('abc')",
        "['y' * 30000000, 'y' * 30000000, 'y' * 30000000]|join", "['y' * 60000000] * 2 ~ ''",
        "strftime_now('%1000000000d')", "('y,' * 30000000).split(',')|length"})
    EXPECT_NE(error_of(std::string("{{ ") + asks + " }}").find("too many or too large values"),
              std::string::npos)
        << asks;
  constexpr std::int64_t kMost = 1 << 30;
  EXPECT_LT(peak_memory() - before, kMost);
  EXPECT_EQ(render("{{ '%.1000000000s' % 'xyz' }}"), "xyz");
}

TEST(Jinja, TemplatesAreBounded) {
  const Limits small{.steps = 10000, .bytes = 1 << 20, .output = 1000};
  EXPECT_EQ(error_of("{% for i in range(99999) %}{{ i }}{% endfor %}", {.steps = 10000}),
            "1:4 the template takes too many steps");
  EXPECT_EQ(error_of("{{ 'x' * 2000000 }}", small), "1:8 the template makes too many or too large values");
  EXPECT_EQ(error_of("{{ 'x' * 2000 }}", small), "1:8 the template writes too much text");
  EXPECT_EQ(error_of("{{ '%999999d' % 1 }}", {.bytes = 1000}),
            "1:15 the template makes too many or too large values");
  EXPECT_EQ(error_of("{{ '{:>99999}'.format(1) }}", {.bytes = 1000}).substr(0, 5), "1:22 ");
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            "1:20 macros call each other too deeply");
  EXPECT_NE(
      error_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("too deeply"),
      std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  EXPECT_NE(error_of("{{ " + sum + " }}").find("too long"), std::string::npos);
  EXPECT_NE(
      error_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}")
          .find("nested too deeply"),
      std::string::npos);
  EXPECT_NE(
      error_of(
          "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
          "{{ ns.l }}",
          small)
          .find("too many"),
      std::string::npos);
}

TEST(Jinja, NamespacesAndMacrosThatReferToThemselvesAreFreed) {
  EXPECT_EQ(render("{% set a = namespace() %}{% set a.a = a %}{% macro m() %}{{ m is defined }}{% endmacro %}"
                   "{% set a.m = m %}{{ a.m() }}"),
            "True");
  EXPECT_NE(error_of("{% set a = namespace() %}{% set a.a = a %}{{ a }}").find("too deeply"),
            std::string::npos);
}

TEST(Jinja, GenerationBlocksMarkBytes) {
  const Rendered rendered =
      Template("é{% for i in nums %}{% generation %}ü{{ i }}{% endgeneration %}.{% endfor %}")
          .render(variables());
  EXPECT_EQ(rendered.text, "éü3.ü1.ü2.");
  EXPECT_EQ(rendered.generated, (std::vector<std::pair<std::size_t, std::size_t>>{{2, 5}, {6, 9}, {10, 13}}));
}

TEST(JinjaValue, KeepsWhatJsonSays) {
  const Value value = parse_json(R"({"b": 1, "a": [1.0, true, null, "\u00e9"], "b": 2})");
  EXPECT_EQ(value.dict().entries()[0].first.string(), "b");
  EXPECT_EQ(value.find("b")->integer(), 2);
  EXPECT_EQ(value.find("a")->items()[0].kind(), Kind::kFloat);
  EXPECT_EQ(value.find("a")->items()[3].string(), "é");
  EXPECT_THROW(parse_json("{"), Failure);
  EXPECT_THROW(parse_json("[18446744073709551615]"), Failure);
  EXPECT_THROW(parse_json("[99999999999999999999999]"), Failure);
  EXPECT_THROW(parse_json(std::string(5000, '[') + std::string(5000, ']')), Failure);
}

// Texts with changed, lost and repeated bytes are JSON to our parser if they are to the other parser.
TEST(JinjaJson, IsReadAsTheOtherParserReadsIt) {
  const std::string seed =
      R"( {"a": [1, -2.5e-3, 0, -0, 1E+2, true, false, null], "\u00e9\ud83d\ude00\n\"\\": "é\/", "": {}, "x": []} )";
  const std::string bytes = "{}[],:\"\\u0123456789abdefnrt.eE+- \n\t\x01\x80\xc3";
  std::mt19937 random(1);
  const auto pick = [&](std::size_t size) { return random() % size; };
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    for (std::size_t changes = pick(3); changes > 0; --changes) {
      const std::size_t at = pick(text.size());
      switch (pick(3)) {
        case 0: text[at] = bytes[pick(bytes.size())]; break;
        case 1: text.erase(at, 1 + pick(3)); break;
        default: text.insert(at, 1, bytes[pick(bytes.size())]);
      }
    }
    const nlohmann::ordered_json other = nlohmann::ordered_json::parse(text, nullptr, false);
    try {
      const std::string ours = Template("{{ v | tojson }}").render({{"v", parse_json(text)}}).text;
      EXPECT_EQ(nlohmann::ordered_json::parse(ours).dump(), other.dump()) << text;
    } catch (const Failure& failure) {
      EXPECT_TRUE(other.is_discarded()) << text << ": " << failure.what();
    }
  }
}

TEST(JinjaValue, DictsFindKeysAsPython) {
  Dict dict;
  for (int i = 0; i < 40; ++i) dict.set(i, i * i);
  dict.set(1.0, "one");
  dict.set(true, "true");
  EXPECT_EQ(dict.size(), 40u);
  EXPECT_EQ(dict.find(Value(1))->string(), "true");
  EXPECT_EQ(dict.find(Value(39))->integer(), 39 * 39);
  EXPECT_EQ(dict.find(std::string_view("x")), nullptr);
  EXPECT_THROW(dict.set(Value::list({}), 1), Failure);
}

}  // namespace
}  // namespace dpo::text::jinja
