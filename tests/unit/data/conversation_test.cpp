// Tests rows of conversations in every format that public data sets have.
#include "data/conversation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/columns.h"
#include "unit/data/files.h"

namespace dpo::data {
namespace {

class Conversations : public WithFolder {
 protected:
  // Returns how a row of JSON is read: "PROMPT > RESPONSE | RESPONSE 0>1", with messages as "role:content";
  // or the problem with it.
  std::string read(const std::string& json, const ColumnNames& names = {},
                   config::TrainOn train_on = config::TrainOn::assistant) const {
    std::string shown;
    BadRows bad(true);
    read_rows(
        write("rows.jsonl", json + "\n"),
        [&](Value&& row, std::int64_t) {
          shown = show(read_by_columns(row, names, train_on));
          return true;
        },
        bad);
    return bad.examples().empty() ? shown : bad.examples()[0].substr(bad.examples()[0].find(":1: ") + 4);
  }

 private:
  // Writes {"role": "user", "content": "a"} as user:a, to keep the expectations short.
  static std::string brief(std::string json) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      for (std::size_t at = json.find(from); at != std::string::npos; at = json.find(from, at + to.size()))
        json.replace(at, from.size(), to);
    };
    replace("{\"role\": \"", "");
    replace("\", \"content\": \"", ":");
    replace("\"}", "");
    return json;
  }

  static std::string show(const PromptText& prompt) {
    std::string shown = prompt.chat ? "chat " : "text ";
    shown += brief(prompt.prompt) + " >";
    for (const std::string& response : prompt.responses) shown += " " + brief(response);
    for (const Pair& pair : prompt.pairs) shown += fmt::format(" {}>{}", pair.chosen, pair.rejected);
    for (const Label& label : prompt.labels) shown += label.desirable ? " good" : " bad";
    return shown + (prompt.own_entry ? " alone" : "");
  }
};

const char* const kUser = R"({"role": "user", "content": "q"})";
const char* const kGood = R"({"role": "assistant", "content": "a"})";
const char* const kBad = R"({"role": "assistant", "content": "b"})";
const char* const kPair = R"(chat {"messages": [user:q]} > [assistant:a] [assistant:b] 0>1)";

TEST_F(Conversations, OfPairsInEveryForm) {
  const auto row = [](auto format, const auto&... values) {
    return fmt::format(fmt::runtime(format), values...);
  };
  // The prompt is a list of messages. The answers are lists of one message, messages, or texts.
  EXPECT_EQ(read(row(R"({{"prompt": [{}], "chosen": [{}], "rejected": [{}]}})", kUser, kGood, kBad)), kPair);
  EXPECT_EQ(read(row(R"({{"prompt": [{}], "chosen": {}, "rejected": {}}})", kUser, kGood, kBad)), kPair);
  EXPECT_EQ(read(row(R"({{"prompt": [{}], "chosen": "a", "rejected": "b"}})", kUser)), kPair);
  // Whole conversations without a prompt, with the prompt repeated, and with the prompt's text.
  EXPECT_EQ(read(row(R"({{"chosen": [{0}, {1}], "rejected": [{0}, {2}]}})", kUser, kGood, kBad)), kPair);
  EXPECT_EQ(
      read(row(R"({{"prompt": [{0}], "chosen": [{0}, {1}], "rejected": [{0}, {2}]}})", kUser, kGood, kBad)),
      kPair);
  EXPECT_EQ(read(row(R"({{"prompt": "q", "prompt_id": "7", "chosen": [{0}, {1}], "rejected": [{0}, {2}], )"
                     R"("messages": [{0}, {1}], "score_chosen": 9.5, "score_rejected": 1}})",
                     kUser, kGood, kBad)),
            kPair);
  // A response that continues with another role's message keeps the prompt before it.
  EXPECT_EQ(
      read(R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "call"}], )"
           R"("chosen": [{"role": "tool", "content": "1"}, {"role": "assistant", "content": "a"}], )"
           R"("rejected": [{"role": "tool", "content": "1"}, {"role": "assistant", "content": "b"}]})"),
      R"(chat {"messages": [user:q, assistant:call]} > [tool:1, assistant:a] [tool:1, assistant:b] 0>1)");
  // Turns as columns.
  EXPECT_EQ(read(R"({"system": "", "question": "q", "chosen": "a", "rejected": "b"})"), kPair);
  EXPECT_EQ(read(R"({"instruction": "q", "chosen_response": "a", "rejected_response": "b"})"), kPair);
  EXPECT_EQ(read(R"({"system": "s", "question": "q", "chosen": "a", "rejected": "b"})"),
            R"(chat {"messages": [system:s, user:q]} > [assistant:a] [assistant:b] 0>1)");
  EXPECT_EQ(read(R"({"instruction": "q", "input": "i", "chosen": "a", "rejected": "b"})"),
            R"(chat {"messages": [user:q\n\ni]} > [assistant:a] [assistant:b] 0>1)");
  // HelpSteer3: the sign of the preference decides.
  EXPECT_EQ(read(row(R"({{"context": [{}], "response1": "a", "response2": "b", "overall_preference": -2}})",
                     kUser)),
            kPair);
  EXPECT_EQ(
      read(row(R"({{"context": [{}], "response1": "b", "response2": "a", "overall_preference": 1}})", kUser)),
      R"(chat {"messages": [user:q]} > [assistant:b] [assistant:a] 1>0)");
  EXPECT_EQ(
      read(row(R"({{"context": [{}], "response1": "b", "response2": "a", "overall_preference": 0}})", kUser)),
      R"(chat {"messages": [user:q]} > [assistant:b] [assistant:a])");
  // ShareGPT.
  EXPECT_EQ(
      read(R"({"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "a"}, )"
           R"("rejected": {"from": "gpt", "value": "b"}})"),
      kPair);
  // Ranked answers.
  EXPECT_EQ(
      read(row(R"({{"prompt": [{}], "completions": [[{}], [{}]], "scores": [1, 2]}})", kUser, kBad, kGood)),
      R"(chat {"messages": [user:q]} > [assistant:b] [assistant:a] 1>0)");
}

TEST_F(Conversations, KeepToolsKeywordsAndOtherKeysOfMessages) {
  EXPECT_EQ(
      read(
          R"({"prompt": [{"role": "user", "content": "q"}], "tools": "[{\"name\": \"f\"}]", )"
          R"("chat_template_kwargs": {"enable_thinking": false}, "chosen": [{"role": "assistant", "content": null, )"
          R"("tool_calls": [{"function": {"name": "f", "arguments": {"x": 12345678901234567, "y": 1.0}}}]}], )"
          R"("rejected": "b"})"),
      R"(chat {"messages": [user:q], "tools": [{"name": "f], "chat_template_kwargs": {"enable_thinking": false}} > )"
      R"([assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 12345678901234567, "y": 1.0}}}]}] )"
      R"([assistant:b] 0>1)");
}

TEST_F(Conversations, HaveNoNullKeysButContent) {
  EXPECT_EQ(read(R"({"prompt": [{"role": "user", "content": "q", "tool_calls": null}], "chosen": )"
                 R"([{"role": "assistant", "content": null, "name": null}], "rejected": "b"})"),
            R"(chat {"messages": [user:q]} > [assistant", "content": null}] [assistant:b] 0>1)");
  EXPECT_EQ(read(R"({"system": "s", "messages": [{"role": "system", "content": "s"}, )"
                 R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"),
            R"(chat {"messages": [system:s, user:q]} > [assistant:a] alone)");
}

// SFT and DPO on the same conversations have the same test prompts, whatever part is trained on.
TEST_F(Conversations, AreDividedByWhatComesBeforeTheFirstAnswer) {
  const Value messages =
      parse_row(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, )"
                R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]})");
  const Value pair =
      parse_row(R"({"prompt": [{"role": "user", "content": "q"}], "chosen": "a", "rejected": "b", )"
                R"("tools": [{"name": "f"}]})");
  const std::uint64_t hash = read_by_columns(pair, {}, config::TrainOn::assistant).split_hash;
  EXPECT_EQ(read_by_columns(messages, {}, config::TrainOn::assistant).split_hash, hash);
  EXPECT_EQ(read_by_columns(messages, {}, config::TrainOn::last).split_hash, hash);
}

TEST_F(Conversations, OfSftAndKto) {
  const std::string four =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, )"
      R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "ignored"}]})";
  EXPECT_EQ(read(four), R"(chat {"messages": [user:q]} > [assistant:a, user:r, assistant:b] alone)");
  EXPECT_EQ(read(four, {}, config::TrainOn::last),
            R"(chat {"messages": [user:q, assistant:a, user:r]} > [assistant:b] alone)");
  EXPECT_EQ(read(R"({"prompt": [{"role": "user", "content": "q"}], "completion": "a"})"),
            R"(chat {"messages": [user:q]} > [assistant:a] alone)");
  EXPECT_EQ(read(R"({"instruction": "q", "input": "", "output": "a"})"),
            R"(chat {"messages": [user:q]} > [assistant:a] alone)");
  EXPECT_EQ(read(R"({"prompt": [{"role": "user", "content": "q"}], "completion": "a", "label": false})"),
            R"(chat {"messages": [user:q]} > [assistant:a] bad alone)");
  EXPECT_EQ(read(R"({"prompt": "q", "completion": "a", "label": 1})"), "text q > a good alone");
  EXPECT_EQ(read(R"({"text": "t"})"), "text  > t alone");
}

TEST_F(Conversations, MayHaveTheRolesOfShareGpt) {
  for (const char* const keys : {"from value", "role content"}) {
    const std::string who(keys, 4), what(keys + 5);
    const std::string json = fmt::format(
        R"({{"conversations": [{{"{0}": "human", "{1}": "q"}}, {{"{0}": "gpt", "{1}": "a"}}]}})", who, what);
    EXPECT_EQ(read(json), R"(chat {"messages": [user:q]} > [assistant:a] alone)") << json;
  }
}

TEST_F(Conversations, MayHaveTextsInAPart) {
  EXPECT_EQ(
      read(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q", "image": null}]}, )"
           R"({"role": "assistant", "content": [{"text": "a", "type": "text"}]}]})"),
      R"(chat {"messages": [user:q]} > [assistant:a] alone)");
  EXPECT_EQ(read(R"({"conversations": [{"from": "human", "value": [{"type": "text", "text": "q"}]}, )"
                 R"({"from": "gpt", "value": "a"}]})"),
            R"(chat {"messages": [user:q]} > [assistant:a] alone)");
  // Other messages are left to the template.
  const std::string image = R"({"role": "user", "content": [{"type": "image", "text": "x"}]})";
  const std::string two =
      R"({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]})";
  for (const std::string& message : {image, two}) {
    const std::string shown =
        read(fmt::format(R"({{"prompt": [{}], "chosen": "a", "rejected": "b"}})", message));
    EXPECT_NE(shown.find(R"("content": [{"type": ")"), std::string::npos) << shown;
  }
}

// Templates know roles in lower case only. Unknown roles are left to the template.
TEST_F(Conversations, MayHaveRolesInAnyCase) {
  EXPECT_EQ(read(R"({"messages": [{"role": "System", "content": "s"}, {"role": "User", "content": "q"}, )"
                 R"({"role": "ASSISTANT", "content": "a"}]})"),
            R"(chat {"messages": [system:s, user:q]} > [assistant:a] alone)");
  EXPECT_EQ(read(R"({"conversations": [{"from": "Human", "value": "q"}, {"from": "GPT", "value": "a"}]})"),
            R"(chat {"messages": [user:q]} > [assistant:a] alone)");
  EXPECT_EQ(read(R"({"prompt": [{"role": "Human", "content": "q"}, {"role": "Function", "content": "1"}, )"
                 R"({"role": "iPython", "content": "2"}], "chosen": "a", "rejected": "b"})"),
            R"(chat {"messages": [user:q, function:1, iPython:2]} > [assistant:a] [assistant:b] 0>1)");
}

TEST_F(Conversations, ThatAreNoneAreRefused) {
  const auto refused = [&](const std::string& json, const std::string& why) {
    EXPECT_NE(read(json).find(why), std::string::npos) << json << "\n" << read(json);
  };
  refused(R"({"messages": [{"role": "user", "content": "q"}]})",
          "no message of the 'assistant' after one of the 'user'; its roles are: user");
  refused(R"({"messages": [{"role": "User", "content": "q"}, {"role": "Bot", "content": "a"}]})",
          "no message of the 'assistant' after one of the 'user'; its roles are: user, Bot");
  refused(
      R"({"messages": [{"role": "user", "value": "q"}]})",
      "'messages' contains a message with the keys role, value, expected 'role' and 'content', or 'from' and "
      "'value'");
  refused(R"({"messages": []})",
          "'messages' is an empty list, expected a list of messages with 'role' and 'content'");
  refused(R"({"messages": "q"})",
          "'messages' is a string, expected a list of messages with 'role' and 'content'; a "
          "CSV file cannot have lists");
  refused(R"({"messages": [{"speaker": "a", "text": "q"}]})",
          "'messages' is a list that begins with an object with the keys speaker, text, expected");
  refused(R"({"prompt": "q", "chosen": [], "rejected": []})",
          "'chosen' is an empty list, expected a string or messages");
  refused(R"({"prompt": [], "chosen": "a", "rejected": "b"})",
          "'prompt' is an empty list, expected a string or messages");
  refused(R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [], "rejected": "b"})",
          "'chosen' is an empty list, expected a string or messages");
  refused(R"({"question": null, "responses": [], "scores": []})", "there are no responses");
  refused(R"({"messages": ["q", "a"]})",
          "'messages' is a list that begins with a string, expected a list of messages");
  refused(R"({"prompt": [{"role": "user", "content": "q"}, "x"], "chosen": "a", "rejected": "b"})",
          "'prompt' contains a string, expected messages with 'role' and 'content'");
  refused(R"({"conversations": [{"from": "martian", "value": "q"}]})", "a message is from 'martian'");
  refused(
      R"({"chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
      "there is no prompt");
  refused(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "user", "content": "c"}], )"
          R"("rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
          "a response has no message of the 'assistant'; its roles are: user");
  refused(R"({"prompt": [{"role": "user", "content": "q"}], "tools": "[", "chosen": "a", "rejected": "b"})",
          "'tools' is a string that is not JSON");
  refused(R"({"prompt": [{"role": "user", "content": "q"}], "chat_template_kwargs": 3, "chosen": "a", )"
          R"("rejected": "b"})",
          "'chat_template_kwargs' is a number, expected an object");
  refused(R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Sure, "}], )"
          R"("chosen": "a", "rejected": "b"})",
          "the prompt ends with a message of the assistant, and a response begins with one");
  refused(
      R"({"system": "x", "messages": [{"role": "system", "content": "y"}, {"role": "user", "content": "q"}, )"
      R"({"role": "assistant", "content": "a"}]})",
      "the messages begin with another system message than 'system'");
  refused(R"({"question": [{"role": "user", "content": "q"}], "input": "i", "chosen": "a", "rejected": "b"})",
          "'question' is a list, expected a string beside 'input'");
  // An ambiguous row is rejected with the candidates and a way to choose.
  refused(R"({"messages": [], "text": "t"})", "can be read in 2 ways, by its columns 'messages' or 'text'");
  refused(R"({"messages": [], "text": "t"})", "data.columns={text: none}");
  refused(R"({"prompt": "p", "chosen": "a", "rejected": "b", "completion": "c", "label": true})",
          "by its columns 'chosen, rejected' or 'completion, label'");
}

TEST_F(Conversations, AreChosenByDataColumns) {
  EXPECT_EQ(read(R"({"messages": [], "text": "t"})", {{"messages", "none"}}), "text  > t alone");
  // A prompt is used unchanged; a question is a message of the user.
  EXPECT_EQ(read(R"({"question": "q", "chosen": "a", "rejected": "b"})", {{"prompt", "question"}}),
            "text q > a b 0>1");
  EXPECT_EQ(read(R"({"ask": "q", "chosen": "a", "rejected": "b"})", {{"question", "ask"}}), kPair);
}

}  // namespace
}  // namespace dpo::data
