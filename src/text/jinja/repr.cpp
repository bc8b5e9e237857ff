#include <cmath>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

void append_repr(std::string& out, const Value& value);

void append_items(std::string& out, const Values& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, item);
  }
}

void append_dict(std::string& out, const Dict& dict) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, key);
    out += ": ";
    append_repr(out, value);
  }
  out += '}';
}

void append_escape(std::string& out, char32_t code) {
  const auto number = static_cast<std::uint32_t>(code);
  switch (code) {
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default:
      out += number < 0x100     ? fmt::format("\\x{:02x}", number)
             : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                : fmt::format("\\U{:08x}", number);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char32_t quote = double_quotes ? '"' : '\'';
  out += static_cast<char>(quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.code == quote || point.code == '\\') out += '\\';
    if (is_printable(point.code))
      out += text.substr(at, point.length);
    else
      append_escape(out, point.code);
    at += point.length;
  }
  out += static_cast<char>(quote);
}

void append_repr(std::string& out, const Value& value) {
  spend();
  const Level level;
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: out += "Undefined"; break;
    case Kind::kNone: out += "None"; break;
    case Kind::kBool: out += value.integer() ? "True" : "False"; break;
    case Kind::kInt: out += std::to_string(value.integer()); break;
    case Kind::kFloat: out += float_repr(value.number()); break;
    case Kind::kString:
      charge_text(out.size(), value.string().size());
      if (value.is_markup()) out += "Markup(";
      append_quoted(out, value.string());
      if (value.is_markup()) out += ")";
      break;
    case Kind::kList:
      out += '[';
      append_items(out, value.items());
      out += ']';
      break;
    case Kind::kTuple:
      out += '(';
      append_items(out, value.items());
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Kind::kDict: append_dict(out, value.dict()); break;
    case Kind::kObject: out += value.object().repr(); break;
  }
}

}  // namespace

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.is_markup() ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kObject: return value.object().type_name();
  }
  return "";
}

void refuse_undefined(const Value& value) { throw Failure(value.origin().message()); }

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  const std::string text = fmt::format("{}", number);  // the shortest digits that give the same number
  return text.find_first_of(".ein") == text.npos ? text + ".0" : text;
}

void append_str(std::string& out, const Value& value) {
  if (value.is_string()) {
    charge_text(out.size(), value.string().size());
    out += value.string();
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

std::string str(const Value& value) {
  std::string out;
  append_str(out, value);
  return out;
}

std::string repr(const Value& value) {
  std::string out;
  append_repr(out, value);
  return out;
}

}  // namespace dpo::text::jinja
