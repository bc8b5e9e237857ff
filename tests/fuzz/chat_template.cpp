// An input is a template. It is rejected with a position, or renders a conversation within its limits to
// valid UTF-8, twice to the same text.
#include "allocations.h"
#include "base/utf8.h"
#include "target.h"
#include "text/jinja/template.h"

namespace fuzz::chat_template {
namespace {

namespace jinja = dpo::text::jinja;

constexpr const char* kVariables =
    R"({"messages": [{"role": "system", "content": "Be é."}, {"role": "user", "content": "Hi"},
  {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
  {"role": "tool", "content": [{"type": "text", "text": "<b>"}]}], "tools": [{"function": {"name": "f"}}],
  "add_generation_prompt": true, "bos_token": "<s>", "n": 3})";

bool try_input(std::string_view input) {
  static const jinja::Value kInput = jinja::parse_json(kVariables);
  constexpr jinja::Limits kLimits{.steps = 20000, .bytes = 4 << 20, .output = 1 << 20};
  try {
    const jinja::Template parsed{std::string(input)};
    // Texts are copied and grow by doubling, so rendering holds more than the values' own bytes.
    constexpr std::size_t kMostHeld = 8 * (kLimits.bytes + kLimits.output);
    const AllocationCount allocations;
    const jinja::Rendered rendered = parsed.render(kInput.dict(), kLimits);
    if (allocations.peak() > kMostHeld)
      fail("memory", std::to_string(allocations.peak()) + " bytes were held while rendering");
    if (!dpo::is_valid_utf8(rendered.text)) fail("text that is not UTF-8", rendered.text);
    if (rendered.text.size() > kLimits.output) fail("more text than allowed");
    for (const auto& [begin, end] : rendered.generated)
      if (begin > end) fail("a part that ends before it begins");
    if (input.find("strftime") == input.npos && parsed.render(kInput.dict(), kLimits).text != rendered.text)
      fail("another text the second time", rendered.text);
    return true;
  } catch (const jinja::SyntaxError& error) {
    if (error.at.line == 0 || error.at.column == 0) fail("no position", error.what());
  } catch (const jinja::RenderError& error) {
    if (error.at.line == 0 || error.at.column == 0) fail("no position", error.what());
  }
  return false;
}

const std::string kTemplates[] = {
    "{% for message in messages %}{{ '<|' + message.role + '|>\\n' }}{{ message['content'] | trim }}{% if "
    "not loop.last %}\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{%- macro m(a, b=none) -%}{{ a|string }}{{ caller(1) if caller }}{{ b }}{%- endmacro -%}{{ m(1, "
    "b=2) }}{% call(x) m(3) %}{{ x }}{% endcall %}",
    "{% set ns = namespace(a=[], i=0) %}{% for t in tools %}{% set ns.a = ns.a + [t|tojson(indent=2)] %}{% "
    "set ns.i = ns.i + 1 %}{% endfor %}{{ ns.a|join('\\n') }}{{ ns }}",
    "{% for k, v in messages[2].tool_calls[0].function.arguments.items() if v is not none %}{{ "
    "loop.index }}{{ loop.nextitem }}{{ k ~ v }}{% else %}x{% endfor %}",
    "{% filter upper %}{{ ('<'|safe) + messages[1].content }}{% endfilter %}{% set x | "
    "replace('a', 'b') %}abc{% endset %}{{ x }}",
    "{{ '%05.2f|%-5s|%r' % (n, 'a', [1]) }}{{ '{0:>5}|{x:^9}|{0:.2%}'.format(1, x='é') }}{{ "
    "messages|map(attribute='role')|unique|sort|list }}",
    "{% generation %}{{ messages[1].content[::-1].split('i', 1) }}{% endgeneration %}{% raw %}{{ x }}{% "
    "endraw %}{# c #}",
    "{% for i in range(n) %}{% if i is odd %}{% continue %}{% elif i > 1 %}{% break %}{% endif %}{{ i }}{% "
    "endfor %}{{ messages|sort(attribute='role')|list }}",
    "{{ (messages|selectattr('content', 'string')|list|length) * 3 // -2 % 5 }}{{ "
    "'aXb'|title|indent(2, true)|replace('X', 'é') }}",
};

const std::string kTokens[] = {"{{",
                               "}}",
                               "{%",
                               "%}",
                               "{%-",
                               "-%}",
                               "{#",
                               "#}",
                               "(",
                               ")",
                               "[",
                               "]",
                               "{",
                               "}",
                               "|",
                               "~",
                               "**",
                               "//",
                               "'",
                               "\"",
                               "\\",
                               ".",
                               ",",
                               ":",
                               " if ",
                               " else ",
                               " for ",
                               " in ",
                               " is ",
                               " not ",
                               " and ",
                               " or ",
                               " set ",
                               "endfor",
                               "endif",
                               "endmacro",
                               "endcall",

                               "loop",

                               "caller()",
                               "namespace(",
                               "messages",
                               "ns.",
                               "ns",
                               "range(99999)",
                               "m(",
                               "tojson",
                               "|map('",
                               "|list",
                               "|sort",
                               "|join",
                               "|length",

                               "|unique",

                               "'x' * 99999999",
                               "1e308",
                               "9223372036854775807",
                               "-1",
                               "::-1",
                               "%s",
                               "{:>99}",
                               "%999999d",
                               "{{ '%3999999d' % 1 }}",
                               "{{ '%1000000000d' % 1 }}",
                               "{{ '%.2000000f' % 1 }}",
                               "{{ '{:>2000000}'.format(1) }}",

                               "|indent(999999)",
                               "|tojson(indent=999999)",

                               ".join(messages|map(attribute='role'))",
                               "é",
                               "😀",
                               "\xFF",
                               "\n",
                               "self",

                               "kwargs",
                               "|safe",
                               "loop.",
                               "{{ '{:01000000}'.format(1) }}",
                               "%(role)s",
                               "raise_exception('a')",
                               "{% break %}",
                               "dict(",

                               ".format(",
                               ".split(",
                               ".items()",
                               "__class__",
                               "none",
                               "{% set ns.x = ns %}",
                               "{% set ns.a = [ns.a, loop] %}",
                               "|reverse",
                               "strftime_now('%Y')"};

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kTemplates);
  if (mutator.below(3) == 0) text += mutator.pick(kTemplates);
  mutator.mutate(text, kTokens, 8);
  return text;
}

const Registered kTarget({"chat_template", make, try_input});

}  // namespace
}  // namespace fuzz::chat_template
