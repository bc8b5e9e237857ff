#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sentencepiece_processor.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_json.h"
#include "text/word_matcher.h"

namespace dpo::text {
namespace {

constexpr const char* kSpaceMark = "▁";  // stands for a space in tokens of SentencePiece

// The rules of llama.cpp that split a text into words. Each pattern isolates its matches in what the patterns
// before it left.
struct SplitRules {
  const char* name;
  std::vector<std::string> patterns;
  bool ignore_merges;  // a word that is a token is not split
};

const std::vector<SplitRules>& known_rules() {
  const auto gpt2 = std::string(pattern_text(WordPattern::Gpt2));
  const auto cl100k = std::string(pattern_text(WordPattern::Cl100k));
  const auto qwen2 = std::string(pattern_text(WordPattern::Qwen2));
  const std::string upper = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
  const std::string lower = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";
  const std::string contraction = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)";
  const std::string rest = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const std::vector<SplitRules> rules = {
      {"gpt-2", {gpt2}, false},
      {"smollm", {R"(\p{N})", gpt2}, false},
      {"llama-bpe", {cl100k}, true},
      {"dbrx", {cl100k}, false},
      {"qwen2", {qwen2}, false},
      {"gpt-4o", {upper + contraction + "|" + lower + contraction + R"(|\p{N}{1,3}|)" + rest}, false},
      {"tekken", {upper + "|" + lower + R"(|\p{N}|)" + rest}, true},
  };
  return rules;
}

// Appends the patterns of a pre-tokenizer of bytes. Returns false if a step is not one of llama.cpp's.
bool add_patterns(const JsonField& step, std::vector<std::string>& patterns) {
  const std::string type = step.at("type").text();
  if (type == "Sequence") {
    for (const JsonField& item : step.at("pretokenizers").items())
      if (!add_patterns(item, patterns)) return false;
    return true;
  }
  if (type == "ByteLevel") {
    if (step.flag_or("use_regex", true)) patterns.emplace_back(pattern_text(WordPattern::Gpt2));
    return !step.flag_or("add_prefix_space", true);
  }
  if (type == "Digits" && step.flag_or("individual_digits", false)) {
    patterns.emplace_back(R"(\p{N})");
    return true;
  }
  if (type != "Split") return false;
  const auto regex = step.at("pattern").find("Regex");
  const std::string behavior = step.at("behavior").text();
  const bool inverted = step.flag_or("invert", false);
  if (!regex || !((behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted))) return false;
  patterns.push_back(regex->text());
  return true;
}

// llama.cpp normalizes no text. It reads the models with NFC, such as Qwen's, without it, and so do we.
bool is_normalizer_known(const std::optional<JsonField>& normalizer) {
  return !normalizer || normalizer->at("type").text() == "NFC" ||
         (normalizer->at("type").text() == "Sequence" && normalizer->at("normalizers").items().empty());
}

[[noreturn]] void refuse_rules(const std::string& file, const char* field, const JsonField* value) {
  std::vector<std::string> names;
  for (const SplitRules& rules : known_rules()) names.emplace_back(rules.name);
  throw UserError(fmt::format(
      "{}: llama.cpp has no rules for this {}{} (known: {}, and those of SentencePiece), so it would split "
      "texts differently. GGUF is not written",
      file, field, value ? " " + value->value().dump().substr(0, 200) : "", fmt::join(names, ", ")));
}

std::string name_of_rules(const JsonField& root, const BpeParts& model) {
  const auto normalizer = root.find("normalizer"), step = root.find("pre_tokenizer");
  if (!is_normalizer_known(normalizer)) refuse_rules(root.file(), "normalizer", &*normalizer);
  std::vector<std::string> patterns;
  if (step && add_patterns(*step, patterns))
    for (const SplitRules& rules : known_rules())
      if (rules.patterns == patterns && rules.ignore_merges == model.ignore_merges) return rules.name;
  refuse_rules(root.file(), "pre_tokenizer", step ? &*step : nullptr);
}

bool replaces_spaces(const JsonField& step) {
  const auto pattern = step.at("type").text() == "Replace" ? step.at("pattern").find("String") : std::nullopt;
  return pattern && pattern->text() == " " && step.at("content").text() == kSpaceMark;
}

// Returns whether a space is put before a text, or nothing if the steps are not those of SentencePiece: a
// normalizer that replaces spaces, after adding one at the start, or the pre-tokenizer Metaspace.
std::optional<bool> prefix_of(const JsonField& root, std::vector<std::string>& notes) {
  const auto normalizer = root.find("normalizer"), step = root.find("pre_tokenizer");
  if (normalizer) {
    std::vector<JsonField> steps = {*normalizer};
    if (normalizer->at("type").text() == "Sequence") steps = normalizer->at("normalizers").items();
    if (steps.empty() || !replaces_spaces(steps.back())) return std::nullopt;
    // A split at spaces only keeps merges within words, as SentencePiece does.
    if (step && (step->at("type").text() != "Split" || step->at("behavior").text() != "MergedWithPrevious"))
      return std::nullopt;
    if (steps.size() == 1) return false;
    const JsonField& first = steps.front();
    if (steps.size() == 2 && first.at("type").text() == "Prepend" && first.at("prepend").text() == kSpaceMark)
      return true;
    return std::nullopt;
  }
  if (!step || step->at("type").text() != "Metaspace" || step->at("replacement").text() != kSpaceMark)
    return std::nullopt;
  const auto scheme = step->find("prepend_scheme");
  if (scheme && scheme->text() == "first")
    notes.push_back(
        fmt::format("{}: llama.cpp also puts a space before a text that follows a special token; here only "
                    "the first text "
                    "has one",
                    root.file()));
  return scheme ? scheme->text() != "never" : step->flag_or("add_prefix_space", true);
}

bool is_byte_token(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

void set(GgufVocabulary& out, Token id, std::string text, GgufToken kind) {
  out.tokens[static_cast<std::size_t>(id)] = std::move(text);
  out.kinds[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(kind);
}

// llama.cpp finds added tokens in the text as given, where a space is a space.
std::string as_given(std::string text, bool sentencepiece) {
  for (std::size_t at = 0; sentencepiece && (at = text.find(kSpaceMark, at)) != text.npos; ++at)
    text.replace(at, std::string_view(kSpaceMark).size(), " ");
  return text;
}

void set_added(GgufVocabulary& out, const std::vector<AddedToken>& added, std::optional<Token> unknown) {
  for (const AddedToken& token : added) {
    out.strips_spaces = out.strips_spaces || token.lstrip || token.rstrip;
    if (token.id == unknown) continue;
    if (token.special)
      set(out, token.id, token.content, GgufToken::control);
    else
      set(out, token.id, as_given(token.content, out.model == "llama"), GgufToken::user_defined);
  }
}

// The ranks of merges as scores: llama.cpp merges the pair whose result has the highest score.
void set_scores(GgufVocabulary& out, const std::vector<Merge>& merges) {
  out.scores.assign(out.tokens.size(), -static_cast<float>(merges.size()));
  for (std::size_t rank = merges.size(); rank-- > 0;)
    out.scores[static_cast<std::size_t>(merges[rank].result)] = -static_cast<float>(rank);
}

// Counts pairs of tokens that llama.cpp would merge, because their texts together are a token, although they
// are not in the list of merges. A tokenizer of SentencePiece has none.
std::size_t count_other_merges(const BpeParts& model) {
  std::unordered_map<std::string, Token> ids(model.vocabulary.begin(), model.vocabulary.end());
  std::set<std::pair<Token, Token>> merged;
  std::set<Token> results;
  for (const Merge& merge : model.merges) {
    merged.insert({merge.left, merge.right});
    results.insert(merge.result);
  }
  std::size_t others = 0;
  for (const auto& [text, id] : model.vocabulary) {
    if (!results.contains(id)) continue;
    for (std::size_t at = code_point_at(text, 0).length; at < text.size();
         at += code_point_at(text, at).length) {
      const auto left = ids.find(text.substr(0, at)), right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end() && !merged.contains({left->second, right->second}))
        ++others;
    }
  }
  return others;
}

void fill_bytes(GgufVocabulary& out, const BpeParts& model) {
  out.model = "gpt2";
  std::vector<const std::string*> texts(out.tokens.size());
  for (const auto& [text, id] : model.vocabulary) {
    set(out, id, text, GgufToken::normal);
    texts[static_cast<std::size_t>(id)] = &text;
  }
  for (const Merge& merge : model.merges)
    out.merges.push_back(*texts[static_cast<std::size_t>(merge.left)] + " " +
                         *texts[static_cast<std::size_t>(merge.right)]);
}

void fill_spaces(GgufVocabulary& out, const JsonField& root, const BpeParts& model) {
  out.model = "llama";
  out.pre = "default";
  const auto prefix = prefix_of(root, out.notes);
  if (!prefix || !model.byte_fallback || !model.unknown)
    refuse_rules(root.file(), "tokenizer of characters without SentencePiece's steps", nullptr);
  out.add_space_prefix = *prefix;
  for (const auto& [text, id] : model.vocabulary)
    set(out, id, text, is_byte_token(text) ? GgufToken::byte : GgufToken::normal);
  set(out, *model.unknown, out.tokens[static_cast<std::size_t>(*model.unknown)], GgufToken::unknown);
  set_scores(out, model.merges);
  if (const std::size_t others = count_other_merges(model); others > 0)
    out.notes.push_back(
        fmt::format("{}: llama.cpp merges {} pairs of tokens that are not in the tokenizer's list, so that "
                    "some texts may "
                    "become other tokens",
                    root.file(), others));
}

void fill_from_json(GgufVocabulary& out, const JsonField& root, const SpecialTokenFiles& specials) {
  const PipelineParts parts = read_tokenizer_json(root, &specials);
  if (parts.byte_level) {
    out.pre = name_of_rules(root, parts.model);
    fill_bytes(out, parts.model);
  } else {
    fill_spaces(out, root, parts.model);
  }
  set_added(out, parts.added, parts.model.unknown);
}

void fill_from_merges(GgufVocabulary& out, TokenizerFolder& folder, const SpecialTokenFiles& specials) {
  if (specials.flag("add_prefix_space", false))
    refuse_rules(folder.path_of("tokenizer_config.json"), "add_prefix_space", nullptr);
  const PipelineParts parts = read_gpt2(folder, specials);
  out.pre = "gpt-2";
  fill_bytes(out, parts.model);
  set_added(out, parts.added, std::nullopt);
}

GgufToken kind_of(const sentencepiece::SentencePieceProcessor& processor, Token id) {
  if (processor.IsUnknown(id)) return GgufToken::unknown;
  if (processor.IsControl(id)) return GgufToken::control;
  if (processor.IsUnused(id)) return GgufToken::unused;
  return processor.IsByte(id) ? GgufToken::byte : GgufToken::normal;
}

void fill_from_sentencepiece(GgufVocabulary& out, TokenizerFolder& folder,
                             const SpecialTokenFiles& specials) {
  const std::string file = folder.path_of("tokenizer.model");
  sentencepiece::SentencePieceProcessor processor;
  if (!processor.LoadFromSerializedProto(folder.read("tokenizer.model")).ok())
    throw UserError(fmt::format("{}: not a sentencepiece model; is the file complete?", file));
  out.model = "llama";
  out.pre = "default";
  out.scores.assign(out.tokens.size(), 0);
  Vocabulary vocabulary;
  for (Token id = 0; id < processor.GetPieceSize(); ++id) {
    const float score = processor.GetScore(id);
    // Scores of BPE are ranks; those of a unigram model are logarithms.
    if (score != std::floor(score)) refuse_rules(file, "unigram model", nullptr);
    vocabulary.emplace_back(processor.IdToPiece(id), id);
    set(out, id, processor.IdToPiece(id), kind_of(processor, id));
    out.scores[static_cast<std::size_t>(id)] = score;
  }
  std::vector<std::string> pieces;
  out.add_space_prefix =
      processor.Encode("a", &pieces).ok() && !pieces.empty() && pieces[0].starts_with(kSpaceMark);
  AddedTokens added(vocabulary);
  specials.add_to(added);
  set_added(out, added.tokens(), processor.unk_id());
}

}  // namespace

GgufVocabulary gguf_vocabulary(const std::filesystem::path& path, std::int64_t size) {
  const std::int64_t tokens = Tokenizer::load(path).size();
  if (tokens > size)
    throw UserError(fmt::format("{}: the tokenizer has {} tokens, but the model's embedding has only {}",
                                path.string(), tokens, size));
  GgufVocabulary out;
  for (std::int64_t id = 0; id < size; ++id) out.tokens.push_back(fmt::format("[PAD{}]", id));
  out.kinds.assign(out.tokens.size(), static_cast<std::int32_t>(GgufToken::unused));
  TokenizerFolder folder(path);
  const SpecialTokenFiles specials(folder);
  if (const auto json = folder.read_json_if_present("tokenizer.json"))
    fill_from_json(out, json->root(), specials);
  else if (folder.has("vocab.json"))
    fill_from_merges(out, folder, specials);
  else
    fill_from_sentencepiece(out, folder, specials);
  return out;
}

}  // namespace dpo::text
