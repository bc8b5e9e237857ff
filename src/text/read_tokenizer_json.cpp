#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "text/folder.h"
#include "text/read_parts.h"

namespace dpo::text {
namespace {

Template read_template(const JsonField& field, std::int64_t size) {
  Template out;
  for (const JsonField& piece : field.at("single").items()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (sequence->at("id").text() != "A") sequence->at("id").refuse("A, the one text that is encoded");
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
  return false;  // ByteLevel changes offsets alone, and we have none
}

}  // namespace

Template read_post_processor(const std::optional<JsonField>& field, std::int64_t size) {
  std::vector<JsonField> templates;
  if (field && field->at("type").text() == "Sequence") {
    for (const JsonField& item : field->at("processors").items())
      if (is_template(item)) templates.push_back(item);
  } else if (field && is_template(*field)) {
    templates.push_back(*field);
  }
  if (templates.empty()) return {std::nullopt};
  if (templates.size() > 1) templates[1].refuse("one TemplateProcessing at most");
  return read_template(templates[0], size);
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
  parts.bytes_of_text = pre_tokenizer.bytes_of_text;
  std::int64_t size = parts.model.vocabulary.back().second + 1;
  for (const AddedToken& token : parts.added) size = std::max<std::int64_t>(size, token.id + 1);
  parts.post_processor = read_post_processor(root.find("post_processor"), size);
  parts.decoder = read_decoder(root.find("decoder"));
  return parts;
}

}  // namespace dpo::text
