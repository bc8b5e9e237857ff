// Runs the fuzz target without libFuzzer on spoilt indexes. Usage: checkpoint_index_fuzz [COUNT [SEED]]
#include "mutate.h"
#include "weights_fuzz.h"

namespace {

const std::string kSeeds[] = {
    R"({"metadata": {"total_size": 123, "total_parameters": 12}, "weight_map": {
        "a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}})",
    R"({"weight_map": {"x": "pytorch_model-00001-of-00001.bin"}, "metadata": null})",
    R"({"weight_map": {}, "other": [1, {"weight_map": {"a": 1}}, "text", true, 1.5]})",
    R"({"weight_map": {"x": "sub/folder/file.bin", "y": "a"}})",
};

const std::string kTokens[] = {"{",
                               "}",
                               "[",
                               "]",
                               ",",
                               ":",
                               "\"",
                               "\\",
                               "\\\"",
                               "..",
                               "../",
                               "/",
                               "./",
                               "\\u0000",
                               "\\u002e",
                               "//",
                               "\"weight_map\"",
                               "\"weight_map\":{",
                               "\"x\":\"../x\",",
                               "\"x\":\"/etc/passwd\",",
                               "\"x\":\"\",",
                               "\"x\":\"a\",",
                               "null",
                               "true",
                               "-1",
                               "1e999",
                               "[[",
                               "{\"a\":",
                               "\xff",
                               "\xef\xbb\xbf",
                               "\n",
                               ".\"",
                               "/.."};

std::string make(fuzz::Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run(argc, argv, "indexes", make, try_weights_input); }
