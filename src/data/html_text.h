#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dpo::data {

// Collects the text of an HTML document that is kept: top-level paragraphs and code. Tracks the open
// elements.
class HtmlText {
 public:
  void start(const std::string& name) {
    flush(Text::Plain);
    Element element{name, std::nullopt};
    const bool is_top = open_.empty();
    if (is_top && name == "p") element.piece = add_piece("");
    if (name == "code" && (is_top || open_.front().name == "pre")) element.piece = add_piece("<code>");
    open_.push_back(element);
  }

  void end(std::string_view name) {
    flush(Text::Plain);
    if (std::none_of(open_.begin(), open_.end(), [&](const Element& e) { return e.name == name; })) return;
    while (pop() != name) {
    }
  }

  void data(std::string_view text) { data_ += text; }

  // Handles a comment or declaration. The original keeps its text in a paragraph but not in code.
  void remark(std::string_view text) {
    flush(Text::Plain);
    data_ = text;
    flush(Text::Remark);
  }

  std::string finish() && {
    flush(Text::Plain);
    while (!open_.empty()) pop();
    std::string all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) all += (i > 0 ? "\n\n" : "") + pieces_[i];
    return all;
  }

 private:
  using Names = std::span<const std::string_view>;
  // Elements whose white space is kept, and elements whose text is not part of the document's.
  static constexpr std::array<std::string_view, 2> kKeepsSpace = {"pre", "textarea"};
  static constexpr std::array<std::string_view, 5> kOtherText = {"script", "style", "template", "rt", "rp"};

  enum class Text { Plain, Remark };
  struct Element {
    std::string name;
    std::optional<std::size_t> piece;  // the piece that receives its text
  };

  std::size_t add_piece(std::string begin) {
    pieces_.push_back(std::move(begin));
    return pieces_.size() - 1;
  }

  std::string pop() {
    const Element element = std::move(open_.back());
    open_.pop_back();
    if (element.piece && element.name == "code") pieces_[*element.piece] += "</code>";
    return element.name;
  }

  bool inside(Names names) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Element& element) {
      return std::find(names.begin(), names.end(), element.name) != names.end();
    });
  }

  // Ends a run of text. A run of only white space becomes one character, except where white space is kept.
  void flush(Text kind) {
    if (data_.empty()) return;
    if (!inside(kKeepsSpace) && data_.find_first_not_of(" \n\t\f\r") == std::string::npos)
      data_ = data_.find('\n') != std::string::npos ? "\n" : " ";
    for (const Element& element : open_) {
      if (!element.piece) continue;
      const bool wanted =
          element.name == "p" ? open_.size() == 1 : kind == Text::Plain && !inside(kOtherText);
      if (wanted) pieces_[*element.piece] += data_;
    }
    data_.clear();
  }

  std::vector<Element> open_;
  std::vector<std::string> pieces_;
  std::string data_;
};

}  // namespace dpo::data
