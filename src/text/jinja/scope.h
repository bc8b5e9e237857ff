// Finds where each variable of a template is stored. Jinja2 decides this when it compiles a template
// (idtracking.py), and its rules are visible: a variable that is set only later is undefined, even if the
// caller has one of the same name.
#pragma once

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// Fills slots, scopes and functions of all nodes. Throws SyntaxError for a template that Jinja2 does not
// compile.
void resolve(TemplateNode& root);

}  // namespace dpo::text::jinja
