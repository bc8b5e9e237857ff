#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// A replacement field: {name!conversion:spec}.
struct Field {
  std::string name;
  char conversion = 0;
  std::string spec;
};

bool is_all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Formats like Python's string.Formatter, with the sandbox's access to attributes and items.
class StringFormatter {
 public:
  StringFormatter(const Arguments& arguments, bool markup) : arguments_(arguments), markup_(markup) {}

  std::string format(std::string_view text, int depth) {
    if (depth < 0) throw Failure("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      if (c != '{' && c != '}') {
        out += c;
        continue;
      }
      const bool doubled = at < text.size() && text[at] == c;
      if (doubled) {
        out += c;
        ++at;
      } else if (c == '}') {
        throw Failure("Single '}' encountered in format string");
      } else {
        const std::string field = format_field(read_field(text, at), depth);
        charge_text(out.size(), field.size());
        out += field;
      }
    }
    return out;
  }

 private:
  // Reads the field whose brace is before `at`, and moves `at` after its end.
  static Field read_field(std::string_view text, std::size_t& at) {
    if (at >= text.size()) throw Failure("Single '{' encountered in format string");
    Field field;
    int open = 1;
    bool in_brackets = false;
    const std::size_t start = at;
    std::size_t end_of_name = std::string_view::npos;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '[' && end_of_name == text.npos) in_brackets = true;
      if (c == ']') in_brackets = false;
      if ((c == ':' || c == '!') && !in_brackets && end_of_name == text.npos) end_of_name = at;
      if (c == '{' && end_of_name == text.npos && !in_brackets) throw Failure("unexpected '{' in field name");
      if (in_brackets) continue;
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (open != 0) throw Failure("expected '}' before end of string");
    const std::size_t end = at++;
    end_of_name = std::min(end_of_name, end);
    field.name = text.substr(start, end_of_name - start);
    std::string_view rest = text.substr(end_of_name, end - end_of_name);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) throw Failure("end of string while looking for conversion specifier");
      field.conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw Failure("expected ':' after conversion specifier");
    }
    if (!rest.empty()) field.spec = rest.substr(1);
    return field;
  }

  std::string format_field(Field field, int depth) {
    if (field.name.empty()) {
      if (numbering_ == Numbering::kManual)
        throw Failure("cannot switch from manual field specification to automatic field numbering");
      numbering_ = Numbering::kAutomatic;
      field.name = std::to_string(next_++);
    } else if (is_all_digits(field.name)) {
      if (numbering_ == Numbering::kAutomatic && next_ > 0)
        throw Failure("cannot switch from manual field specification to automatic field numbering");
      numbering_ = Numbering::kManual;
    }
    Value value = find_field(field.name);
    if (field.conversion == 's')
      value = str(value);
    else if (field.conversion == 'r')
      value = repr(value);
    else if (field.conversion != 0)
      throw Failure(fmt::format("Unknown conversion specifier {}", field.conversion));
    const std::string spec = format(field.spec, depth - 1);
    if (!markup_) return format_value(value, spec);
    if (value.is_markup() && !spec.empty()) throw Failure("Unsupported format specification for Markup.");
    return value.is_markup() ? value.string() : escape_html(format_value(value, spec));
  }

  Value find_argument(const std::string& name) const {
    if (is_all_digits(name)) {
      const std::size_t index = name.size() < 10 ? std::stoull(name) : arguments_.positional.size();
      if (index >= arguments_.positional.size()) throw Failure("Replacement index out of range");
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    throw Failure(fmt::format("no argument '{}' to format", name));
  }

  // Evaluates a field name: name.attribute[item]...
  Value find_field(const std::string& name) const {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = find_argument(name.substr(0, at));
    while (at < name.size()) {
      spend();
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) throw Failure("Empty attribute in format string");
        value = get_attribute(value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == name.npos) throw Failure("Missing ']' in format string");
        if (end == at + 1) throw Failure("Empty attribute in format string");
        const std::string key = name.substr(at + 1, end - at - 1);
        value = get_item(value, is_all_digits(key) && key.size() < 18 ? Value(std::stoll(key)) : Value(key));
        at = end + 1;
      } else {
        throw Failure("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  enum class Numbering { kOpen, kAutomatic, kManual };

  const Arguments& arguments_;
  const bool markup_;
  Numbering numbering_ = Numbering::kOpen;
  std::size_t next_ = 0;
};

}  // namespace

std::string format_string(const Value& text, const Arguments& arguments) {
  return StringFormatter(arguments, text.is_markup()).format(text.string(), 2);
}

}  // namespace dpo::text::jinja
