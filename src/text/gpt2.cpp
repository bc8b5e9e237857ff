#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_json.h"

namespace dpo::text {
namespace {

std::vector<MergeText> read_merges(const std::string& text, const std::string& file) {
  std::vector<MergeText> merges;
  std::size_t number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos || !is_valid_utf8(line))
      throw UserError(fmt::format("{}:{}: expected two tokens with a space between them", file, number));
    merges.push_back({std::string(line.substr(0, space)), std::string(line.substr(space + 1))});
  }
  return merges;
}

AddedToken special_or_default(const SpecialTokenFiles& specials, const std::string& role) {
  if (const auto named = specials.find(role)) return named->token;
  AddedToken token;
  token.content = kGpt2SpecialToken;
  token.special = true;
  token.normalized = false;
  return token;
}

std::vector<AddedToken> added_tokens(const Vocabulary& vocabulary, const SpecialTokenFiles& specials) {
  AddedTokens added(vocabulary);
  specials.add_to(added);
  for (const char* role : {"bos_token", "eos_token", "unk_token"})
    added.add(special_or_default(specials, role), std::nullopt);
  if (const auto pad = specials.find("pad_token")) added.add(pad->token, std::nullopt);
  return added.tokens();
}

}  // namespace

PipelineParts read_gpt2(TokenizerFolder& folder, const SpecialTokenFiles& specials) {
  PipelineParts parts;
  parts.model.vocabulary = read_vocabulary(folder.read_json_if_present("vocab.json")->root());
  const std::string file = folder.path_of("merges.txt");
  parts.model.merges =
      resolve_merges(read_merges(folder.read("merges.txt"), file), parts.model.vocabulary, file);
  parts.added = added_tokens(parts.model.vocabulary, specials);
  if (specials.flag("add_bos_token", false)) {
    const std::string bos = special_or_default(specials, "bos_token").content;
    for (const AddedToken& token : parts.added)
      if (token.content == bos) parts.post_processor = {token.id, std::nullopt};
  }
  PreTokenizerSteps steps;
  if (specials.flag("add_prefix_space", false)) steps.push_back(prefix_space_step());
  steps.push_back(word_step(WordPattern::Gpt2));
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  parts.byte_level = true;
  DecoderSteps decoder;
  decoder.push_back(byte_level_decoder());
  parts.decoder = Decoder(std::move(decoder));
  return parts;
}

std::unique_ptr<const Codec> load_gpt2(TokenizerFolder& folder, const SpecialTokenFiles& specials) {
  return std::make_unique<Pipeline>(read_gpt2(folder, specials), folder.path_of("merges.txt"));
}

}  // namespace dpo::text
