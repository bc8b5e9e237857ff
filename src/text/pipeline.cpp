#include "text/pipeline.h"

#include <fmt/format.h>

#include "base/error.h"

namespace dpo::text {

Pipeline::Pipeline(PipelineParts parts, const std::string& where)
    : normalizer_(std::move(parts.normalizer)),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      model_(std::move(parts.model), parts.byte_level),
      template_(std::move(parts.post_processor)),
      decoder_(std::move(parts.decoder)),
      ids_(model_.vocabulary().size()) {
  Normalized storage;
  for (const AddedToken& token : parts.added) {
    const std::string pattern(token.normalized ? normalizer_.apply(token.content, storage) : token.content);
    AddedTokenFinder& finder = token.normalized ? normalized_finder_ : finder_;
    if (pattern.empty() || !finder.add(pattern, token))
      throw UserError(
          fmt::format("{}: the added token {} cannot be distinguished from another: both match {}", where,
                      token.content, pattern));
    ids_.insert(token.content, token.id);
    // A token that normalization changed is decoded in its normalized form, and is then no longer special.
    set_text(token.id, pattern, token.special && pattern == token.content);
  }
  for (const auto& [text, id] : model_.vocabulary()) {
    ids_.insert(text, id);
    set_text(id, text, false);
  }
}

// Sets the text of an id unless it has one. Added tokens come first, so they take precedence over the
// vocabulary.
void Pipeline::set_text(Token id, std::string text, bool special) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= texts_.size()) texts_.resize(index + 1);
  if (!texts_[index].used) texts_[index] = {std::move(text), true, special};
}

Pipeline::Scratch& Pipeline::scratch() {
  thread_local Scratch scratch;
  return scratch;
}

void Pipeline::encode(std::string_view text, bool special, std::vector<Token>& out) const {
  Scratch& scratch = Pipeline::scratch();
  const auto encode_all = [&] {
    finder_.find(text, scratch.segments);
    for (const Segment& segment : scratch.segments) encode_segment(text, segment, out, scratch);
  };
  for (const std::optional<Token>& part : template_) {
    if (!part)
      encode_all();
    else if (special)
      out.push_back(*part);
  }
}

void Pipeline::split(std::string_view text, std::vector<Segment>& segments) const {
  finder_.find(text, segments);
}

void Pipeline::split_alike(std::string_view other, const std::vector<Segment>& known, std::string_view text,
                           std::vector<Segment>& segments) const {
  finder_.find_alike(other, known, text, segments);
}

void Pipeline::encode_segments(std::string_view text, std::span<const Segment> segments,
                               std::vector<Token>& out, std::vector<std::size_t>& ends) const {
  Scratch& scratch = Pipeline::scratch();
  for (const Segment& segment : segments) {
    encode_segment(text, segment, out, scratch);
    ends.push_back(out.size());
  }
}

void Pipeline::encode_segment(std::string_view text, const Segment& segment, std::vector<Token>& out,
                              Scratch& scratch) const {
  if (segment.token)
    out.push_back(*segment.token);
  else
    encode_text(text.substr(segment.start, segment.end - segment.start), segment.start == 0, out, scratch);
}

void Pipeline::encode_text(std::string_view text, bool first, std::vector<Token>& out,
                           Scratch& scratch) const {
  const std::string_view normalized = normalizer_.apply(text, scratch.normalized);
  const bool keeps_start = first && scratch.normalized.keeps_start;
  if (normalized_finder_.empty()) return encode_piece({normalized, keeps_start}, out, scratch);
  normalized_finder_.find(normalized, scratch.inner_segments);
  for (const Segment& segment : scratch.inner_segments) {
    const std::string_view part = normalized.substr(segment.start, segment.end - segment.start);
    if (segment.token)
      out.push_back(*segment.token);
    else
      encode_piece({part, keeps_start && segment.start == 0}, out, scratch);
  }
}

void Pipeline::encode_piece(const Piece& piece, std::vector<Token>& out, Scratch& scratch) const {
  if (piece.text.empty()) return;
  scratch.arena.clear();
  scratch.pieces.assign(1, piece);
  pre_tokenizer_.apply(scratch.pieces, scratch.other_pieces, scratch.arena);
  for (const Piece& word : scratch.pieces) model_.encode(word.text, out, scratch.merge);
}

std::string Pipeline::decode(std::span<const Token> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const Token id : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= texts_.size() || !texts_[index].used) continue;
    if (skip_special && texts_[index].special) continue;
    tokens.push_back(texts_[index].text);
  }
  return decoder_.apply(std::move(tokens));
}

std::optional<Token> Pipeline::id_of(std::string_view token) const {
  const Token id = ids_.find(token);
  return id == StringMap::kAbsent ? std::nullopt : std::optional<Token>(id);
}

bool Pipeline::is_special(Token id) const {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < texts_.size() && texts_[index].special;
}

std::string Pipeline::token_of(Token id) const {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < texts_.size() ? texts_[index].text : std::string();
}

}  // namespace dpo::text
