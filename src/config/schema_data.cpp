#include "config/schema_parts.h"

namespace dpo::config {

std::vector<Field> data_fields() {
  using D = DataConfig;
  constexpr auto kData = &RunConfig::data;
  constexpr auto kPaths = &RunConfig::dataset_paths;
  const Check<std::string> folder = path("a folder");
  const Check<std::string> name = text("a name");
  const Check<std::string> dataset = path("a data set");
  const Check<BadExamplePolicy> policy = one_of(all_choices<BadExamplePolicy>());
  return {
      field("dataset_paths.hh", kPaths, &DatasetPaths::hh, Effect::local, "null", folder,
            "Folder with the files of Anthropic/hh-rlhf; null: the Hugging Face cache."),
      field("dataset_paths.shp", kPaths, &DatasetPaths::shp, Effect::local, "null", folder,
            "Folder with the files of stanfordnlp/SHP; null: the Hugging Face cache."),
      field(
          "dataset_paths.se", kPaths, &DatasetPaths::se, Effect::local, "null", folder,
          "Folder with the files of HuggingFaceH4/stack-exchange-preferences; null: the Hugging Face cache."),
      field(
          "data.columns", kData, &D::columns, Effect::indirect, "{}",
          map_of("a map of columns such as {prompt: question, chosen: good}",
                 one_of({"prompt", "chosen", "rejected", "responses", "scores", "ranking", "weight", "margin",
                         "completion", "label", "text", "messages", "system", "question", "tools",
                         "response1", "response2", "overall_preference", "chat_template_kwargs"}),
                 name),
          "Names of columns in your own files, where they are not the usual ones (docs/data.md lists them); "
          "{margin: none} ignores that column."),
      field(
          "data.weights", kData, &D::weights, Effect::indirect, "{}",
          map_of("a map of numbers >= 0 such as {hh: 2}", dataset, not_below(0)),
          "How often a data set's prompts appear in an epoch of training: 2 is twice, 0.5 every other one."),
      field("data.limits", kData, &D::limits, Effect::indirect, "{}",
            map_of("a map of whole numbers >= 1 such as {hh: 1000}", dataset, at_least(1)),
            "Maximum rows to read of each split of a data set, from the start of its files."),
      field("data.test_share", kData, &D::test_share, Effect::indirect, "null", from_to_below(0, 1),
            "Share of prompts held out for testing, for your own files without train and test splits; null: "
            "0.01, or, below 1600 rows, about 16 prompts (at most 0.1)."),
      field("data.train_on", kData, &D::train_on, Effect::indirect, "assistant",
            one_of(all_choices<TrainOn>()),
            "Part of a conversation to train on. assistant: all of the assistant's turns in the response (in "
            "SFT: in the whole conversation); last: only its last turn."),
      field("data.keep_system", kData, &D::keep_system, Effect::indirect, "true", yes_or_no(),
            "Keep the system message of a conversation when its first turns are dropped because it is too "
            "long."),
      field("data.tools", kData, &D::tools, Effect::indirect, "null", path("a JSON file"),
            "JSON file with a list of tools for the chat template, for conversations without a column "
            "'tools'."),
      field("data.on_error", kData, &D::on_error, Effect::indirect, "fail",
            one_of(all_choices<BadRowPolicy>()),
            "What to do with a row that cannot be read: fail, or skip and count it."),
      field(
          "data.eos_in_text", kData, &D::eos_in_text, Effect::indirect, "drop", policy,
          "Examples whose text contains the end-of-text token (an error in direct-preference-optimization)."),
      field("data.empty_response", kData, &D::empty_response, Effect::indirect, "drop", policy,
            "Examples with an empty response."),
      field("data.equal_responses", kData, &D::equal_responses, Effect::indirect, "drop", policy,
            "Pairs whose responses are equal after truncation."),
      field("data.no_room", kData, &D::no_room, Effect::indirect, "drop", policy,
            "Examples whose prompt leaves no room for a response within max_length."),
  };
}

}  // namespace dpo::config
