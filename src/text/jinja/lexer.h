// Splits the text of a template into tokens like Jinja2 with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace dpo::text::jinja {

struct Position {
  std::uint32_t line = 1, column = 1;  // start at 1; columns count characters
};

enum class TokenType : std::uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // end of the template
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;  // data, name, the string's value, or operator
  Value number;      // value of kInteger and kFloat
  Position at;
};

// A syntax error in the template.
class SyntaxError : public Failure {
 public:
  SyntaxError(Position position, std::string message) : Failure(std::move(message)), at(position) {}
  Position at;
};

// Returns all tokens; the last is kEnd. The source must be valid UTF-8. Throws SyntaxError.
std::vector<Token> tokenize(const std::string& source);

std::string describe(const Token& token);

}  // namespace dpo::text::jinja
