// Tokens of formats that several targets read. A target adds the tokens of its own files.
#pragma once

#include <string>
#include <vector>

namespace fuzz {

using Tokens = std::vector<std::string>;

inline Tokens json_tokens(Tokens own) {
  const Tokens shared = {"{",
                         "}",
                         "[",
                         "]",
                         ",",
                         ":",
                         "\"",
                         "\\",
                         "\n",
                         " ",
                         "null",
                         "true",
                         "0",
                         "-1",
                         "-0",
                         "1.5",
                         "1e999",
                         "9223372036854775808",
                         "18446744073709551615",
                         "[[",
                         "{\"a\":",
                         "\\u0000",
                         "\\ud800",
                         "\xc3\xa9",
                         "\xff",
                         "\xef\xbb\xbf",
                         std::string(1, '\0')};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

inline Tokens yaml_tokens(Tokens own) {
  const Tokens shared = {
      "[",     "]",     "{",         "}",       "'",        "\"",   "\\",           ",",
      ":",     ": ",    "\n",        "\r\n",    " ",        "\t",   "- ",           "#",
      "~",     "null",  "true",      "&a ",     "*a",       "<<: ", "!!int ",       "|\n",
      ">\n",   "? ",    "---\n",     "...\n",   ".inf",     ".nan", "-1",           "0",
      "1e999", "1e308", "%YAML 9\n", "\\u0000", "\xc3\xa9", "\xff", "\xef\xbb\xbf", std::string(1, '\0')};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

}  // namespace fuzz
