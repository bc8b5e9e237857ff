// Where each variable of a template lives. Jinja2 decides that when it compiles a template (its
// idtracking.py), with rules that show: a variable that is set only later is undefined, and not the one of
// the caller of the same name.
#pragma once

#include "text/jinja/statements.h"

namespace dpo::text::jinja {

// Fills slots, scopes and functions of all nodes. Throws SyntaxError for what Jinja2 refuses to compile.
void resolve(TemplateNode& root);

}  // namespace dpo::text::jinja
