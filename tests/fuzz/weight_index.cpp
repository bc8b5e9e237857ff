// One input is the index of a model in several files. Only a UserError may escape, allocations are bounded by
// the file's size, and no accepted file leaves the folder.
#include <filesystem>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "checkpoint/formats/index.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::weight_index {
namespace {

bool try_input(std::string_view input) {
  // A parser's message quotes the last token, with 8 bytes for a control character, and is copied.
  constexpr std::size_t kPerByte = 64;
  dpo::checkpoint::WeightMap map;
  bool accepted = false;
  {
    const AllocationCount count;
    try {
      map = dpo::checkpoint::parse_weight_index(input, "input");
      accepted = true;
    } catch (const dpo::UserError& error) {
      if (!std::string_view(error.what()).starts_with("input: ")) fail("a message without its file");
    }
    check_allocations(count, input.size(), kPerByte);
  }
  const std::filesystem::path folder = "/models/folder";
  for (const auto& [tensor, file] : map) {
    const std::string place = (folder / file).lexically_normal();
    if (!place.starts_with("/models/folder/") || place.back() == '/') fail("a file outside of the folder");
  }
  return accepted;
}

const std::string kSeeds[] = {
    R"({"metadata": {"total_size": 123, "total_parameters": 12}, "weight_map": {
        "a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}})",
    R"({"weight_map": {"x": "pytorch_model-00001-of-00001.bin"}, "metadata": null})",
    R"({"weight_map": {}, "other": [1, {"weight_map": {"a": 1}}, "text", true, 1.5]})",
    R"({"weight_map": {"x": "sub/folder/file.bin", "y": "a"}})",
};

const Tokens kTokens =
    json_tokens({"\\\"", "..", "../", "/", "./", "\\u002e", "//", "\"weight_map\"", "\"weight_map\":{",
                 "\"x\":\"../x\",", "\"x\":\"/etc/passwd\",", "\"x\":\"\",", "\"x\":\"a\",", ".\"", "/.."});

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

const Registered kTarget({"weight_index", make, try_input});

}  // namespace
}  // namespace fuzz::weight_index
