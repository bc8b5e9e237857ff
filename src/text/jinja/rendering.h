// One rendering of a template: its variables, output and objects.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/objects.h"
#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// The variables of a running function. Macros that it defines keep them alive.
struct Cells : std::enable_shared_from_this<Cells> {
  Values variables;
  std::shared_ptr<Cells> outer;
};

class Rendering {
 public:
  Rendering(const Dict& variables, const Limits& limits);
  ~Rendering();
  Rendering(const Rendering&) = delete;
  Rendering& operator=(const Rendering&) = delete;

  void run(const TemplateNode& root);

  Value evaluate(const Expr& expr);
  std::optional<Value> evaluate_into(const Expr& expr, std::string& out);
  Flow execute(const Stmts& body);

  Value& variable(Slot slot);
  void enter(const Scope& scope);
  void leave(const Scope& scope);
  void assign(const Target& target, const Value& value);
  Value value_of(const Target& target);  // the value assigned last

  void write(std::string_view text);
  void write(const Expr& expr);
  void write_result(const Value& value);  // result of a filter or call block; must be a string

  Value make_namespace(Arguments& arguments);

  // Keeps cells to empty them at the end. Objects can refer to each other in cycles, which reference counts
  // do not free.
  void keep(std::shared_ptr<Cells> cells) { kept_cells_.push_back(std::move(cells)); }

  // Executes `body` and returns its output.
  template <class Body>
  std::string capture(const Body& body) {
    std::string captured;
    const Restore restore(*this, &captured);
    body();
    return captured;
  }

  // Runs a function during the lifetime of this object.
  class Activation {
   public:
    Activation(Rendering& rendering, const FunctionInfo& function, std::shared_ptr<Cells> outer);
    Activation(Rendering& rendering, std::shared_ptr<Cells> cells);  // for a function that continues
    ~Activation();

   private:
    Rendering& rendering_;
    std::shared_ptr<Cells> before_;
    std::uint32_t calls_;  // number of calls that it counts as
  };
  std::shared_ptr<Cells> make_cells(const FunctionInfo& function, std::shared_ptr<Cells> outer) const;
  const std::shared_ptr<Cells>& cells() const { return cells_; }

  Position at;  // position of the current node, for a Failure
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> generated;  // parts of the text, in bytes

 private:
  struct Restore {
    Restore(Rendering& rendering, std::string* out) : rendering_(rendering), before_(rendering.out_) {
      rendering.out_ = out;
    }
    ~Restore() { rendering_.out_ = before_; }
    Rendering& rendering_;
    std::string* before_;
  };

  Value resolve(const std::string& name);

  const Dict& context_;
  const Limits limits_;
  Value make_namespace_;
  std::shared_ptr<Cells> cells_;
  std::string* out_ = &text;
  std::uint32_t calls_ = 0;
  std::vector<std::shared_ptr<Cells>> kept_cells_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace dpo::text::jinja
