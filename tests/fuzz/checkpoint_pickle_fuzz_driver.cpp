// Runs the fuzz target without libFuzzer on spoilt archives and pickles. Usage: checkpoint_pickle_fuzz [COUNT
// [SEED]]
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "checkpoint/formats/policy_writer.h"
#include "checkpoint/formats/zip.h"
#include "mutate.h"
#include "weights_fuzz.h"

namespace {

using namespace std::string_literals;
using namespace dpo::checkpoint;

std::string archive() {
  const auto path = std::filesystem::temp_directory_path() / ("dpo_fuzz_" + std::to_string(getpid()) + ".pt");
  static const std::string kNumbers(24, 'n');
  const auto bytes = [] { return std::as_bytes(std::span(kNumbers)); };
  write_policy(path,
               {{"a.weight", Dtype::F32, {2, 3}, bytes},
                {"b", Dtype::BF16, {12}, bytes},
                {"c", Dtype::F64, {3, 1, 1}, bytes}},
               {{"shared", "a.weight"}});
  std::string file = dpo::read_text_file(path, "seed");
  std::filesystem::remove(path);
  return file;
}

std::string pickle_of(const std::string& file) {
  const auto files = read_stored_zip(std::as_bytes(std::span(file)), "seed");
  for (const auto& [name, bytes] : files)
    if (name.ends_with("data.pkl")) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return "";
}

// Opcodes, and numbers as the zip's records hold them.
const std::string kTokens[] = {"(",
                               ")",
                               "]",
                               "}",
                               "t",
                               "l",
                               "u",
                               "s",
                               "a",
                               "e",
                               "R",
                               "Q",
                               "b",
                               "0",
                               "N",
                               ".",
                               "h\0"s,
                               "h\1",
                               "q\0"s,
                               "q\1",
                               "\x85",
                               "\x86",
                               "\x87",
                               "\x88",
                               "\x93",
                               "\x94",
                               "K\1",
                               "M\xff\xff",
                               "J\xff\xff\xff\xff",
                               "J\xff\xff\xff\x7f",
                               "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                               "\x8a\1\xff",
                               "X\1\0\0\0a"s,
                               "X\xff\xff\xff\xff",
                               "\x8c\1a",
                               "cos\nsystem\n",
                               "ccollections\nOrderedDict\n)R",
                               "ctorch\nHalfStorage\n",
                               "G\0\0\0\0\0\0\0\0"s,
                               "]q\1",
                               "}q\2",
                               "\x95\0\0\0\0\0\0\0\0"s,
                               "PK\1\2",
                               "PK\3\4",
                               "PK\5\6",
                               "PK\6\6",
                               "PK\6\7",
                               "\0\0\0\0"s,
                               "\xff\xff\xff\xff",
                               "\xff\xff",
                               "\xff\xff\xff\xff\xff\xff\xff\xff",
                               "\1\0\x18\0"s,
                               "\0\0\0\x80"s};

class Inputs {
 public:
  std::string operator()(fuzz::Mutator& mutator) const {
    std::string text = mutator.below(2) == 0 ? archive_ : pickle_;
    mutator.mutate(text, kTokens, 5);
    return text;
  }

 private:
  std::string archive_ = archive();
  std::string pickle_ = pickle_of(archive_);
};

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv, "archives and pickles", Inputs(), try_weights_input);
}
