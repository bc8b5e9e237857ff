#include "text/ollama_template.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace dpo::text {
namespace {

struct Message {
  std::string role, content;
};
using Messages = std::vector<Message>;

std::string render(const ChatTemplate& chat_template, const Messages& messages) {
  jinja::Values list;
  for (const Message& message : messages)
    list.emplace_back(jinja::Dict{{"role", message.role}, {"content", message.content}});
  return chat_template
      .render(jinja::Dict{{"messages", jinja::Value::list(std::move(list))}, {"add_generation_prompt", true}})
      .text;
}

// Returns the text around the contents of the messages, which must occur in this order. Returns nothing if
// one is missing.
std::optional<std::vector<std::string>> text_between(const std::string& text, const Messages& messages) {
  std::vector<std::string> between;
  std::size_t at = 0;
  for (const Message& message : messages) {
    const std::size_t found = text.find(message.content, at);
    if (found == text.npos) return std::nullopt;
    between.push_back(text.substr(at, found - at));
    at = found + message.content.size();
  }
  between.push_back(text.substr(at));
  return between;
}

std::size_t common_start(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::size_t common_end(const std::string& a, const std::string& b) {
  const auto ends = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  return static_cast<std::size_t>(ends.first - a.rbegin());
}

// The pieces of text of which a rendered conversation consists.
struct Pieces {
  std::string start;  // of a conversation without system message
  std::string before_system, after_system;
  std::string before_user, after_user;
  std::string before_assistant, after_assistant;
  std::string end;  // where the next answer begins

  std::string render(const Messages& messages) const {
    std::string text = messages.front().role == "system" ? "" : start;
    for (const Message& message : messages) {
      if (message.role == "system") text += before_system + message.content + after_system;
      if (message.role == "user") text += before_user + message.content + after_user;
      if (message.role == "assistant") text += before_assistant + message.content + after_assistant;
    }
    return text + end;
  }

  std::string go_template() const {
    return fmt::format(
        "{{{{ if .System }}}}{}{{{{ .System }}}}{}{{{{ else }}}}{}{{{{ end }}}}"
        "{{{{ range .Messages }}}}{{{{ if eq .Role \"user\" }}}}{}{{{{ .Content }}}}{}"
        "{{{{ else if eq .Role \"assistant\" }}}}{}{{{{ .Content }}}}{}{{{{ end }}}}{{{{ end }}}}{}",
        before_system, after_system, start, before_user, after_user, before_assistant, after_assistant, end);
  }
};

std::optional<Pieces> find_pieces(const ChatTemplate& chat_template) {
  const Messages dialog = {
      {"user", "FIRST QUESTION"}, {"assistant", "FIRST ANSWER"}, {"user", "SECOND QUESTION"}};
  Messages with_system = dialog;
  with_system.insert(with_system.begin(), {"system", "SYSTEM MESSAGE"});
  const auto plain = text_between(render(chat_template, dialog), dialog);
  const auto full = text_between(render(chat_template, with_system), with_system);
  if (!plain || !full) return std::nullopt;
  const std::string &first = plain->at(0), &to_answer = plain->at(1), &to_question = plain->at(2),
                    &last = plain->at(3), &from_system = full->at(1);
  const std::size_t user = std::min(
      {common_end(first, to_question), common_end(first, from_system), common_end(to_question, from_system)});
  const std::size_t answer = common_start(to_answer, last);
  return Pieces{.start = first.substr(0, first.size() - user),
                .before_system = full->at(0),
                .after_system = from_system.substr(0, from_system.size() - user),
                .before_user = first.substr(first.size() - user),
                .after_user = to_answer.substr(0, answer),
                .before_assistant = to_answer.substr(answer),
                .after_assistant = to_question.substr(0, to_question.size() - user),
                .end = last.substr(answer)};
}

bool renders_equally(const Pieces& pieces, const ChatTemplate& chat_template) {
  const Message system = {"system", "You help."}, question = {"user", "What?"},
                answer = {"assistant", "That."};
  const Messages examples[] = {{question},
                               {system, question},
                               {question, answer, {"user", "Why?"}, {"assistant", "So."}, question},
                               {system, question, answer, {"user", "Why?"}, {"assistant", "So."}, question}};
  return std::ranges::all_of(examples, [&](const Messages& messages) {
    return pieces.render(messages) == render(chat_template, messages);
  });
}

std::ptrdiff_t count_actions(const std::string& text) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = 0; (at = text.find("{{", at)) != text.npos; at += 2) ++count;
  return count;
}

}  // namespace

std::optional<std::string> ollama_template(const ChatTemplate& chat_template, const std::string& bos) try {
  if (chat_template.source().find("strftime_now") != std::string::npos) return std::nullopt;
  std::optional<Pieces> pieces = find_pieces(chat_template);
  if (!pieces || !renders_equally(*pieces, chat_template)) return std::nullopt;
  for (std::string* first : {&pieces->start, &pieces->before_system})
    if (!bos.empty() && first->starts_with(bos)) first->erase(0, bos.size());
  std::string text = pieces->go_template();
  // Text that would end the template in a Modelfile, or that Go would evaluate.
  constexpr std::ptrdiff_t kActions = 11;  // of go_template itself
  if (text.find("\"\"\"") != text.npos || count_actions(text) != kActions) return std::nullopt;
  return text;
} catch (const TemplateError&) {
  return std::nullopt;
}

}  // namespace dpo::text
