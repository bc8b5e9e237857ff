#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"

namespace dpo::text {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

// The state of one search. Threads share a Regex, so each search has its own.
class Search {
 public:
  explicit Search(const pcre2_code& code)
      : code_(code),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr)),
        data_(pcre2_match_data_create_from_pattern(&code, nullptr)) {
    if (!context_ || !stack_ || !data_) throw std::bad_alloc();
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  // Finds the start and end of the next match. Returns false if there is none.
  bool find(std::string_view text, std::size_t from, std::size_t& start, std::size_t& end) {
    const int result = pcre2_match(&code_, units_of(text), text.size(), from, PCRE2_NO_UTF_CHECK, data_.get(),
                                   context_.get());
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      throw UserError(fmt::format("the tokenizer's regular expression failed on a text of {} bytes: {}",
                                  text.size(), message_of(result)));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    start = offsets[0];
    end = offsets[1];
    return true;
  }

 private:
  const pcre2_code& code_;
  Owned<pcre2_match_context> context_;
  Owned<pcre2_jit_stack> stack_;
  Owned<pcre2_match_data> data_;
};

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> compiled;
};

Regex::Regex(const std::string& pattern, const std::string& where) {
  const std::string translated = translate_pattern(pattern, where);
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  Owned<pcre2_code> code(pcre2_compile(units_of(translated), translated.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context.get()));
  if (!code)
    throw UserError(fmt::format("{}: invalid regular expression {}: {}", where, pattern, message_of(error)));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // optional: without a JIT, matching is slower
  code_ = std::make_unique<const Code>(Code{std::move(code)});
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

void Regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& found) const {
  Search search(*code_->compiled);
  std::size_t from = 0;
  std::size_t start = 0;
  std::size_t end = 0;
  std::size_t last_end = std::string_view::npos;
  while (from <= text.size() && search.find(text, from, start, end)) {
    if (start == end && end == last_end) {  // an empty match right after another match is ignored
      from += from < text.size() ? code_point_at(text, from).length : 1;
      continue;
    }
    found(start, end);
    from = last_end = end;
  }
}

}  // namespace dpo::text
