#include "text/tokenizer_json.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

// Twenty times the largest vocabulary in use. Tables are as large as the largest id, so a wrong id must not
// fill the memory.
constexpr std::int64_t kLargestId = 5'000'000;

// Reads a step by its "type", and a Sequence as the steps in its member `list`.
template <typename Steps>
struct StepReader {
  std::string list;
  std::map<std::string, std::function<void(const JsonField&, Steps&)>> types;

  void read(const JsonField& field, Steps& steps) const {
    const JsonField type = field.at("type");
    if (type.text() == "Sequence") {
      for (const JsonField& item : field.at(list).items()) read(item, steps);
      return;
    }
    const auto found = types.find(type.text());
    if (found == types.end())
      type.refuse(fmt::format("one of {}, Sequence", fmt::join(std::views::keys(types), ", ")));
    found->second(field, steps);
  }
};

std::string read_character(const JsonField& field) {
  const std::string& text = field.text();
  if (text.empty() || code_point_at(text, 0).length != text.size()) field.refuse("one character");
  return text;
}

std::size_t read_count(const JsonField& field) {
  if (field.number() < 0) field.refuse("a number >= 0");
  return static_cast<std::size_t>(field.number());
}

TextPattern read_pattern(const JsonField& field) {
  if (const auto literal = field.find("String")) {
    if (literal->text().empty()) literal->refuse("a non-empty string");
    return {literal->text(), std::nullopt};
  }
  if (const auto regex = field.find("Regex")) return {"", Regex(regex->text(), regex->where())};
  field.refuse("an object with String or Regex");
}

PrependScheme read_prepend_scheme(const JsonField& metaspace) {
  const std::map<std::string, PrependScheme> kSchemes = {
      {"first", PrependScheme::First}, {"never", PrependScheme::Never}, {"always", PrependScheme::Always}};
  const auto field = metaspace.find("prepend_scheme");
  const auto legacy = metaspace.find("add_prefix_space");  // in files older than prepend_scheme
  const bool prepends = !legacy || legacy->flag();
  if (!field) return prepends ? PrependScheme::Always : PrependScheme::Never;
  const auto scheme = kSchemes.find(field->text());
  if (scheme == kSchemes.end()) field->refuse("first, never or always");
  if (!prepends && scheme->second != PrependScheme::Never) legacy->refuse("true, as prepend_scheme says");
  return scheme->second;
}

SplitBehavior read_behavior(const JsonField& field) {
  const std::map<std::string, SplitBehavior> kBehaviors = {
      {"Removed", SplitBehavior::Removed},
      {"Isolated", SplitBehavior::Isolated},
      {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
      {"MergedWithNext", SplitBehavior::MergedWithNext},
      {"Contiguous", SplitBehavior::Contiguous}};
  const auto behavior = kBehaviors.find(field.text());
  if (behavior == kBehaviors.end())
    field.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return behavior->second;
}

void read_byte_level(const JsonField& field, PreTokenizerSteps& steps) {
  if (field.flag_or("add_prefix_space", true)) steps.push_back(prefix_space_step());
  if (field.flag_or("use_regex", true)) steps.push_back(word_step(WordPattern::Gpt2));
  steps.push_back(byte_level_step());
}

void read_split(const JsonField& field, PreTokenizerSteps& steps) {
  const SplitBehavior behavior = read_behavior(field.at("behavior"));
  const bool invert = field.flag_or("invert", false);
  const auto regex = field.at("pattern").find("Regex");
  const auto known = regex ? known_pattern(regex->text()) : std::nullopt;
  // The known patterns match every character, so there is no text between the matches. "Removed" with
  // "invert" keeps the matches too, and some files use it.
  const bool keeps_matches =
      behavior == SplitBehavior::Isolated || (behavior == SplitBehavior::Removed && invert);
  if (known && keeps_matches)
    steps.push_back(word_step(*known));
  else
    steps.push_back(split_step(read_pattern(field.at("pattern")), behavior, invert));
}

void read_digits(const JsonField& field, PreTokenizerSteps& steps) {
  const bool single = field.flag_or("individual_digits", false);
  steps.push_back(class_split_step(kNumeric, single ? SplitBehavior::Isolated : SplitBehavior::Contiguous));
}

void read_whitespace_split(const JsonField&, PreTokenizerSteps& steps) {
  steps.push_back(class_split_step(kSpace, SplitBehavior::Removed));
}

void read_metaspace(const JsonField& field, PreTokenizerSteps& steps) {
  steps.push_back(metaspace_step(read_character(field.at("replacement")), read_prepend_scheme(field),
                                 field.flag_or("split", true)));
}

Token read_id(const JsonField& field) {
  const std::int64_t id = field.number();
  if (id < 0 || id > kLargestId) field.refuse(fmt::format("an id from 0 to {}", kLargestId));
  return static_cast<Token>(id);
}

void refuse_when_set(const JsonField& model, const std::string& name) {
  const auto field = model.find(name);
  if (!field || (field->is_string() && field->text().empty())) return;
  if (field->value().is_number() && field->value() == 0) return;
  field->refuse("null: this is not supported");
}

MergeText read_merge(const JsonField& field) {
  if (field.is_array()) {
    const std::vector<JsonField> pair = field.items();
    if (pair.size() != 2) field.refuse("a pair of tokens");
    return {pair[0].text(), pair[1].text()};
  }
  const std::string& text = field.text();
  const std::size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    field.refuse("two tokens with a space between them");
  return {text.substr(0, space), text.substr(space + 1)};
}

BpeParts read_bpe(const JsonField& model) {
  const auto type = model.find("type");  // old files of BPE models have none
  if (type && type->text() != "BPE") type->refuse("BPE, the only supported model");
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_when_set(model, name);
  BpeParts parts;
  parts.vocabulary = read_vocabulary(model.at("vocab"));
  std::vector<MergeText> merges;
  const JsonField list = model.at("merges");
  for (const JsonField& merge : list.items()) {
    if (merge.is_string() && merge.text().starts_with("#version")) continue;
    merges.push_back(read_merge(merge));
  }
  parts.merges = resolve_merges(merges, parts.vocabulary, list.where());
  if (const auto unknown = model.find("unk_token")) {
    for (const auto& [text, id] : parts.vocabulary)
      if (text == unknown->text()) parts.unknown = id;
    if (!parts.unknown) unknown->refuse("a token of model.vocab");
  }
  parts.fuse_unknown = model.flag_or("fuse_unk", false);
  parts.byte_fallback = model.flag_or("byte_fallback", false);
  parts.ignore_merges = model.flag_or("ignore_merges", false);
  return parts;
}

Template read_template(const JsonField& field, std::int64_t size) {
  Template out;
  for (const JsonField& piece : field.at("single").items()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (sequence->at("id").text() != "A") sequence->at("id").refuse("A: pairs of texts are not encoded");
      out.push_back(std::nullopt);
      continue;
    }
    const JsonField name = piece.at("SpecialToken").at("id");
    for (const JsonField& id : field.at("special_tokens").at(name.text()).at("ids").items()) {
      if (id.number() < 0 || id.number() >= size)
        id.refuse(fmt::format("an id of the vocabulary, 0 to {}", size - 1));
      out.push_back(static_cast<Token>(id.number()));
    }
  }
  return out;
}

bool is_template(const JsonField& field) {
  const JsonField type = field.at("type");
  if (type.text() == "TemplateProcessing") return true;
  if (type.text() != "ByteLevel") type.refuse("one of ByteLevel, TemplateProcessing, Sequence");
  return false;  // ByteLevel only changes offsets, which are not computed here
}

Template read_post_processor(const std::optional<JsonField>& field, std::int64_t size) {
  std::vector<JsonField> templates;
  if (field && field->at("type").text() == "Sequence") {
    for (const JsonField& item : field->at("processors").items())
      if (is_template(item)) templates.push_back(item);
  } else if (field && is_template(*field)) {
    templates.push_back(*field);
  }
  if (templates.empty()) return {std::nullopt};
  if (templates.size() > 1) templates[1].refuse("at most one TemplateProcessing");
  return read_template(templates[0], size);
}

}  // namespace

Normalizer read_normalizer(const std::optional<JsonField>& field) {
  static const StepReader<NormalizerSteps> kReader{
      "normalizers",
      {{"NFC", [](auto&, auto& steps) { steps.push_back(normal_form_step(NormalForm::Nfc)); }},
       {"NFD", [](auto&, auto& steps) { steps.push_back(normal_form_step(NormalForm::Nfd)); }},
       {"NFKC", [](auto&, auto& steps) { steps.push_back(normal_form_step(NormalForm::Nfkc)); }},
       {"NFKD", [](auto&, auto& steps) { steps.push_back(normal_form_step(NormalForm::Nfkd)); }},
       {"Lowercase", [](auto&, auto& steps) { steps.push_back(lowercase_step()); }},
       {"Prepend", [](auto& f, auto& steps) { steps.push_back(prepend_step(f.at("prepend").text())); }},
       {"Replace",
        [](auto& f, auto& steps) {
          steps.push_back(replace_step(read_pattern(f.at("pattern")), f.at("content").text()));
        }},
       {"Strip", [](auto& f, auto& steps) {
          steps.push_back(strip_step(f.at("strip_left").flag(), f.at("strip_right").flag()));
        }}}};
  NormalizerSteps steps;
  if (field) kReader.read(*field, steps);
  return Normalizer(std::move(steps));
}

PreTokenizerParts read_pre_tokenizer(const std::optional<JsonField>& field) {
  static const StepReader<PreTokenizerSteps> kReader{"pretokenizers",
                                                     {{"ByteLevel", read_byte_level},
                                                      {"Digits", read_digits},
                                                      {"Metaspace", read_metaspace},
                                                      {"Split", read_split},
                                                      {"WhitespaceSplit", read_whitespace_split}}};
  PreTokenizerSteps steps;
  if (field) kReader.read(*field, steps);
  const bool byte_level = !steps.empty() && is_byte_level(*steps.back());
  if (byte_level) steps.pop_back();
  return {PreTokenizer(std::move(steps)), byte_level};
}

Decoder read_decoder(const std::optional<JsonField>& field) {
  static const StepReader<DecoderSteps> kReader{
      "decoders",
      {{"ByteLevel", [](auto&, auto& steps) { steps.push_back(byte_level_decoder()); }},
       {"ByteFallback", [](auto&, auto& steps) { steps.push_back(byte_fallback_decoder()); }},
       {"Fuse", [](auto&, auto& steps) { steps.push_back(fuse_decoder()); }},
       {"Metaspace",
        [](auto& f, auto& steps) {
          steps.push_back(metaspace_decoder(read_character(f.at("replacement")),
                                            read_prepend_scheme(f) != PrependScheme::Never));
        }},
       {"Replace",
        [](auto& f, auto& steps) {
          steps.push_back(replace_decoder(read_pattern(f.at("pattern")), f.at("content").text()));
        }},
       {"Strip", [](auto& f, auto& steps) {
          steps.push_back(strip_decoder(read_character(f.at("content")), read_count(f.at("start")),
                                        read_count(f.at("stop"))));
        }}}};
  if (!field) return Decoder();
  DecoderSteps steps;
  kReader.read(*field, steps);
  return Decoder(std::move(steps));
}

Vocabulary read_vocabulary(const JsonField& vocab) {
  Vocabulary vocabulary;
  for (const auto& [text, field] : vocab.members()) vocabulary.emplace_back(text, read_id(field));
  std::ranges::sort(vocabulary, {}, &Vocabulary::value_type::second);
  const auto same = std::ranges::adjacent_find(vocabulary, {}, &Vocabulary::value_type::second);
  if (same != vocabulary.end())
    throw UserError(fmt::format("{}: the tokens {} and {} have the same id {}", vocab.where(), same->first,
                                (same + 1)->first, same->second));
  if (vocabulary.empty()) vocab.refuse("at least one token");
  return vocabulary;
}

std::vector<Merge> resolve_merges(const std::vector<MergeText>& texts, const Vocabulary& vocabulary,
                                  const std::string& where) {
  StringMap ids(vocabulary.size());
  for (const auto& [text, id] : vocabulary) ids.insert(text, id);
  std::vector<Merge> merges;
  merges.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto find = [&](const std::string& token) {
      const Token id = ids.find(token);
      if (id == StringMap::kAbsent)
        throw UserError(fmt::format("{}: merge {} ({} {}) needs the token {}, which is not in the vocabulary",
                                    where, i + 1, texts[i].left, texts[i].right, token));
      return id;
    };
    merges.push_back({find(texts[i].left), find(texts[i].right), find(texts[i].left + texts[i].right)});
  }
  return merges;
}

PipelineParts read_tokenizer_json(const JsonField& root, const SpecialTokenFiles* specials) {
  const auto version = root.find("version");
  if (version && version->text() != "1.0") version->refuse("1.0");
  PipelineParts parts;
  parts.model = read_bpe(root.at("model"));
  AddedTokens added(parts.model.vocabulary);
  if (const auto list = root.find("added_tokens"))
    for (const JsonField& item : list->items())
      added.add(read_added_token(item), AddedTokens::Given{item.at("id").number(), item.at("id")});
  if (specials != nullptr) specials->add_to(added);
  parts.added = added.tokens();
  parts.normalizer = read_normalizer(root.find("normalizer"));
  PreTokenizerParts pre_tokenizer = read_pre_tokenizer(root.find("pre_tokenizer"));
  parts.pre_tokenizer = std::move(pre_tokenizer.pre_tokenizer);
  parts.byte_level = pre_tokenizer.byte_level;
  std::int64_t size = parts.model.vocabulary.back().second + 1;
  for (const AddedToken& token : parts.added) size = std::max<std::int64_t>(size, token.id + 1);
  parts.post_processor = read_post_processor(root.find("post_processor"), size);
  parts.decoder = read_decoder(root.find("decoder"));
  return parts;
}

std::unique_ptr<const Codec> load_tokenizer_json(TokenizerFolder& folder, const SpecialTokenFiles& specials) {
  const auto json = folder.read_json_if_present("tokenizer.json");
  return std::make_unique<Pipeline>(read_tokenizer_json(json->root(), &specials),
                                    folder.path_of("tokenizer.json"));
}

}  // namespace dpo::text
