#include "text/jinja/template.h"

#include "base/utf8.h"
#include "text/jinja/parser.h"
#include "text/jinja/rendering.h"

namespace dpo::text::jinja {

Template::Template(const std::string& source) {
  if (!is_valid_utf8(source)) throw SyntaxError({}, "the template is not valid UTF-8");
  root_ = parse(source);
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Rendered Template::render(const Dict& variables, const Limits& limits) const {
  const Budget budget(limits);
  Rendering rendering(variables, limits);
  try {
    rendering.run(*root_);
  } catch (const Raised& error) {
    throw RenderError(rendering.at, error.what(), true);
  } catch (const Failure& error) {
    throw RenderError(rendering.at, error.what(), false);
  }
  return {std::move(rendering.text), std::move(rendering.generated)};
}

bool Template::marks_generation() const { return root_->has_generation; }

}  // namespace dpo::text::jinja
