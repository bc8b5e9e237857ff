#include "data/formats.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "data/columns.h"

namespace dpo::data {
namespace {

Value row(const std::vector<std::pair<std::string, Value>>& columns) {
  Value value;
  value.kind = Value::Kind::Map;
  for (const auto& [name, item] : columns) {
    value.names.push_back(name);
    value.items.push_back(item);
  }
  return value;
}

Value text(const char* content) { return Value::of(std::string(content)); }

Value list(std::vector<Value> items) { return {Value::Kind::List, {}, 0, {}, std::move(items)}; }

void add_row_by_columns(const Value& value, const ColumnNames& names, PromptTexts& texts) {
  texts.append(read_by_columns(value, names, config::TrainOn::assistant));
}

Value hh(const char* chosen, const char* rejected) {
  return row({{"chosen", text(chosen)}, {"rejected", text(rejected)}});
}

Value shp(const char* a, double score_a, const char* b, double score_b, double label) {
  return row({{"history", text("q")},
              {"human_ref_A", text(a)},
              {"human_ref_B", text(b)},
              {"score_A", Value::of(score_a)},
              {"score_B", Value::of(score_b)},
              {"labels", Value::of(label)}});
}

// Returns the rankings alone: "0>1>2 x0.5".
std::string rankings(const PromptText& prompt) {
  std::string out;
  for (const Ranking& ranking : prompt.rankings) {
    for (const std::uint32_t response : ranking.responses) out += std::to_string(response) + ">";
    out.back() = ' ';
    if (ranking.weight != 1) out += "x" + std::to_string(ranking.weight).substr(0, 3) + " ";
  }
  return out;
}

// Returns "prompt: r0, r1; 0>1; *0".
std::string shown(const PromptText& prompt) {
  std::string out = prompt.prompt + ":";
  for (const std::string& response : prompt.responses) out += " [" + response + "]";
  for (const Pair& pair : prompt.pairs)
    out += " " + std::to_string(pair.chosen) + ">" + std::to_string(pair.rejected);
  return out + " *" + std::to_string(prompt.sft_target);
}

std::string problem(const std::function<void(PromptTexts&)>& add) {
  PromptTexts texts;
  try {
    add(texts);
  } catch (const BadRow& error) {
    EXPECT_TRUE(std::move(texts).take().empty());  // a bad row adds nothing
    return error.what();
  }
  return "";
}

TEST(Hh, CutsAtTheLastTurnOfChosen) {
  PromptTexts texts;
  add_hh_row(hh("\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: d",
                "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: e"),
             texts);
  add_hh_row(hh("\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: f", "\n\nHuman: short"), texts);
  const auto prompts = std::move(texts).take();
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(shown(prompts[0]),
            "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant:: [ d] [ e] [ f] [] 0>1 2>3 *2");
}

TEST(Hh, CutsRejectedByCharactersAndNotByBytes) {
  PromptTexts texts;
  add_hh_row(hh("\u00e9\u00e9\n\nAssistant:x", "ab\n\nAssistant:y\u00e9"), texts);
  EXPECT_EQ(std::move(texts).take()[0].responses[1], "y\u00e9");
}

TEST(Hh, RefusesWhatHasNoTurn) {
  EXPECT_NE(problem([](PromptTexts& t) { add_hh_row(hh("Hello", "x"), t); }).find("no assistant turn"),
            std::string::npos);
  EXPECT_EQ(problem([](PromptTexts& t) {
              add_hh_row(row({{"chosen", text("\n\nAssistant:")}}), t);
            }),
            "no column 'rejected'; this row has: chosen");
  EXPECT_EQ(problem([](PromptTexts& t) {
              add_hh_row(row({{"chosen", Value::of(1.0)}}), t);
            }),
            "'chosen' is a number, expected a string");
}

TEST(Shp, KeepsClearPairsAndAddsResponsesAgain) {
  PromptTexts texts;
  add_shp_row(shp("a", 10, "b", 5, 1), texts);
  add_shp_row(shp("a", 10, "c", 6, 1), texts);  // 10/6 < 2
  add_shp_row(shp("a", 3, "d", 30, 0), texts);
  const auto prompts = std::move(texts).take();
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(shown(prompts[0]), "\n\nHuman: q\n\nAssistant:: [ a] [ b] [ a] [ d] 0>1 3>2 *3");
}

TEST(Shp, ScoresATextByItsFirstAppearance) {
  PromptTexts texts;
  add_shp_row(shp("a", 2, "b", 5, 0), texts);
  add_shp_row(shp("a", 100, "c", 4, 1), texts);  // " a" still counts 2
  EXPECT_EQ(std::move(texts).take()[0].sft_target, 1u);
}

TEST(Shp, RefusesAScoreOfZero) {
  EXPECT_EQ(problem([](PromptTexts& t) { add_shp_row(shp("a", 0, "b", 5, 0), t); }),
            "a score is 0, so there is no ratio");
  EXPECT_EQ(problem([](PromptTexts& t) {
              add_shp_row(row({{"history", text("q")}}), t);
            }),
            "no column 'human_ref_A'; this row has: history");
}

TEST(Se, PairsAllAnswersByTheirScores) {
  const auto answer = [](const char* html, double score) {
    return row({{"text", text(html)}, {"pm_score", Value::of(score)}});
  };
  PromptTexts texts;
  add_se_row(row({{"question", text("<p>q</p>")},
                  {"answers", list({answer("<p>a</p>", 1), answer("<p>b</p>", 3), answer("<p>c</p>", 3)})}}),
             texts);
  // Among equal scores, the later response counts as better in pairs. A ranking keeps only the first of them.
  const PromptText prompt = std::move(texts).take()[0];
  EXPECT_EQ(shown(prompt), "\n\nHuman: q\n\nAssistant:: [ a] [ b] [ c] 1>0 2>0 2>1 *1");
  EXPECT_EQ(rankings(prompt), "1>0 ");
  EXPECT_EQ(problem([](PromptTexts& t) {
              add_se_row(row({{"question", text("q")}, {"answers", text("x")}}), t);
            }),
            "'answers' is a string, expected a list of answers");
  EXPECT_EQ(problem([](PromptTexts& t) {
              add_se_row(row({{"question", text("q")}, {"answers", list({text("x")})}}), t);
            }),
            "an answer is a string, expected an object");
}

TEST(Html, KeepsParagraphsAndCode) {
  EXPECT_EQ(strip_html("<p>Use <em>this</em> now</p>\n<pre><code>a &lt; b\n</code></pre>loose<code>x</code>"),
            "Use  now\n\n<code>a < b\n</code>\n\n<code>x</code>");
  EXPECT_EQ(strip_html("<div><p>inside</p></div>"), "");
  EXPECT_EQ(strip_html("<p>a<p>b</p>c</p>"), "ac");  // html.parser nests paragraphs
  EXPECT_EQ(strip_html("<p>&amp;&eacute;&#39;&#x27;&#150;&nope; 1 < 2</p>"), "&\u00e9''\u2013&nope 1 < 2");
  EXPECT_EQ(strip_html("<p>x<!-- c --></p>"), "x c ");
  EXPECT_EQ(strip_html(""), "");
}

TEST(Columns, ThreeTexts) {
  PromptTexts texts;
  const ColumnNames names = {{"prompt", "question"}, {"chosen", "good"}};
  add_row_by_columns(row({{"question", text("q")}, {"good", text("g")}, {"rejected", text("r")}}), names,
                     texts);
  EXPECT_EQ(shown(std::move(texts).take()[0]), "q: [g] [r] 0>1 *0");
}

TEST(Columns, ListsWithScoresOrRanks) {
  PromptTexts texts;
  const Value responses = list({text("a"), text("b"), text("c")});
  add_row_by_columns(row({{"prompt", text("q")},
                          {"responses", responses},
                          {"scores", list({Value::of(1.0), Value::of(2.0), Value::of(1.0)})}}),
                     {}, texts);
  add_row_by_columns(row({{"prompt", text("p")},
                          {"responses", responses},
                          {"ranking", list({Value::of(2.0), Value::of(3.0), Value::of(1.0)})}}),
                     {}, texts);
  const auto prompts = std::move(texts).take();
  EXPECT_EQ(shown(prompts[0]), "q: [a] [b] [c] 1>0 1>2 *1");  // equal scores make no pair
  EXPECT_EQ(shown(prompts[1]), "p: [a] [b] [c] 0>1 2>0 2>1 *2");
  EXPECT_EQ(rankings(prompts[0]), "1>0 ");
  EXPECT_EQ(rankings(prompts[1]), "2>0>1 ");
}

TEST(Columns, WeightsAndMargins) {
  PromptTexts texts;
  const auto pair = [](Value weight, Value margin) {
    return row({{"prompt", text("q")},
                {"chosen", text("a")},
                {"rejected", text("b")},
                {"w", std::move(weight)},
                {"margin", std::move(margin)}});
  };
  const ColumnNames names = {{"weight", "w"}};
  add_row_by_columns(pair(Value::of(0.5), Value::of(-2.0)), names, texts);
  add_row_by_columns(pair(text("0.25"), text("3")), names, texts);  // from a CSV file
  add_row_by_columns(row({{"prompt", text("q")},
                          {"responses", list({text("c"), text("d"), text("e")})},
                          {"ranking", list({Value::of(3.0), Value::of(1.0), Value::of(2.0)})},
                          {"w", Value::of(0.0)}}),
                     names, texts);
  const PromptText prompt = std::move(texts).take()[0];
  EXPECT_EQ(shown(prompt), "q: [a] [b] [a] [b] [c] [d] [e] 0>1 2>3 5>4 6>4 5>6 *5");
  EXPECT_EQ(rankings(prompt), "0>1 x0.5 2>3 x0.2 5>6>4 x0.0 ");
  EXPECT_EQ(prompt.pairs[0].weight, 0.5f);
  EXPECT_EQ(prompt.pairs[0].margin, -2);
  EXPECT_EQ(prompt.pairs[1].weight, 0.25f);
  EXPECT_EQ(prompt.pairs[1].margin, 3);
  EXPECT_EQ(prompt.pairs[3].weight, 0);
  const std::vector<std::pair<Value, std::string>> refused = {
      {pair(Value::of(-0.5), Value::of(0.0)), "'w' is -0.5, expected a number >= 0"},
      {pair(Value::of(1e300), Value::of(0.0)), "'w' is 1e+300, expected a finite number"},
      {pair(text("nan"), Value::of(0.0)), "'w' is nan, expected a finite number"},
      {pair(text("1e400"), Value::of(0.0)), "'w' is '1e400', expected a number"},
      {pair(text("1x"), Value::of(0.0)), "'w' is '1x', expected a number"},
      {pair(text(""), Value::of(0.0)), "'w' is '', expected a number"},
      {pair(Value::of(1.0), Value{}), "'margin' is null, expected a number"},
      {pair(Value::of(1.0), Value::of(HUGE_VAL)), "'margin' is inf, expected a finite number"},
      {row({{"prompt", text("q")},
            {"responses", list({text("c"), text("d")})},
            {"scores", list({Value::of(1.0), Value::of(2.0)})},
            {"margin", Value::of(1.0)}}),
       "'margin' applies to pairs, but this row has a list of responses"},
      {row({{"prompt", text("q")},
            {"responses", list({text("c"), text("d")})},
            {"scores", list({Value::of(1.0), Value::of(std::nan(""))})}}),
       "'scores' contains NaN"}};
  for (const auto& [value, message] : refused)
    EXPECT_EQ(problem([&](PromptTexts& t) { add_row_by_columns(Value(value), names, t); }), message);
}

Value boolean(bool value) { return {Value::Kind::Bool, {}, value ? 1.0 : 0.0, {}, {}}; }

Value completion(Value label) {
  return row({{"prompt", text("q")}, {"completion", text("a")}, {"label", std::move(label)}});
}

TEST(Columns, OneResponse) {
  PromptTexts texts;
  add_row_by_columns(row({{"prompt", text("q")}, {"completion", text("a")}}), {}, texts);
  add_row_by_columns(row({{"prompt", text("q")}, {"chosen", text("b")}, {"rejected", text("c")}}), {}, texts);
  add_row_by_columns(completion(boolean(true)), {}, texts);
  add_row_by_columns(row({{"text", text("all")}, {"id", text("7")}}), {}, texts);
  add_row_by_columns(row({{"question", text("x")},
                          {"answer", text("y")},
                          {"good", text("False")},
                          {"weight", Value::of(2.0)}}),
                     {{"prompt", "question"}, {"completion", "answer"}, {"label", "good"}}, texts);
  add_row_by_columns(row({{"prompt", text("q")}, {"chosen", text("d")}, {"rejected", text("e")}}), {}, texts);
  const auto prompts = std::move(texts).take();
  ASSERT_EQ(prompts.size(), 5u);  // only the pairs are merged
  EXPECT_EQ(shown(prompts[0]), "q: [a] *0");
  EXPECT_EQ(shown(prompts[1]), "q: [b] [c] [d] [e] 0>1 2>3 *2");
  EXPECT_EQ(shown(prompts[2]), "q: [a] *0");
  EXPECT_EQ(shown(prompts[3]), ": [all] *0");
  EXPECT_TRUE(prompts[0].labels.empty());
  ASSERT_EQ(prompts[2].labels.size(), 1u);
  EXPECT_TRUE(prompts[2].labels[0].desirable);
  ASSERT_EQ(prompts[4].labels.size(), 1u);
  EXPECT_FALSE(prompts[4].labels[0].desirable);
  EXPECT_EQ(prompts[4].labels[0].weight, 2);
  EXPECT_EQ(prompts[0].split_hash, split_hash_of("q"));
  EXPECT_EQ(prompts[3].split_hash, split_hash_of("all"));
}

TEST(Columns, LabelsAreTrueOrFalse) {
  const auto label = [](Value value) {
    PromptTexts texts;
    add_row_by_columns(completion(std::move(value)), {}, texts);
    return std::move(texts).take().at(0).labels.at(0).desirable;
  };
  for (const Value& good : {boolean(true), Value::of(1.0), text("1"), text("true"), text("TRUE")})
    EXPECT_TRUE(label(good));
  for (const Value& bad : {boolean(false), Value::of(0.0), text("0"), text("false"), text("False")})
    EXPECT_FALSE(label(bad));
  for (const auto& [value, shown] : std::vector<std::pair<Value, std::string>>{
           {Value::of(2.0), "'2'"}, {text("good"), "'good'"}, {Value{}, "null"}, {list({}), "a list"}})
    EXPECT_EQ(problem([&](PromptTexts& t) { add_row_by_columns(completion(value), {}, t); }),
              fmt::format("'label' is {}, expected true or false", shown));
}

TEST(Columns, NoneIgnoresOne) {
  const Value value = row({{"prompt", text("q")},
                           {"chosen", text("a b")},
                           {"rejected", text("a c")},
                           {"margin", text("x")},
                           {"none", Value::of(7.0)}});
  PromptTexts texts;
  add_row_by_columns(Value(value), {{"margin", "none"}}, texts);
  add_row_by_columns(Value(value), {{"margin", "none"}, {"prompt", "none"}}, texts);
  const auto prompts = std::move(texts).take();
  EXPECT_EQ(prompts[0].pairs[0].margin, 0);
  EXPECT_EQ(shown(prompts[1]), "a: [ b] [ c] 0>1 *0");  // whole transcripts
}

TEST(Columns, ABadRowNamesTheMissingColumn) {
  const Value value = row({{"asked", text("q")}, {"chosen", text("abc")}, {"rejected", text("xyz")}});
  const std::string got = problem([&](PromptTexts& t) {
    add_row_by_columns(Value(value), {{"prompt", "askd"}}, t);
  });
  EXPECT_NE(got.find("data.columns={prompt: askd} names a column that this row does not have; did you mean "
                     "'asked'?"),
            std::string::npos)
      << got;
}

TEST(ColumnUse, KnowsWhatIsNamedAndWhatIsUsed) {
  const auto used = [](const ColumnNames& names, const std::vector<Value>& rows) {
    ColumnUse use(names);
    for (const Value& value : rows) use.add(value);
    return fmt::format("{}|{}", use.problem(), fmt::join(use.unused(), ","));
  };
  const Value pair = row({{"prompt", text("q")}, {"chosen", text("a")}, {"rejected", text("b")}});
  const Value more = row({{"prompt", text("q")},
                          {"chosen", text("a")},
                          {"rejected", text("b")},
                          {"system", text("s")},
                          {"scores", list({})}});
  const Value ranked = row({{"prompt", text("q")},
                            {"responses", list({text("a")})},
                            {"scores", list({Value::of(1.0)})},
                            {"chosen", text("a")}});
  EXPECT_EQ(used({}, {pair, pair}), "|");
  EXPECT_EQ(used({}, {pair, more}), "|scores,system");
  EXPECT_EQ(used({{"system", "none"}}, {pair, more}), "|scores");
  EXPECT_EQ(used({}, {ranked}), "|chosen");
  EXPECT_EQ(used({}, {more, ranked}), "|system");  // each column is used by some row
  EXPECT_EQ(used({{"prompt", "system"}}, {pair, more}), "|prompt,scores");
  EXPECT_EQ(used({{"weight", "none"}, {"scores", "none"}}, {more}), "|system");
  EXPECT_EQ(
      used({{"prompt", "sytem"}}, {more}),
      "data.columns={prompt: sytem}: no row has a column 'sytem'; did you mean 'system'? (columns: chosen, "
      "prompt, rejected, scores, system; {prompt: none} ignores it)|prompt,scores,system");
  EXPECT_EQ(used({{"prompt", "x"}}, {}), "|");
  EXPECT_EQ(used({}, {completion(boolean(true)), row({{"text", text("a")}, {"title", text("b")}})}),
            "|title");
}

TEST(Columns, RefuseBadRows) {
  const Value chat = list({row({{"role", text("user")}, {"content", text("hi")}})});
  const std::vector<std::pair<Value, std::string>> cases = {
      {row({{"chosen", chat}, {"rejected", chat}}), "no first message in common"},
      {row({{"x", text("a")}, {"y", text("b")}}), "expected the columns 'prompt, chosen, rejected'"},
      {row({{"prompt", text("a")}, {"chosen", text("b")}}), "got: prompt, chosen"},
      {row({{"prompt", text("")}, {"chosen", text("b")}, {"rejected", text("c")}}), "the prompt is empty"},
      {row({{"prompt", text("a")}, {"chosen", Value{}}, {"rejected", text("c")}}),
       "'chosen' is null, expected a string"},
      {row({{"prompt", Value::of(1.0)}, {"chosen", text("b")}, {"rejected", text("c")}}),
       "'prompt' is a number"},
      {row({{"chosen", text("abc")}, {"rejected", text("xyz")}}), "have no common prefix"},
      {row({{"Prompt", text("p")}, {"Chosen", text("a")}, {"Rejected", text("b")}}),
       "data.columns={prompt: Prompt, chosen: Chosen, rejected: Rejected} maps other names"},
      {row({{"prompt", text("p")}, {"chosen", text("a")}, {"reject", text("b")}}),
       "data.columns={rejected: reject} maps other names"},
      {row({{"question", text("p")}, {"good", text("a")}, {"bad", text("b")}}),
       "data.columns={prompt: NAME, ...} maps other names"},
      {row({{"train", list({row({{"prompt", text("p")}}), row({{"prompt", text("q")}})})}}),
       "the only column, 'train', is a list of 2 objects; if these are the rows, the file must be that list "
       "alone"},
      {row({{"prompt", text("q")}, {"responses", text("a")}, {"scores", list({})}}),
       "'responses' is a string, expected a list"},
      {row({{"prompt", text("q")}, {"responses", list({text("a")})}, {"scores", list({text("1")})}}),
       "'scores' is a list that contains a string, expected numbers only"},
      {row({{"prompt", text("q")}, {"responses", list({text("a")})}, {"scores", list({})}}),
       "1 responses, but 0 scores or ranks"},
      {row({{"prompt", text("q")}, {"responses", list({})}, {"scores", list({})}}), "0 responses"},
      {row({{"prompt", text("q")}, {"text", text("a")}}),
       "'prompt, completion, label' (KTO), or for SFT 'prompt, completion', 'messages' or 'text'; got: "
       "prompt, text"},
      {row({{"prompt", text("")}, {"completion", text("a")}}), "the prompt is empty"},
      {row({{"text", Value::of(1.0)}}), "'text' is a number, expected a string"},
  };
  for (const auto& [bad, message] : cases) {
    const std::string got = problem([&](PromptTexts& t) { add_row_by_columns(Value(bad), {}, t); });
    EXPECT_NE(got.find(message), std::string::npos) << message << "\n" << got;
  }
}

TEST(Transcripts, AreCutAtATurnElseAtAWord) {
  const auto prompt = [](const std::string& chosen, const std::string& rejected) {
    return chosen.substr(0, prompt_end(chosen, rejected));
  };
  EXPECT_EQ(prompt("\n\nHuman: a\n\nAssistant: Yes, I", "\n\nHuman: a\n\nAssistant: Yes, you"),
            "\n\nHuman: a\n\nAssistant:");
  EXPECT_EQ(prompt("<|im_start|>assistant\nAb", "<|im_start|>assistant\nAc"), "<|im_start|>assistant\n");
  EXPECT_EQ(prompt("[INST] x [/INST] a", "[INST] x [/INST] b"), "[INST] x [/INST]");
  EXPECT_EQ(prompt("The sky is blue", "The sky is black"),
            "The sky is");  // the space belongs to the response
  EXPECT_EQ(prompt("Question?\nYes", "Question?\nYears"), "Question?\n");  // a newline does not
  EXPECT_EQ(prompt("One two", "One two three"), "One two");                // complete words in both
  EXPECT_EQ(prompt("caf\u00e9 x", "caf\u00e8 x"), "");  // no half characters, no half words
  EXPECT_EQ(prompt("a \u00e9", "a \u00e8"), "a");
  EXPECT_EQ(prompt("same", "same"), "same");
}

}  // namespace
}  // namespace dpo::data
