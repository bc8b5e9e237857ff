#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// Writes JSON like Python's json.dumps.
class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    spend();
    const Level level;
    switch (value.kind()) {
      case Kind::kNone: out_ += "null"; break;
      case Kind::kBool: out_ += value.integer() ? "true" : "false"; break;
      case Kind::kInt: out_ += std::to_string(value.integer()); break;
      case Kind::kFloat: out_ += float_text(value.number()); break;
      case Kind::kString: write_text(value.string()); break;
      case Kind::kList:
      case Kind::kTuple: write_items('[', ']', value.items(), [&](const Value& item) { write(item); }); break;
      case Kind::kDict: write_dict(value.dict()); break;
      default: throw Failure(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string float_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_repr(number);
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return key.string();
      case Kind::kNone: return "null";
      case Kind::kBool: return key.integer() ? "true" : "false";
      case Kind::kInt: return std::to_string(key.integer());
      case Kind::kFloat: return float_text(key.number());
      default:
        throw Failure(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }

  void new_line() {
    charge_text(out_.size(), style_.indent->size() * static_cast<std::size_t>(depth_));
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  void write_separator(const std::string& separator) {
    charge_text(out_.size(), separator.size());
    out_ += separator;
  }

  template <class Items, class Write>
  void write_items(char open, char close, const Items& items, const Write& write_item) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) write_separator(style_.item_separator);
      first = false;
      if (style_.indent) new_line();
      write_item(item);
    }
    --depth_;
    if (style_.indent && !first) new_line();
    out_ += close;
  }

  void write_dict(const Dict& dict) {
    const auto write_entry = [&](const Dict::Entry& entry) {
      write_text(key_text(entry.first));
      write_separator(style_.key_separator);
      write(entry.second);
    };
    if (!style_.sort_keys) return write_items('{', '}', dict.entries(), write_entry);
    std::vector<Dict::Entry> entries = dict.entries();
    std::stable_sort(entries.begin(), entries.end(), [](const Dict::Entry& a, const Dict::Entry& b) {
      return ordered(a.first, Order::kLess, b.first);
    });
    write_items('{', '}', entries, write_entry);
  }

  void write_text(std::string_view text) {
    charge_text(out_.size(), text.size());
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      write_character(point.code, text.substr(at, point.length));
      at += point.length;
    }
    out_ += '"';
  }

  void write_character(char32_t code, std::string_view bytes) {
    switch (code) {
      case '"': out_ += "\\\""; return;
      case '\\': out_ += "\\\\"; return;
      case '\n': out_ += "\\n"; return;
      case '\r': out_ += "\\r"; return;
      case '\t': out_ += "\\t"; return;
      case '\f': out_ += "\\f"; return;
      case '\b': out_ += "\\b"; return;
      default: break;
    }
    if (code >= 0x20 && (code < 0x7F || !style_.ensure_ascii)) {
      out_ += bytes;
    } else if (code < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
    } else {
      const auto rest = static_cast<std::uint32_t>(code) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  const JsonStyle& style_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

}  // namespace dpo::text::jinja
