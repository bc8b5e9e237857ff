#include "text/text_stream.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"

namespace dpo::text {
namespace {

// Returns the length of the longest suffix of the text that is a prefix of a stop string.
std::size_t possible_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops)
    for (std::size_t length = std::min(stop.size(), text.size()); length > longest; --length)
      if (text.ends_with(std::string_view(stop).substr(0, length))) longest = length;
  return longest;
}

std::size_t find_stop(std::string_view text, std::size_t from, const std::vector<std::string>& stops) {
  std::size_t first = text.npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop, from));
  return first;
}

}  // namespace

TextStream::TextStream(Decode decode, std::vector<std::string> stops)
    : decode_(std::move(decode)), stops_(std::move(stops)) {}

std::string TextStream::show_until(std::size_t end) {
  const std::size_t begin = std::min(shown_, end);
  shown_ = std::max(shown_, end);
  return text_.substr(begin, end - begin);
}

std::string TextStream::add(Token token) {
  tokens_.push_back(token);
  text_ = decode_(tokens_);
  shown_ = std::min(shown_, text_.size());
  if (const std::size_t stop = find_stop(text_, shown_, stops_); stop != text_.npos) {
    text_.resize(stop);
    stopped_ = true;
    return show_until(stop);
  }
  std::string_view certain = text_;
  while (certain.ends_with(kReplacementCharacter))  // decoders write a partial character like this
    certain.remove_suffix(kReplacementCharacter.size());
  certain.remove_suffix(possible_stop(certain, stops_));
  return show_until(certain.size());
}

std::string TextStream::finish() { return show_until(text_.size()); }

}  // namespace dpo::text
