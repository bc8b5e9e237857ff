// One input is the text of a tokenizer.json. Whatever it is, only a UserError with printable lines may
// escape; what is accepted must encode and decode any text.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../unit/text/samples.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text_fuzz.h"

namespace {

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "text_json_fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

void try_texts(const dpo::text::Engine& engine) {
  for (const std::string_view text :
       {"Hello  world, it's 12 o'clock\r\n", "\u2581a b é \u0301漢字😀<s></s>[X]", " ", ""}) {
    const auto ids = dpo::text::samples::encode(engine, text, true);
    for (const auto id : ids)
      if (id < 0 || id >= engine.size()) fail("an id outside of the vocabulary", std::to_string(id));
    const std::string decoded = engine.decode(ids, false);
    if (dpo::first_invalid_utf8(decoded) != decoded.size()) fail("decoding gave invalid UTF-8", decoded);
  }
}

}  // namespace

bool try_text_input(std::string_view input) {
  try {
    const auto engine = dpo::text::samples::load(std::string(input));
    try_texts(*engine);
    return true;
  } catch (const dpo::UserError& error) {
    for (const std::string& problem : error.problems())
      if (problem.empty() || dpo::first_invalid_utf8(problem) != problem.size())
        fail("a bad message", problem);
    return false;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try_text_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
