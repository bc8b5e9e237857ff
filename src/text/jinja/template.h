#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace dpo::text::jinja {

struct TemplateNode;

struct Rendered {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>>
      generated;  // text of generation blocks, as [begin, end) in bytes
};

// Thrown by a rendering that fails, with the position.
class RenderError : public Failure {
 public:
  RenderError(Position position, std::string message, bool by_template)
      : Failure(std::move(message)), at(position), raised(by_template) {}
  Position at;
  bool raised;  // true if raise_exception was called
};

// A parsed template. It is immutable; render may be called from many threads at once.
class Template {
 public:
  explicit Template(const std::string& source);  // throws SyntaxError
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  Rendered render(const Dict& variables, const Limits& limits = {}) const;  // throws RenderError
  bool marks_generation() const;

 private:
  std::unique_ptr<TemplateNode> root_;
};

}  // namespace dpo::text::jinja
