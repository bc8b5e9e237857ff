// Renders templates with given variables: lines {"template": ..., "variables": ...} to lines {"text": ...,
// "generated": ...} or {"error": ...}.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      const dpo::text::jinja::Value input = dpo::text::jinja::parse_json(line);
      const dpo::text::jinja::Template parsed(input.find("template")->string());
      const dpo::text::jinja::Rendered rendered = parsed.render(input.find("variables")->dict());
      answer = {{"text", rendered.text}, {"generated", rendered.generated}};
    } catch (const dpo::text::jinja::Failure& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << "\n";
  }
}
