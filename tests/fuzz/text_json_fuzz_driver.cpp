// Runs the fuzz target without libFuzzer: valid files, spoilt. Usage: text_json_fuzz [COUNT [SEED]]
#include <cstdio>
#include <cstdlib>

#include "../unit/text/samples.h"
#include "mutate.h"
#include "text_fuzz.h"

namespace {

using dpo::text::samples::Json;
namespace samples = dpo::text::samples;

// Values that a field might get.
const char* const kValues[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "256",
    "4000000000",
    "1e99",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "[]",
    "{}",
    "[[]]",
    R"({"type":"NFC"})",
    R"({"type":"NFD"})",
    R"({"type":"NFKC"})",
    R"({"type":"NFKD"})",
    R"({"type":"Lowercase"})",
    R"({"type":"Strip","strip_left":true,"strip_right":true})",
    R"({"type":"Prepend","prepend":"x"})",
    R"({"type":"Replace","pattern":{"Regex":"[ab]|\\s+$"},"content":"c"})",
    R"({"type":"Replace","pattern":{"String":"a"},"content":""})",
    R"({"type":"Split","pattern":{"Regex":"(a|b)*|\\p{L}{2}"},"behavior":"MergedWithNext","invert":false})",
    R"({"type":"Split","pattern":{"Regex":"(?:x(?=b)|[^\\s\\p{N}])+?"},"behavior":"Contiguous","invert":true})",
    R"({"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":true})",
    R"({"type":"Digits","individual_digits":true})",
    R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})",
    R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})",
    R"({"type":"Metaspace","replacement":"_","add_prefix_space":true})",
    R"({"type":"Fuse"})",
    R"({"type":"WordPiece"})",
    R"({"type":"Sequence","normalizers":[],"pretokenizers":[],"decoders":[],"processors":[]})",
    R"({"type":"ByteFallback"})",
    R"({"type":"Strip","content":"é","start":2,"stop":3})",
    R"(["a","b"])",
    R"("a b")",
    R"({"Regex":"\\p{Lx}"})",
    R"({"Regex":"("})",
    R"({"Regex":"[[:alpha:]]"})",
    R"({"String":"b"})",
    R"("Isolated")",
    R"("never")",
    R"("Unigram")",
    R"({"id":17,"content":" x","lstrip":true,"rstrip":true,"single_word":true,"special":false})",
};

const std::string kBytes[] = {"{", "}", "[", "]", "\"", ",", ":", "\\", "\\u", "-", "\xff"};

class Files {
 public:
  explicit Files(std::uint64_t seed) : mutator_(seed) {}

  std::string make() {
    Json file = below(2) == 0 ? gpt2_ : llama_;
    for (std::size_t i = below(4); i > 0; --i) change_value(file);
    std::string text = file.dump();
    if (below(8) == 0) mutator_.mutate(text, kBytes, 4);
    if (below(5000) == 0) text.insert(below(text.size() + 1), std::string(100000, '['));
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return mutator_.below(bound); }

  // Walks down to some value and replaces, removes or repeats it.
  void change_value(Json& file) {
    Json* at = &file;
    while (at->is_structured() && !at->empty() && below(4) != 0) {
      auto child = at->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(below(std::min<std::size_t>(at->size(), 12))));
      if (below(8) == 0) {
        at->erase(child);
        return;
      }
      at = &*child;
    }
    const Json value = Json::parse(mutator_.pick(kValues));
    if (at->is_array() && below(2) == 0)
      at->push_back(value);
    else
      *at = value;
  }

  fuzz::Mutator mutator_;
  // Small, so that a million of them take minutes.
  const Json gpt2_ = samples::gpt2({"h", "e", "l", "o", "w", "1", "2", "a", "b", dpo::text::map_bytes(" ")});
  const Json llama_ = samples::llama(4);
};

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  Files files(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  long accepted = 0;
  for (long i = 0; i < count; ++i) accepted += try_text_input(files.make());
  std::printf("files: %ld, accepted %ld\n", count, accepted);
  return accepted > 0 && accepted < count ? 0 : 1;
}
