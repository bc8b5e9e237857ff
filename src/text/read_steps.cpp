#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "text/char_class.h"
#include "text/read_parts.h"

namespace dpo::text {
namespace {

// Reads a step by its "type", and a Sequence as the steps of its list `list`.
template <typename Steps>
class StepReader {
 public:
  using Read = std::function<void(const JsonField&, Steps&)>;

  StepReader(std::string list, std::map<std::string, Read> kinds)
      : list_(std::move(list)), kinds_(std::move(kinds)) {}

  void read(const JsonField& field, Steps& steps) const {
    const JsonField type = field.at("type");
    if (type.text() == "Sequence") {
      for (const JsonField& item : field.at(list_).items()) read(item, steps);
      return;
    }
    const auto kind = kinds_.find(type.text());
    if (kind == kinds_.end()) type.refuse(fmt::format("one of {}, Sequence", fmt::join(names(), ", ")));
    kind->second(field, steps);
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, read] : kinds_) names.push_back(name);
    return names;
  }

  std::string list_;
  std::map<std::string, Read> kinds_;
};

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

const StepReader<NormalizerSteps>& normalizer_reader() {
  const auto form = [](NormalForm which) {
    return [which](const JsonField&, NormalizerSteps& steps) { steps.push_back(normal_form_step(which)); };
  };
  static const StepReader<NormalizerSteps> reader(
      "normalizers",
      {{"NFC", form(NormalForm::Nfc)},
       {"NFD", form(NormalForm::Nfd)},
       {"NFKC", form(NormalForm::Nfkc)},
       {"NFKD", form(NormalForm::Nfkd)},
       {"Lowercase", [](const JsonField&, NormalizerSteps& steps) { steps.push_back(lowercase_step()); }},
       {"Prepend", [](const JsonField& f,
                      NormalizerSteps& steps) { steps.push_back(prepend_step(f.at("prepend").text())); }},
       {"Replace",
        [](const JsonField& f, NormalizerSteps& steps) {
          steps.push_back(replace_step(read_pattern(f.at("pattern")), f.at("content").text()));
        }},
       {"Strip", [](const JsonField& f, NormalizerSteps& steps) {
          steps.push_back(strip_step(f.at("strip_left").flag(), f.at("strip_right").flag()));
        }}});
  return reader;
}

void read_byte_level(const JsonField& field, PreTokenizerSteps& steps) {
  if (field.flag_or("add_prefix_space", true)) steps.push_back(prefix_space_step());
  if (field.flag_or("use_regex", true)) steps.push_back(word_step(WordPattern::Gpt2));
  steps.push_back(map_bytes_step());
}

void read_split(const JsonField& field, PreTokenizerSteps& steps) {
  const SplitBehavior behavior = read_behavior(field.at("behavior"));
  const bool invert = field.flag_or("invert", false);
  const auto regex = field.at("pattern").find("Regex");
  const auto known = regex ? known_pattern(regex->text()) : std::nullopt;
  // The known patterns match every character, so nothing lies between the matches. With "invert" and
  // "Removed", which is how some files say the same, the matches stay as well.
  const bool keeps_matches =
      behavior == SplitBehavior::Isolated || (behavior == SplitBehavior::Removed && invert);
  if (known && keeps_matches)
    steps.push_back(word_step(*known));
  else
    steps.push_back(split_step(read_pattern(field.at("pattern")), behavior, invert));
}

const StepReader<PreTokenizerSteps>& pre_tokenizer_reader() {
  static const StepReader<PreTokenizerSteps> reader(
      "pretokenizers", {{"ByteLevel", read_byte_level},
                        {"Split", read_split},
                        {"Digits",
                         [](const JsonField& f, PreTokenizerSteps& steps) {
                           const bool single = f.flag_or("individual_digits", false);
                           steps.push_back(class_split_step(
                               kNumeric, single ? SplitBehavior::Isolated : SplitBehavior::Contiguous));
                         }},
                        {"WhitespaceSplit",
                         [](const JsonField&, PreTokenizerSteps& steps) {
                           steps.push_back(class_split_step(kSpace, SplitBehavior::Removed));
                         }},
                        {"Metaspace", [](const JsonField& f, PreTokenizerSteps& steps) {
                           steps.push_back(metaspace_step(read_character(f.at("replacement")),
                                                          read_prepend_scheme(f), f.flag_or("split", true)));
                         }}});
  return reader;
}

std::size_t read_count(const JsonField& field) {
  if (field.number() < 0) field.refuse("a number that is not negative");
  return static_cast<std::size_t>(field.number());
}

const StepReader<DecoderSteps>& decoder_reader() {
  static const StepReader<DecoderSteps> reader(
      "decoders",
      {{"ByteLevel", [](const JsonField&, DecoderSteps& steps) { steps.push_back(byte_level_decoder()); }},
       {"ByteFallback",
        [](const JsonField&, DecoderSteps& steps) { steps.push_back(byte_fallback_decoder()); }},
       {"Fuse", [](const JsonField&, DecoderSteps& steps) { steps.push_back(fuse_decoder()); }},
       {"Metaspace",
        [](const JsonField& f, DecoderSteps& steps) {
          steps.push_back(metaspace_decoder(read_character(f.at("replacement")),
                                            read_prepend_scheme(f) != PrependScheme::Never));
        }},
       {"Replace",
        [](const JsonField& f, DecoderSteps& steps) {
          steps.push_back(replace_decoder(read_pattern(f.at("pattern")), f.at("content").text()));
        }},
       {"Strip", [](const JsonField& f, DecoderSteps& steps) {
          steps.push_back(strip_decoder(read_character(f.at("content")), read_count(f.at("start")),
                                        read_count(f.at("stop"))));
        }}});
  return reader;
}

}  // namespace

std::string read_character(const JsonField& field) {
  const std::string& text = field.text();
  if (text.empty() || code_point_at(text, 0).length != text.size()) field.refuse("one character");
  return text;
}

TextPattern read_pattern(const JsonField& field) {
  if (const auto literal = field.find("String")) {
    if (literal->text().empty()) literal->refuse("a text that is not empty");
    return {literal->text(), std::nullopt};
  }
  if (const auto regex = field.find("Regex")) return {"", Regex(regex->text(), regex->place())};
  field.refuse("an object with String or Regex");
}

PrependScheme read_prepend_scheme(const JsonField& metaspace) {
  const std::map<std::string, PrependScheme> kSchemes = {
      {"first", PrependScheme::First}, {"never", PrependScheme::Never}, {"always", PrependScheme::Always}};
  const auto field = metaspace.find("prepend_scheme");
  const auto legacy = metaspace.find("add_prefix_space");  // what files had before prepend_scheme
  const bool prepends = !legacy || legacy->flag();
  if (!field) return prepends ? PrependScheme::Always : PrependScheme::Never;
  const auto scheme = kSchemes.find(field->text());
  if (scheme == kSchemes.end()) field->refuse("first, never or always");
  if (!prepends && scheme->second != PrependScheme::Never) legacy->refuse("true, as prepend_scheme says");
  return scheme->second;
}

Normalizer read_normalizer(const std::optional<JsonField>& field) {
  NormalizerSteps steps;
  if (field) normalizer_reader().read(*field, steps);
  return Normalizer(std::move(steps));
}

PreTokenizerParts read_pre_tokenizer(const std::optional<JsonField>& field) {
  PreTokenizerSteps steps;
  if (field) pre_tokenizer_reader().read(*field, steps);
  const bool maps_last = !steps.empty() && maps_bytes(*steps.back());
  if (maps_last) steps.pop_back();
  return {PreTokenizer(std::move(steps)), maps_last};
}

Decoder read_decoder(const std::optional<JsonField>& field) {
  if (!field) return Decoder();
  DecoderSteps steps;
  decoder_reader().read(*field, steps);
  return Decoder(std::move(steps));
}

}  // namespace dpo::text
