#include "data/prompt_lines.h"

#include "data/end_of_turn.h"
#include "unit/data/byte_tokenizer.h"

namespace dpo::data {
namespace {

class PromptLines : public WithFolder {
 protected:
  // Returns the prompt of each row and its responses, separated by |; or the problem, without the folder.
  std::string responses(const std::string& lines, const ColumnNames& names = {},
                        const std::string& name = "rows.jsonl") const {
    std::string shown;
    const std::string problem = problem_of([&] {
      for (const PromptLine& line : read_responses(write(name, lines).string(), names)) {
        shown += line.text.prompt;
        for (const std::string& response : line.text.responses) shown += "|" + response;
        shown += "\n";
      }
    });
    return problem.empty() ? shown : problem.substr(folder_.string().size() + 1);
  }

  std::string conversations(const std::string& lines) const {
    std::string shown;
    const std::string problem = problem_of([&] {
      for (const PromptLine& line : read_conversations(write("prompts", lines).string()))
        shown += line.text.prompt + "\n";
    });
    return problem.empty() ? shown : problem.substr(folder_.string().size() + 1);
  }
};

TEST_F(PromptLines, ResponsesOfTexts) {
  EXPECT_EQ(responses(R"({"prompt": "p", "responses": ["a", "b"], "more": 1})"), "p|a|b\n");
  EXPECT_EQ(responses(R"({"prompt": "p", "responses": ["a", "b"]})", {}, "rows"), "p|a|b\n");
  EXPECT_EQ(responses(R"({"prompt": "p", "responses": ["a", "b"], "scores": [1, 2]})"), "p|a|b\n");
  EXPECT_EQ(responses(R"({"prompt": "p", "chosen": "a", "rejected": "b", "completions": ["c"]})"), "p|a|b\n");
  EXPECT_EQ(responses(R"({"prompt": "", "chosen": "a", "rejected": "b"})"), "|a|b\n");
  EXPECT_EQ(responses(R"({"prompt": "p", "completion": "a", "label": false})"), "p|a\n");
  EXPECT_EQ(responses(R"({"text": "a"})"), "|a\n");
  EXPECT_EQ(responses(R"({"q": "p", "chosen": "a", "rejected": "b"})", {{"prompt", "q"}}), "p|a|b\n");
  EXPECT_EQ(responses("prompt,chosen,rejected\np,a,b\n", {}, "rows.csv"), "p|a|b\n");
}

TEST_F(PromptLines, ResponsesOfConversations) {
  const std::string user = R"({"role": "user", "content": "q"})",
                    answer = R"({"role": "assistant", "content": "a"})";
  const std::string expected = R"({"messages": [)" + user + "]}|[" + answer + "]";
  EXPECT_EQ(responses(R"({"messages": [)" + user + "," + answer + "]}"), expected + "\n");
  EXPECT_EQ(responses(R"({"prompt": [)" + user + R"(], "responses": ["a"]})"), expected + "\n");
  EXPECT_EQ(responses(R"({"prompt": [)" + user + R"(], "responses": [[)" + answer + "], [" + answer + "]]}"),
            expected + "|[" + answer + "]\n");
}

TEST_F(PromptLines, ProblemsNameTheLine) {
  const std::string good = R"({"prompt": "p", "responses": ["a"]})";
  for (const char* const name : {"rows.jsonl", "rows"}) {
    const auto problem = [&](const std::string& bad) { return responses(good + "\n\n" + bad, {}, name); };
    const std::string start = std::string(name) + ":3: ";
    EXPECT_TRUE(problem("{").starts_with(start + "not valid JSON at column 2: the line ends"))
        << problem("{");
    EXPECT_EQ(problem("[]"), start + "got a list, expected an object with named columns");
    EXPECT_EQ(problem(R"({"prompt": 3, "responses": ["a"]})"),
              start + "'prompt' is a number, expected a string or messages with 'role' and 'content'");
    EXPECT_TRUE(problem(R"({"prompt": "p", "chosen": "a"})").starts_with(start + "expected the columns"));
    EXPECT_TRUE(problem(R"({"prompt": "p", "chosen": "a"})").ends_with("--columns NAME=COLUMN)"));
    EXPECT_TRUE(problem(R"({"prompt": "p", "responses": []})").starts_with(start));
  }
}

TEST_F(PromptLines, Prompts) {
  const auto prompts = [&](const std::string& lines) {
    return read_prompts(write("prompts", lines).string());
  };
  EXPECT_EQ(prompts("a\n{}\n"), (std::vector<std::string>{"a", "{}"}));
  EXPECT_EQ(prompts(R"({"prompt": "a"})"), (std::vector<std::string>{"a"}));
  for (const char* const chat : {R"({"messages": []})", R"({"prompt": [{"role": "user", "content": "q"}]})"})
    EXPECT_NE(problem_of([&] { prompts(chat); }).find(":1: this is a conversation; --chat"),
              std::string::npos);
}

TEST_F(PromptLines, ConversationsToAnswer) {
  const std::string user = R"({"role": "user", "content": "q"})", made = R"({"messages": [)" + user + "]";
  EXPECT_EQ(conversations("q\n\n{}\n"), made + "}\n" +
                                            R"({"messages": [{"role": "user", "content": "{}"}]})"
                                            "\n");
  EXPECT_EQ(conversations("\xff"), "{\"messages\": [{\"role\": \"user\", \"content\": \"\uFFFD\"}]}\n");
  EXPECT_EQ(conversations(R"({"prompt": "q", "chosen": "a"})"), made + "}\n");
  EXPECT_EQ(conversations(R"({"prompt": [)" + user + "]}"), made + "}\n");
  EXPECT_EQ(conversations(R"({"messages": [)" + user + R"(], "tools": [1], "chat_template_kwargs": "{}"})"),
            made + R"(, "tools": [1], "chat_template_kwargs": {}})"
                   "\n");
  EXPECT_EQ(conversations(R"({"conversations": [{"from": "human", "value": "q"}], "system": "s"})"),
            R"({"messages": [{"role": "system", "content": "s"}, )" + user + "]}\n");
  EXPECT_EQ(conversations(R"({"x": 1})"), "prompts:1: expected 'prompt' or 'messages'");
  EXPECT_EQ(conversations(R"({"prompt": 1})"),
            "prompts:1: 'prompt' is a number, expected a string or messages with 'role' and 'content'");
}

class EndsOfTurns : public WithTokenizer {
 protected:
  EndOfTurn end(const std::string& answer) const {
    config::RunConfig config = make_config();
    config.chat_template =
        write("t.jinja", "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}" + answer +
                             "{% else %}{{ m.content }}{% endif %}\n\n{% endfor %}");
    return end_of_turn(ChatTokenizer(config, *tokenizer_), *tokenizer_);
  }
};

TEST_F(EndsOfTurns, AreTheFirstSpecialTokenAfterAnAnswer) {
  EXPECT_EQ(end("{{ m.content }}<|endoftext|>").token, kEos);
  EXPECT_EQ(end("{{ m.content }}<|endoftext|>").text, "");
  EXPECT_EQ(end("<|endoftext|>{{ m.content }} <end>\n<|endoftext|>").token, kEos);
  EXPECT_EQ(end("<|endoftext|>{{ m.content }} <end>\n<|endoftext|>").text, "<end>");
  EXPECT_EQ(end("{{ m.content }}").token, kEos);  // added, as in training
  EXPECT_EQ(end("something else").token, std::nullopt);
  EXPECT_EQ(end("{{ raise_exception('no') }}").token, std::nullopt);
}

}  // namespace
}  // namespace dpo::data
