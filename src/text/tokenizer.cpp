#include "text/tokenizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/user_path.h"
#include "base/utf8.h"
#include "text/codec.h"

namespace dpo::text {
namespace {

enum class Kind { TokenizerJson, Gpt2, SentencePiece };

Kind kind_of(const TokenizerFolder& folder) {
  if (folder.has("tokenizer.json")) return Kind::TokenizerJson;
  if (folder.has("vocab.json") && folder.has("merges.txt")) return Kind::Gpt2;
  if (folder.has("tokenizer.model")) return Kind::SentencePiece;
  throw UserError(fmt::format(
      "no tokenizer in {}; expected tokenizer.json, or vocab.json and merges.txt, or tokenizer.model{}; "
      "a tokenizer in another folder is given with model.tokenizer_name_or_path=DIR, or to a command with "
      "options with --tokenizer DIR",
      folder.path_of(""), run_folder_hint(std::filesystem::path(folder.path_of("")).parent_path())));
}

std::unique_ptr<const Codec> load_codec(Kind kind, TokenizerFolder& folder,
                                        const SpecialTokenFiles& specials) {
  if (kind == Kind::Gpt2) return load_gpt2(folder, specials);
  if (kind == Kind::SentencePiece) return load_sentencepiece(folder, specials);
  return load_tokenizer_json(folder, specials);
}

// Returns the id of a special token. A padding token that a file names may be missing, because it is not used
// here. The others are required.
std::optional<Token> special_id(const Codec& codec, const SpecialTokenFiles& specials,
                                const std::string& role, Kind kind) {
  const auto named = specials.find(role);
  if (!named)
    return kind == Kind::Gpt2 && role != "pad_token" ? codec.id_of(kGpt2SpecialToken) : std::nullopt;
  const auto id = codec.id_of(named->token.content);
  if (!id && role != "pad_token") named->field.refuse("a token of the vocabulary");
  return id;
}

// Returns how many segments two texts share from the start.
std::size_t shared_segments(std::string_view a, const std::vector<Segment>& of_a, std::string_view b,
                            const std::vector<Segment>& of_b) {
  std::size_t shared = 0;
  const std::size_t most = std::min(of_a.size(), of_b.size());
  while (shared < most) {
    const Segment &x = of_a[shared], &y = of_b[shared];
    if (x.start != y.start || x.end != y.end || x.token != y.token) break;
    if (a.substr(x.start, x.end - x.start) != b.substr(y.start, y.end - y.start)) break;
    ++shared;
  }
  return shared;
}

}  // namespace

struct Tokenizer::Parts {
  std::unique_ptr<const Codec> codec;
  std::optional<Token> bos;
  std::optional<Token> eos;
  std::optional<Token> pad;
  std::string fingerprint;
  std::filesystem::path folder;
};

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  TokenizerFolder folder(path);
  const Kind kind = kind_of(folder);
  const SpecialTokenFiles specials(folder);
  auto parts = std::make_unique<Parts>();
  parts->codec = load_codec(kind, folder, specials);
  parts->bos = special_id(*parts->codec, specials, "bos_token", kind);
  parts->eos = special_id(*parts->codec, specials, "eos_token", kind);
  parts->pad = special_id(*parts->codec, specials, "pad_token", kind);
  parts->fingerprint = folder.fingerprint();
  parts->folder = path;
  return Tokenizer(std::move(parts));
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<Token> ids;
  ids.reserve(text.size() / 4);
  if (is_valid_utf8(text))
    parts_->codec->encode(text, special, ids);
  else
    parts_->codec->encode(replace_invalid_utf8(text), special, ids);
  return ids;
}

std::vector<std::vector<Token>> Tokenizer::encode_alike(std::span<const std::string_view> texts) const {
  std::vector<std::vector<Token>> all(texts.size());
  std::vector<Segment> first_segments, segments;
  std::vector<std::size_t> first_ends, ends;  // number of tokens up to the end of each segment
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!is_valid_utf8(texts[i])) {
      all[i] = encode(texts[i]);
      continue;
    }
    parts_->codec->split_alike(texts[0], first_segments, texts[i], segments);
    all[i].reserve(texts[i].size() / 4);
    ends.clear();
    std::size_t shared = 0;
    if (i > 0) shared = shared_segments(texts[0], first_segments, texts[i], segments);
    if (shared > 0)
      all[i].assign(all[0].begin(), all[0].begin() + static_cast<std::ptrdiff_t>(first_ends[shared - 1]));
    parts_->codec->encode_segments(texts[i], std::span(segments).subspan(shared), all[i], ends);
    if (i > 0) continue;
    first_segments.swap(segments);
    first_ends.swap(ends);
  }
  return all;
}

std::string Tokenizer::decode(std::span<const Token> ids, bool skip_special) const {
  return parts_->codec->decode(ids, skip_special);
}

std::optional<Token> Tokenizer::bos() const { return parts_->bos; }
std::optional<Token> Tokenizer::eos() const { return parts_->eos; }
std::optional<Token> Tokenizer::pad() const { return parts_->pad; }
std::optional<Token> Tokenizer::id_of(std::string_view token) const { return parts_->codec->id_of(token); }
std::string Tokenizer::token_of(Token id) const { return parts_->codec->token_of(id); }
bool Tokenizer::is_special(Token id) const { return parts_->codec->is_special(id); }
std::int64_t Tokenizer::size() const { return parts_->codec->size(); }
const std::string& Tokenizer::fingerprint() const { return parts_->fingerprint; }
const std::filesystem::path& Tokenizer::folder() const { return parts_->folder; }

}  // namespace dpo::text
