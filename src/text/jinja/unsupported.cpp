#include "text/jinja/unsupported.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/jinja/characters.h"

namespace dpo::text::jinja {

std::span<const UnsupportedNames> unsupported_names() {
  static constexpr UnsupportedNames kNames[] = {
      {"tag", "autoescape block extends from import include print with"},
      {"loop modifier", "recursive"},
      {"variable", "kwargs self varargs"},
      {"macro parameter", "caller"},
      {"loop attribute", "changed cycle depth depth0"},
      {"operator", "**"},
      {"function", "cycler joiner lipsum"},
      {"filter",
       "attr batch center e escape filesizeformat forceescape groupby pprint random slice striptags truncate "
       "urlencode "
       "urlize wordcount wordwrap xmlattr"},
      {"test", "escaped filter lower test upper"},
      {"text method",
       "casefold center encode expandtabs format_map isascii isidentifier islower isnumeric isprintable "
       "istitle isupper ljust maketrans rjust swapcase translate zfill"},
      {"macro attribute", "arguments caller catch_kwargs catch_varargs explicit_caller name"},
      {"number attribute",
       "as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer "
       "numerator real to_bytes"},
  };
  return kNames;
}

bool is_unsupported(std::string_view kind, std::string_view name) {
  return std::ranges::any_of(unsupported_names(), [&](const UnsupportedNames& each) {
    return each.kind == kind && std::ranges::count(split_space(each.names), name) > 0;
  });
}

std::string unsupported(std::string_view kind, std::string_view name) {
  return fmt::format("the template uses the {} {}, which dpo does not support", kind, name);
}

std::string not_found(std::string_view kind, std::string_view name) {
  return is_unsupported(kind, name) ? unsupported(kind, name) : fmt::format("no {} named '{}'", kind, name);
}

}  // namespace dpo::text::jinja
