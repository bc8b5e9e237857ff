#include "text/jinja/statements.h"
#include "text/jinja/macro.h"
#include "text/jinja/python.h"
#include "text/jinja/rendering.h"

namespace dpo::text::jinja {

Flow OutputStmt::execute(Rendering& rendering) const {
  for (const Part& part : parts) {
    if (part.expr)
      rendering.write(*part.expr);
    else
      rendering.write(part.text);
  }
  return Flow::kNext;
}

Flow IfStmt::execute(Rendering& rendering) const {
  for (const Branch& branch : branches)
    if (truth(rendering.evaluate(*branch.test))) return rendering.execute(branch.body);
  return rendering.execute(otherwise);
}

Flow SetStmt::execute(Rendering& rendering) const {
  rendering.at = at;
  for (const Slot slot : namespaces)
    if (!object_as<Namespace>(rendering.variable(slot)))
      throw Failure("cannot assign attribute on non-namespace object");
  const Value assigned = rendering.evaluate(*value);
  rendering.at = at;
  rendering.assign(resolved, assigned);
  return Flow::kNext;
}

Flow SetBlockStmt::execute(Rendering& rendering) const {
  rendering.enter(scope);
  Flow flow = Flow::kNext;
  Value content = rendering.capture([&] { flow = rendering.execute(body); });
  if (flow != Flow::kNext) return flow;
  if (filter) content = filter->apply(rendering, &content);
  rendering.at = at;
  rendering.assign(resolved, content);
  rendering.leave(scope);
  return Flow::kNext;
}

Flow MacroStmt::execute(Rendering& rendering) const {
  rendering.variable(slot) = make_macro(rendering, name, macro);
  rendering.keep(rendering.cells());
  return Flow::kNext;
}

Flow CallBlockStmt::execute(Rendering& rendering) const {
  const Value caller = make_macro(rendering, std::nullopt, macro);
  if (call) {
    const Value result = call->call(rendering, &caller);
    rendering.at = at;
    rendering.write_result(result);
    return Flow::kNext;
  }
  // Like in transformers, the range begins at the end of the output so far, even if the block is in a macro.
  const Value result = object_as<Callable>(caller)->call({});
  const std::size_t begin = rendering.text.size();
  rendering.generated.emplace_back(begin, begin + result.string().size());
  rendering.write_result(result);
  return Flow::kNext;
}

Flow FilterBlockStmt::execute(Rendering& rendering) const {
  rendering.enter(scope);
  Flow flow = Flow::kNext;
  const Value content = rendering.capture([&] { flow = rendering.execute(body); });
  if (flow != Flow::kNext) return flow;
  const Value result = filter->apply(rendering, &content);
  rendering.write_result(result);
  rendering.leave(scope);
  return Flow::kNext;
}

}  // namespace dpo::text::jinja
