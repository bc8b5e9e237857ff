#include "text/chat_template.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/chat_turns.h"

namespace dpo::text {
namespace {

using jinja::parse_json;

const char* const kChat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hé"},
                                           {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Bye!"}]})";

std::string error_of(const ChatTemplate& chat, const std::string& variables) {
  try {
    chat.render(parse_json(variables));
  } catch (const TemplateError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> texts(const RenderedChat& chat, const std::vector<TextRange>& ranges) {
  std::vector<std::string> found;
  for (const TextRange& range : ranges)
    found.push_back(chat.text.substr(range.begin, range.end - range.begin));
  return found;
}

TEST(ChatTemplate, ErrorsNameTemplateLineAndColumn) {
  EXPECT_THROW(ChatTemplate("{% if %}", "t.jinja", {}), UserError);
  const ChatTemplate chat("\n{{ raise_exception('Roles must alternate') }}", "t.jinja", {});
  EXPECT_EQ(error_of(chat, kChat), "t.jinja:2:19: Roles must alternate");
  try {
    chat.render(parse_json(kChat));
  } catch (const TemplateError& error) {
    EXPECT_TRUE(error.raised());
    EXPECT_EQ(error.message(), "Roles must alternate");
  }
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  const ChatTemplate chat("x", "t", {});
  EXPECT_EQ(error_of(chat, "{}"), "t: messages: expected a list of messages");
  EXPECT_EQ(error_of(chat, R"({"messages": []})"), "t: messages: expected at least one message");
  EXPECT_EQ(error_of(chat, R"({"messages": ["a"]})"),
            "t: messages: expected objects with \"role\" and \"content\"");
  EXPECT_EQ(error_of(chat, R"({"messages": [{}], "tools": {"a": 1}})"),
            "t: tools: expected a list of objects");
}

TEST(ChatTemplate, VariablesComeBeforeSpecialTokens) {
  const ChatTemplate chat(
      "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}", "t",
      {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  EXPECT_EQ(chat.render(parse_json(R"({"messages": [{}], "eos_token": "E"})")).text, "<s>ENoneNoneFalse");
}

TEST(ChatTemplate, ToolsChooseAnotherTemplate) {
  ChatTemplate chat("plain", "t", {});
  chat.use_with_tools(ChatTemplate("tools", "u", {}));
  EXPECT_EQ(chat.render(parse_json(R"({"messages": [{}], "tools": null})")).text, "plain");
  EXPECT_EQ(chat.render(parse_json(R"({"messages": [{}], "tools": []})")).text, "tools");
}

TEST(ChatTemplate, BuiltInOnesMarkWhatTheAssistantSays) {
  for (const std::string& name : builtin_chat_templates()) {
    const ChatTemplate chat(builtin_chat_template(name), name, {{"eos_token", "</s>"}});
    const RenderedChat rendered = chat.render(parse_json(kChat));
    ASSERT_EQ(rendered.generated.size(), 2u) << name;
    EXPECT_NE(texts(rendered, rendered.generated)[0].find("Hé"), std::string::npos) << rendered.text;
  }
  EXPECT_EQ(ChatTemplate(builtin_chat_template("chatml"), "chatml", {}).render(parse_json(kChat)).text,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHé<|im_end|>\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nBye!<|im_end|>\n");
  EXPECT_EQ(ChatTemplate(builtin_chat_template("plain"), "plain", {{"eos_token", "</s>"}})
                .render(parse_json(kChat))
                .text,
            "\n\nHuman: Hi\n\nAssistant: Hé</s>\n\nHuman: Bye\n\nAssistant: Bye!</s>");
  EXPECT_EQ(builtin_chat_template("nosuch"), nullptr);
}

TEST(ChatTurns, AreFoundTurnByTurnWithoutMarks) {
  const ChatTemplate chat(
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}.{% endfor %}{% if add_generation_prompt "
      "%}[assistant]{% endif %}",
      "t", {});
  const jinja::Value variables = parse_json(kChat);
  const RenderedChat rendered = chat.render(variables);
  EXPECT_EQ(texts(rendered, assistant_text(chat, variables, rendered)),
            (std::vector<std::string>{"Hé.", "Bye!."}));
}

// These templates strip earlier reasoning, so the rendering of a part of the conversation is no prefix of the
// whole.
TEST(ChatTurns, ThatAreWrittenDifferentlyLaterAreFound) {
  const ChatTemplate chat(
      "{% for m in messages %}[{{ m.role }}]{{ m.content if loop.last else m.content|replace('é', 'e') }}.{% "
      "endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}",
      "t", {});
  const jinja::Value variables = parse_json(kChat);
  const RenderedChat rendered = chat.render(variables);
  EXPECT_EQ(texts(rendered, assistant_text(chat, variables, rendered)),
            (std::vector<std::string>{"He.", "Bye!."}));
}

class ChatFolder : public testing::Test {
 protected:
  ChatFolder() : path_(std::filesystem::path(testing::TempDir()) / "chat_folder") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ChatFolder() override { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path_ / name) << text; }
  std::string text(const std::string& choice = "") {
    return find_chat_template(path_, choice)->render(parse_json(kChat)).text;
  }
  std::filesystem::path path_;
};

TEST_F(ChatFolder, IsReadAsTransformersReadsIt) {
  EXPECT_FALSE(find_chat_template(path_).has_value());
  write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(text(), "processor");
  write(
      "tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": [{"name": "default", "template": "{{ bos_token }}"},
                                     {"name": "rag", "template": "rag"}]})");
  EXPECT_EQ(text(), "<s>");
  EXPECT_EQ(text("rag"), "rag");
  write("chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(text(), "file <s>");
  EXPECT_EQ(text((path_ / "chat_template.jinja").string()), "file <s>");
  EXPECT_EQ(text("plain").substr(0, 9), "\n\nHuman: ");
  EXPECT_THROW(find_chat_template(path_, "nosuch"), UserError);
}

TEST_F(ChatFolder, TokensOfWhatTheAssistantSaysAreTrainedOn) {
  write("vocab.json", R"({"a":0,"b":1,"ab":2,"<":3,"|":4,"E":5})");
  write("merges.txt", "#version: 0.2\na b\n");
  const Tokenizer tokenizer = Tokenizer::load(path_);
  const TrainedTokens trained = trained_tokens(tokenizer, "ab<ab|a", {{3, 6}});
  EXPECT_EQ(trained.ids, (std::vector<Token>{2, 3, 2, 4, 0}));
  EXPECT_EQ(trained.mask, (std::vector<int>{0, 0, 1, 1, 0}));
  // A token that crosses the beginning or the end is trained on.
  EXPECT_EQ(trained_tokens(tokenizer, "ab|", {{1, 2}}).mask, (std::vector<int>{1, 0}));
  EXPECT_EQ(trained_tokens(tokenizer, "|ab", {{0, 2}}).mask, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace dpo::text
