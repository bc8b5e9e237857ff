// The original reads HTML with BeautifulSoup on Python's html.parser. Their treatment of unclosed tags, white
// space and character references shows in the text, so this file reproduces it.
#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/utf8.h"
#include "data/formats.h"
#include "data/html_entities.h"
#include "data/html_text.h"

namespace dpo::data {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Elements without content, which have no end tag.
constexpr std::array<std::string_view, 24> kVoid = {
    "area",     "base",    "br",       "col",   "embed", "hr",      "img",    "input",
    "keygen",   "link",    "menuitem", "meta",  "param", "source",  "track",  "wbr",
    "basefont", "bgsound", "command",  "frame", "image", "isindex", "nextid", "spacer"};
bool is_hex(char c) { return is_ascii_digit(c) || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F'); }
bool is_html_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

class HtmlReader {
 public:
  explicit HtmlReader(std::string_view html) : html_(html) {}

  std::string read() && {
    // Markup that is incomplete in the first pass is tried once more, and then taken as text.
    for (int pass = 0; pass < 2; ++pass) read_pass(pass == 1);
    if (raw_element_.empty()) kept_.data(html_.substr(at_));
    return std::move(kept_).finish();
  }

 private:
  bool has(std::string_view text) const { return html_.substr(at_).starts_with(text); }

  void read_pass(bool last) {
    while (at_ < html_.size()) {
      const std::size_t next = raw_element_.empty() ? html_.find_first_of("&<", at_) : find_raw_end();
      if (next == kNone && !raw_element_.empty()) return;
      kept_.data(html_.substr(at_, next - at_));
      at_ = std::min(next, html_.size());
      if (at_ == html_.size()) return;
      const bool advanced = html_[at_] == '<' ? read_markup(last) : read_reference();
      if (!advanced) return;
    }
  }

  // Finds the end tag of a raw element: only "</script>" ends a script.
  std::size_t find_raw_end() const {
    for (std::size_t at = html_.find("</", at_); at != kNone; at = html_.find("</", at + 2)) {
      std::size_t name = at + 2;
      while (name < html_.size() && is_html_space(html_[name])) ++name;
      if (lower(html_.substr(name, raw_element_.size())) != raw_element_) continue;
      name += raw_element_.size();
      while (name < html_.size() && is_html_space(html_[name])) ++name;
      if (name < html_.size() && html_[name] == '>') return at;
    }
    return kNone;
  }

  bool read_markup(bool last) {
    std::size_t end = kNone;
    if (at_ + 1 < html_.size() && is_ascii_letter(html_[at_ + 1]))
      end = read_start_tag();
    else if (has("</"))
      end = read_end_tag();
    else if (has("<!--"))
      end = read_comment();
    else if (has("<!") || has("<?"))
      end = read_declaration();
    else if (at_ + 1 < html_.size())
      end = take_as_text(at_ + 1);
    else
      return false;
    if (end == kNone) {
      if (!last) return false;
      const std::size_t close = html_.find('>', at_ + 1);
      const std::size_t open = html_.find('<', at_ + 1);
      end = take_as_text(close != kNone ? close + 1 : open != kNone ? open : at_ + 1);
    }
    at_ = end;
    return true;
  }

  std::size_t take_as_text(std::size_t end) {
    kept_.data(html_.substr(at_, end - at_));
    return end;
  }

  std::size_t skip_spaces(std::size_t at) const {
    while (at < html_.size() && is_html_space(html_[at])) ++at;
    return at;
  }

  // Returns the position after the name of a tag, which ends at white space, '/' or '>'.
  std::size_t name_end(std::size_t at) const {
    constexpr std::string_view kEnds("\t\n\r\f />\0", 8);
    return std::min(html_.find_first_of(kEnds, at), html_.size());
  }

  // Returns the position after one attribute with its value, or kNone if the document ends inside it.
  std::size_t attribute_end(std::size_t at) const {
    std::size_t end = at + 1;
    while (end < html_.size() && !is_html_space(html_[end]) && html_[end] != '/' && html_[end] != '=' &&
           html_[end] != '>')
      ++end;
    const std::size_t sign = skip_spaces(end);
    if (sign >= html_.size() || html_[sign] != '=') return end;
    std::size_t value = sign;
    while (value < html_.size() && html_[value] == '=') ++value;
    value = skip_spaces(value);
    if (value >= html_.size()) return kNone;
    if (html_[value] == '"' || html_[value] == '\'') {
      const std::size_t close = html_.find(html_[value], value + 1);
      return close == kNone ? kNone : close + 1;
    }
    while (value < html_.size() && !is_html_space(html_[value]) && html_[value] != '>') ++value;
    return value;
  }

  std::size_t read_start_tag() {
    std::size_t at = name_end(at_ + 1);
    const std::string name = lower(html_.substr(at_ + 1, at - at_ - 1));
    while (true) {
      while (at < html_.size() &&
             (is_html_space(html_[at]) || (html_[at] == '/' && !html_.substr(at).starts_with("/>"))))
        ++at;
      if (at >= html_.size()) return kNone;
      if (html_[at] == '>') break;
      if (html_[at] == '/') {
        kept_.start(name);
        kept_.end(name);
        return at + 2;
      }
      at = attribute_end(at);
      if (at == kNone) return kNone;
    }
    kept_.start(name);
    if (std::find(kVoid.begin(), kVoid.end(), name) != kVoid.end()) {
      kept_.end(name);
      ended_.push_back(name);
    }
    if (name == "script" || name == "style") raw_element_ = name;
    return at + 1;
  }

  std::size_t read_end_tag() {
    const std::size_t close = html_.find('>', at_ + 1);
    if (close == kNone) return kNone;
    std::size_t begin = at_ + 2;
    const std::size_t spaced = skip_spaces(begin);
    const std::string_view whole = html_.substr(spaced, close - spaced);
    const bool clean = !whole.empty() && is_ascii_letter(whole[0]) &&
                       skip_spaces(spaced + clean_name_length(whole)) == close;
    if (!clean && !(begin < html_.size() && is_ascii_letter(html_[begin]))) {
      if (close == begin) return close + 1;
      kept_.remark(html_.substr(begin, close - begin));
      return close + 1;
    }
    if (clean) begin = spaced;
    const std::size_t end = clean ? begin + clean_name_length(whole) : name_end(begin);
    end_element(lower(html_.substr(begin, end - begin)));
    raw_element_.clear();
    const std::size_t after = html_.find('>', end);
    return after == kNone ? kNone : after + 1;
  }

  static std::size_t clean_name_length(std::string_view text) {
    const auto stop = std::find_if(text.begin(), text.end(), [](char c) {
      return !is_ascii_letter(c) && !is_ascii_digit(c) && c != '-' && c != '.' && c != ':' && c != '_';
    });
    return static_cast<std::size_t>(stop - text.begin());
  }

  // Ends an element. An element without content has ended already, so its end tag is ignored.
  void end_element(const std::string& name) {
    const auto made = std::find(ended_.begin(), ended_.end(), name);
    if (made != ended_.end())
      ended_.erase(made);
    else
      kept_.end(name);
  }

  std::size_t read_comment() {
    for (std::size_t dashes = html_.find("--", at_ + 4); dashes != kNone;
         dashes = html_.find("--", dashes + 1)) {
      const std::size_t close = skip_spaces(dashes + 2);
      if (close >= html_.size() || html_[close] != '>') continue;
      kept_.remark(html_.substr(at_ + 4, dashes - at_ - 4));
      return close + 1;
    }
    return kNone;
  }

  std::size_t read_declaration() {
    const std::size_t close = html_.find('>', at_ + 2);
    if (close == kNone) return kNone;
    kept_.remark(html_.substr(at_ + 2, close - at_ - 2));
    return close + 1;
  }

  // Reads the reference at '&'. Returns false if the rest cannot be read in this pass.
  bool read_reference() {
    if (has("&#")) return read_number();
    std::size_t end = at_ + 1;
    const auto in_name = [](char c) {
      return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '.';
    };
    if (end >= html_.size()) return false;
    if (!is_ascii_letter(html_[end])) {
      at_ = take_as_text(end);
      return true;
    }
    while (end < html_.size() && in_name(html_[end])) ++end;
    // A name must be followed by a character. At the end of the document, a '-' or '.' of the name is enough.
    if (end == html_.size())
      while (end > at_ + 1 && (end == html_.size() || (html_[end] != '-' && html_[end] != '.'))) --end;
    if (end == at_ + 1) return false;
    const std::string_view name = html_.substr(at_ + 1, end - at_ - 1);
    std::string written;
    if (const char32_t character = html_entity(name))
      append_utf8(written, character);
    else
      written = "&" + std::string(name);
    kept_.data(written);
    at_ = end + (html_[end] == ';');
    return true;
  }

  // Reads a numeric reference: "&#39;", "&#x27;".
  bool read_number() {
    const bool hex = at_ + 2 < html_.size() && (html_[at_ + 2] == 'x' || html_[at_ + 2] == 'X');
    const std::size_t begin = at_ + (hex ? 3 : 2);
    std::size_t end = begin;
    while (end < html_.size() && (hex ? is_hex(html_[end]) : is_ascii_digit(html_[end]))) ++end;
    if (end == begin || end == html_.size() || is_hex(html_[end])) {
      if (html_.find(';', at_) != kNone) at_ = take_as_text(at_ + 2);
      return false;
    }
    std::uint32_t number = 0;
    const auto read = std::from_chars(html_.data() + begin, html_.data() + end, number, hex ? 16 : 10);
    std::string written;
    append_utf8(written, read.ec == std::errc() ? character_of(number) : U'\ufffd');
    kept_.data(written);
    at_ = end + (html_[end] == ';');
    return true;
  }

  // Returns the character of a number. 0x80 to 0x9f are the characters of the Windows-1252 code page.
  static char32_t character_of(std::uint32_t number) {
    constexpr std::array<char32_t, 32> kWindows = {
        0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
        0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};
    if (0x80 <= number && number < 0xa0) return kWindows[number - 0x80];
    if (number == 0 || number > 0x10ffff || (0xd800 <= number && number < 0xe000)) return U'\ufffd';
    return static_cast<char32_t>(number);
  }

  std::string_view html_;
  std::size_t at_ = 0;
  std::string raw_element_;  // the script or style element being read
  std::vector<std::string> ended_;
  HtmlText kept_;
};

}  // namespace

std::string strip_html(std::string_view html) { return HtmlReader(html).read(); }

}  // namespace dpo::data
