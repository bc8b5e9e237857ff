#include "data/chat.h"

#include <random>

#include <fmt/format.h>

#include "data/examples.h"
#include "unit/data/byte_tokenizer.h"

namespace dpo::data {
namespace {

// Renders turns such as "<user>text<|endoftext|>". Thinking is removed from all turns but the last.
constexpr const char* kTemplate =
    "{%- for m in messages -%}"
    "{%- if m.role == 'forbidden' %}{{ raise_exception('no such role') }}{% endif -%}"
    "<{{ m.role }}>"
    "{%- if m.role == 'assistant' and not loop.last %}{{ m.content.split('|')[-1] }}{% else %}{{ m.content "
    "}}{% endif -%}"
    "{{ eos_token }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt %}<assistant>{% endif -%}";

class Chats : public WithTokenizer {
 protected:
  Chats() {
    write("tokenizer/special_tokens_map.json", R"({"eos_token": "<|endoftext|>"})");
    set_template(kTemplate);
    cache_.folder = folder_ / "tokens";
  }

  void set_template(const std::string& text) {
    config_.chat_template = write("template.jinja", text).string();
  }

  // Returns "PROMPT > RESPONSE > RESPONSE", with $ for the end of the text and ( ) around tokens that are not
  // trained on.
  std::string tokenize(const std::string& prompt, const std::vector<std::string>& responses) {
    PromptText text;
    text.chat = true;
    text.prompt = prompt;
    text.responses = responses;
    std::string shown;
    flags_.clear();
    for (const TokenizedText& part : ChatTokenizer(config_, *tokenizer_).tokenize(text)) {
      if (!shown.empty()) shown += " > ";
      for (std::uint32_t i = 0; i < part.tokens.size(); ++i) {
        for (const TokenRange& range : part.unscored)
          shown += range.begin == i ? "(" : range.end == i ? ")" : "";
        shown += part.tokens[i] == kEos ? '$' : static_cast<char>(part.tokens[i]);
      }
      flags_.push_back(part.flags);
    }
    return shown;
  }

  Examples load() {
    cache_.notes.clear();
    return Examples::load(config_, Split::Train, *tokenizer_, cache_);
  }

  static std::string message(const char* role, const char* content) {
    return fmt::format(R"({{"role": "{}", "content": "{}"}})", role, content);
  }

  config::RunConfig config_ = make_config();
  TokenCache cache_;
  std::vector<std::uint8_t> flags_;
};

const std::string kPrompt = R"({"messages": [{"role": "user", "content": "q"}]})";

TEST_F(Chats, BecomeThePromptAndWhatFollows) {
  EXPECT_EQ(tokenize(kPrompt, {R"([{"role": "assistant", "content": "a"}])",
                               R"([{"role": "assistant", "content": ""}])"}),
            "<user>q$<assistant> > a$ > $");
  EXPECT_EQ(flags_, (std::vector<std::uint8_t>{0, 0, kIsEmpty}));
}

TEST_F(Chats, AreEmptyOnlyIfTheySayNothing) {
  set_template(
      "{{ messages[0].content }}{{ eos_token }}{%- if messages[1] %}{{ messages[1].content | tojson }}{% "
      "endif -%}");
  for (const char* said :
       {R"("content": [{"type": "text", "text": "a"}])", R"("content": "", "tool_calls": [{}])",
        R"("content": null, "reasoning_content": "hm")"}) {
    tokenize(kPrompt, {fmt::format(R"([{{"role": "assistant", {}}}])", said)});
    EXPECT_EQ(flags_[1] & kIsEmpty, 0) << said;
  }
  tokenize(kPrompt, {R"([{"role": "assistant", "content": "", "tool_calls": null}])"});
  EXPECT_EQ(flags_[1] & kIsEmpty, kIsEmpty);
}

TEST_F(Chats, ScoreWhatTheAssistantSays) {
  const std::string answer = "[" + message("assistant", "old|a") + ", " + message("user", "r") + ", " +
                             message("assistant", "new|b") + "]";
  EXPECT_EQ(tokenize(kPrompt, {answer}), "<user>q$<assistant> > a$(<user>r$<assistant>)new|b$");
  config_.data.train_on = config::TrainOn::last;
  EXPECT_EQ(tokenize(kPrompt, {answer}), "<user>q$<assistant> > (a$<user>r$<assistant>)new|b$");
  // The template's marks take precedence if it has them.
  config_.data.train_on = config::TrainOn::assistant;
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>"
      "{%- if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{{ eos_token }}"
      "{%- else %}{{ m.content }}{{ eos_token }}{% endif %}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(tokenize(kPrompt, {answer}), "<user>q$<assistant> > old|a$(<user>r$<assistant>)new|b$");
}

// A special token that begins the next turn is not part of an answer that has its own end.
TEST_F(Chats, EndBeforeTheNextTurnBegins) {
  const std::string answer =
      "[" + message("assistant", "a") + ", " + message("user", "r") + ", " + message("assistant", "b") + "]";
  for (const char* said : {"{{ m.content }}{{ eos_token }}{{ '\\n' }}",
                           "{% generation %}{{ m.content }}{{ eos_token }}{{ '\\n' }}{% endgeneration %}"}) {
    set_template(
        fmt::format("{{%- for m in messages -%}}{{{{ eos_token }}}}<{{{{ m.role }}}}>"
                    "{{%- if m.role == 'assistant' %}}{}"
                    "{{%- else %}}{{{{ m.content }}}}{{{{ eos_token }}}}{{% endif %}}{{%- endfor -%}}"
                    "{{%- if add_generation_prompt %}}{{{{ eos_token }}}}<assistant>{{% endif -%}}",
                    said));
    EXPECT_EQ(tokenize(kPrompt, {answer}), "$<user>q$$<assistant> > a$\n($<user>r$$<assistant>)b$\n") << said;
  }
}

TEST_F(Chats, MayHaveSeveralMarksInAMessage) {
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>"
      "{%- if m.role == 'assistant' %}{% generation %}t{% endgeneration %}|"
      "{%- generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
      "{%- else %}{{ m.content }}{{ eos_token }}{% endif %}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  const std::string answer =
      "[" + message("assistant", "a") + ", " + message("user", "r") + ", " + message("assistant", "b") + "]";
  EXPECT_EQ(tokenize(kPrompt, {answer}), "<user>q$<assistant> > t(|)a$(<user>r$<assistant>)t(|)b$");
  config_.data.train_on = config::TrainOn::last;
  EXPECT_EQ(tokenize(kPrompt, {answer}), "<user>q$<assistant> > (t|a$<user>r$<assistant>)t(|)b$");
}

TEST_F(Chats, LoseNoTurnOfAnUnknownRole) {
  const std::string answer = "[" + message("assistant", "a") + "]";
  const auto prompt_of = [](const char* role) {
    return fmt::format(R"({{"messages": [{}, {}]}})", message("user", "q"), message(role, "n"));
  };
  EXPECT_EQ(tokenize(prompt_of("narrator"), {answer}), "<user>q$<narrator>n$<assistant> > a$");
  set_template(
      "{%- for m in messages -%}{%- if m.role in ['user', 'assistant', 'tool'] -%}"
      "<{{ m.role }}>{{ m.content }}{{ eos_token }}{%- endif -%}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(tokenize(prompt_of("tool"), {answer}), "<user>q$<tool>n$<assistant> > a$");
  const auto refused = [&](const std::string& prompt, const std::vector<std::string>& responses,
                           const std::string& why, std::size_t response) {
    try {
      tokenize(prompt, responses);
      FAIL() << why;
    } catch (const ChatError& error) {
      EXPECT_EQ(error.what(), "the chat template leaves out message " + why +
                                  "; expected a role that the template supports, such as user or assistant");
      EXPECT_EQ(error.response, response);
    }
  };
  refused(prompt_of("narrator"), {answer}, "2, whose role is 'narrator'", 0);
  refused(kPrompt, {answer, "[" + message("narrator", "n") + ", " + message("assistant", "a") + "]"},
          "2, whose role is 'narrator'", 1);
  EXPECT_THROW(ChatTokenizer(config_, *tokenizer_).render_prompt(prompt_of("narrator")), ChatError);
  // A template may write the first message of a role only.
  set_template(
      "{%- for m in messages -%}{%- if m.role != 'system' or loop.first -%}"
      "<{{ m.role }}>{{ m.content }}{{ eos_token }}{%- endif -%}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  const auto system = [](const char* first, const char* second) {
    return fmt::format(R"({{"messages": [{}, {}, {}]}})", message("system", first), message("user", "q"),
                       message("system", second));
  };
  refused(system("s", "t"), {answer}, "3, whose role is 'system'", 0);
  EXPECT_EQ(tokenize(system("s", ""), {answer}), "<system>s$<user>q$<assistant> > a$");
}

TEST_F(Chats, WhoseContentTheTemplateDoesNotReadAreRefused) {
  const auto problem = [&](const std::string& first, const std::string& more = "") {
    try {
      return tokenize(R"({"messages": [{"role": "user", )" + first + "}" + more + "]}",
                      {"[" + message("assistant", "a") + "]"});
    } catch (const ChatError& error) {
      return std::string(error.what());
    }
  };
  const std::string parts = R"("content": [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}])";
  const auto refused = [](const std::string& what) {
    return "the chat template does not read message 1, whose role is 'user': its 'content' is " + what;
  };
  const std::string call =
      R"(, {"role": "assistant", "content": null, "tool_calls": [{}]}, {"role": "tool", "content": "1"})";
  EXPECT_EQ(problem(parts), refused("a list of parts, expected a string; join the texts of its parts"))
      << "it would write the list as Python does";
  set_template(
      "{%- for m in messages -%}{%- if m.tool_calls -%}{% set said = 'call' %}{%- else -%}{% set said = "
      "m.content %}"
      "{%- endif -%}{{ '<' + m.role + '>' + said + eos_token }}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(problem(R"("content": "q")", call), "<user>q$<assistant>call$<tool>1$<assistant> > a$");
  EXPECT_EQ(problem(parts, call), refused("a list of parts, expected a string; join the texts of its parts"));
  EXPECT_EQ(problem(R"("content": null)", call), refused("null, expected a string"));
  EXPECT_EQ(problem(R"("name": "n")"), refused("missing, expected a string"));
  EXPECT_EQ(problem(R"("content": 3)"), refused("an object or a number, expected a string"));
  // A template that reads lists gets them. Its other refusals are reported in its own words.
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>{%- for part in m.content -%}{{ part.text or part }}{%- endfor "
      "-%}"
      "{{ eos_token }}{%- endfor -%}{%- if messages | length > 2 %}{{ raise_exception('long') }}{% endif -%}"
      "{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(problem(parts), "<user>pq$<assistant> > a$");
  EXPECT_NE(problem(parts, call).find("rejects this conversation"), std::string::npos);
  // A template that accepts lists but finds no text in them writes nothing of them.
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>{{ m.content if m.content is string else '' }}{{ eos_token }}"
      "{%- endfor -%}{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(problem(parts), refused("a list of parts, expected a string; join the texts of its parts"));
  EXPECT_EQ(problem(R"("name": "n")"), refused("missing, expected a string"));
  // The result of a tool may be a list of other things.
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>{{ m.content if m.content is string else m.content | tojson }}"
      "{{ eos_token }}{%- endfor -%}{%- if add_generation_prompt %}<assistant>{% endif -%}");
  EXPECT_EQ(problem(R"("content": "q")", R"(, {"role": "tool", "content": [12, 15]})"),
            "<user>q$<tool>[12, 15]$<assistant> > a$");
  EXPECT_EQ(
      problem(R"("content": "q")", R"(, {"role": "tool", "content": [{"text": "x\ny"}, {"text": "z"}]})")
          .find("does not read"),
      std::string::npos);
}

TEST_F(Chats, EndWithASpecialToken) {
  set_template(
      "{%- for m in messages -%}[{{ m.role }}] {{ m.content }}\n{%- endfor -%}"
      "{%- if add_generation_prompt %}[assistant] {% endif -%}");
  EXPECT_EQ(tokenize(kPrompt, {"[" + message("assistant", "a") + "]"}), "[user] q[assistant]  > a$");
  EXPECT_EQ(flags_, (std::vector<std::uint8_t>{0, kEndAdded}));
}

TEST_F(Chats, WhosePromptIsWrittenDifferentlyBeginWhereBothAgree) {
  set_template(
      "{%- for m in messages -%}<{{ m.role }}>{{ m.content }}{{ eos_token }}{%- endfor -%}"
      "{%- if add_generation_prompt %}<assistant><think>{% endif -%}");
  EXPECT_EQ(tokenize(kPrompt, {"[" + message("assistant", "a") + "]"}), "<user>q$<assistant> > a$");
  EXPECT_EQ(flags_[0], kBoundaryMoved);
  set_template("{%- if add_generation_prompt %}A{% else %}B{% endif -%}");
  try {
    tokenize(kPrompt, {"[" + message("assistant", "a") + "]"});
    FAIL();
  } catch (const ChatError& error) {
    EXPECT_NE(std::string(error.what()).find("the prompt alone is 'A', with the answer it is 'B'"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Chats, WithAnswersOfSeveralTurnsLoseTheLastOnes) {
  std::string answer = "[" + message("assistant", "0");
  for (const char* turn : {"1", "2", "3", "4", "5"})
    answer += ", " + message("user", turn) + ", " + message("assistant", turn);
  answer += "]";
  const std::string start = "<user>q$<assistant> > 0$", next = "(<user>1$<assistant>)1$";
  config_.max_length = 25;
  EXPECT_EQ(tokenize(kPrompt, {answer}), start);
  EXPECT_EQ(flags_[0], kTurnsDropped);
  config_.max_length = 50;
  EXPECT_EQ(tokenize(kPrompt, {answer}), start + next);
  config_.max_length = 1000;
  EXPECT_TRUE(tokenize(kPrompt, {answer}).ends_with(")5$"));
  EXPECT_EQ(flags_[0], 0);
}

TEST_F(Chats, ThatAreTooLongLoseTheirFirstTurns) {
  const std::string prompt = "{\"messages\": [" + message("system", "s") + ", " + message("user", "1") +
                             ", " + message("assistant", "2") + ", " + message("user", "3") + "]}";
  const std::vector<std::string> answer = {"[" + message("assistant", "a") + "]"};
  EXPECT_EQ(tokenize(prompt, answer), "<system>s$<user>1$<assistant>2$<user>3$<assistant> > a$");
  config_.max_length = 40;
  EXPECT_EQ(tokenize(prompt, answer), "<system>s$<user>1$<assistant>2$<user>3$<assistant> > a$");
  config_.max_prompt_length = 20;
  EXPECT_EQ(tokenize(prompt, answer), "<system>s$<user>3$<assistant> > a$");
  EXPECT_EQ(flags_[0], kTurnsDropped);
  config_.data.keep_system = false;
  EXPECT_EQ(tokenize(prompt, answer), "<user>3$<assistant> > a$");
  config_.max_length = 5;  // the last turn stays; the caller truncates the tokens
  EXPECT_EQ(tokenize(prompt, answer), "<user>3$<assistant> > a$");
}

TEST_F(Chats, GetToolsAndVariablesByRowElseByKey) {
  set_template(
      "{{ tools | tojson }} {{ style }} {{ deep }}{{ eos_token }}{% if add_generation_prompt %}>{% else "
      "%}>a{% endif %}");
  config_.data.tools = write("tools.json", R"([{"name": "f"}])").string();
  config_.chat_template_kwargs = {{"style", "true"}, {"deep", "1"}};
  const std::vector<std::string> answer = {"[" + message("assistant", "a") + "]"};
  EXPECT_EQ(tokenize(kPrompt, answer), R"([{"name": "f"}] True 1$> > a$)");
  EXPECT_EQ(
      tokenize(
          R"({"messages": [{"role": "user", "content": "q"}], "tools": [], "chat_template_kwargs": {"style": "x"}})",
          answer),
      "null x 1$> > a$");
}

// A number without a value in the type stays a text, like "nan", which is a text in YAML.
TEST_F(Chats, GetNumbersOfKeysOnlyInTheirRange) {
  set_template(
      "{{ [a, b, c, d] | tojson }}{{ eos_token }}{% if add_generation_prompt %}>{% else %}>a{% endif %}");
  config_.chat_template_kwargs = {{"a", "-7"}, {"b", "0.5"}, {"c", "1e400"}, {"d", "nan"}};
  EXPECT_EQ(tokenize(kPrompt, {"[" + message("assistant", "a") + "]"}),
            R"([-7, 0.5, "1e400", "nan"]$> > a$)");
}

TEST_F(Chats, OfAFileBecomeExamples) {
  const auto row = [](const char* role, const char* answer) {
    return fmt::format(R"({{"prompt": [{{"role": "{}", "content": "q"}}], "chosen": "{}", "rejected": "b"}})",
                       role, answer) +
           "\n";
  };
  config_.datasets = {
      write("pairs.jsonl", row("user", "a") + row("user", "<|endoftext|>") + row("user", "c")).string()};
  Examples examples = load();
  EXPECT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples.counts()[0].dropped[0], 1);  // the end of the text inside a message
  EXPECT_EQ(cache_.notes,
            (std::vector<std::string>{
                config_.datasets[0] + ": read as pairs of chosen and rejected, as conversations",
                config_.datasets[0] + ": rendered with the chat template " + *config_.chat_template}));

  config_.datasets = {
      write("refused.jsonl", row("user", "a") + row("forbidden", "c") + row("user", "d")).string()};
  EXPECT_NE(
      problem_of([&] { load(); }).find("refused.jsonl:2: the chat template rejects this conversation: "),
      std::string::npos);
  EXPECT_NE(problem_of([&] { load(); }).find("no such role"), std::string::npos);
  config_.data.on_error = config::BadRowPolicy::skip;
  examples = load();
  EXPECT_EQ(examples.counts()[0].bad_rows, 1);
  EXPECT_EQ(examples.counts()[0].rows, 2);
  EXPECT_EQ(examples.size(), 2u);

  // Among rows with the same prompt, only the rejected ones are lost.
  const auto pair = [&](const char* role, const char* chosen) {
    return fmt::format(R"({{"prompt": "q", "chosen": [{}], "rejected": [{}, {}]}})"
                       "\n",
                       message("assistant", chosen), message("assistant", "x"), message(role, "y"));
  };
  config_.datasets = {write("merged.jsonl", pair("assistant", "a") + pair("forbidden", "b") +
                                                pair("assistant", "c") + pair("forbidden", "d"))
                          .string()};
  examples = load();
  EXPECT_EQ(examples.counts()[0].bad_rows, 2);
  EXPECT_EQ(examples.counts()[0].rows, 2);
  EXPECT_EQ(examples.size(), 2u);

  config_.datasets = {
      write("mixed.jsonl", row("user", "a") + R"({"prompt": "p", "chosen": "a", "rejected": "b"})").string()};
  config_.data.on_error = config::BadRowPolicy::fail;
  EXPECT_NE(problem_of([&] {
              load();
            }).find("mixed.jsonl:2: this row is plain text, but the first one is a conversation"),
            std::string::npos);
}

TEST_F(Chats, NeedATemplate) {
  config_.chat_template.reset();
  const std::string problem = problem_of([&] { ChatTokenizer(config_, *tokenizer_); });
  EXPECT_NE(problem.find("conversations need a chat template"), std::string::npos) << problem;
  EXPECT_NE(problem.find("chat_template=chatml|zephyr|plain"), std::string::npos) << problem;
}

// Texts with a common beginning give the same tokens together as one by one.
TEST_F(Chats, AreEncodedAlike) {
  std::mt19937 random(1);
  const std::vector<std::string> parts = {"a", " b", "<|endoftext|>", "\n", "é", "<|endof"};
  const auto some = [&](std::size_t most) {
    std::string text;
    for (std::size_t i = random() % (most + 1); i > 0; --i) text += parts[random() % parts.size()];
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    const std::string start = some(6);
    const std::vector<std::string> texts = {start + some(3), start + some(6),
                                            start.substr(0, start.size() / 2), start};
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const auto all = tokenizer_->encode_alike(views);
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(all[i], tokenizer_->encode(texts[i])) << texts[i];
  }
}

}  // namespace
}  // namespace dpo::data
