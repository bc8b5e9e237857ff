// Finds data sets by name and reads their prompts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

enum class Split { Train, Test };

// The end of a prompt that is kept if it is too long.
enum class Truncation { KeepStart, KeepEnd };

// One split of a data set, and its files.
struct Source {
  enum class Format { Hh, Shp, Se, Columns };

  std::string name;  // as in `datasets`
  Format format = Format::Columns;
  Split split = Split::Train;
  std::vector<std::filesystem::path> files;
  bool by_hash = false;  // true if the files have both splits, divided by a hash of the prompt
  bool chat = false;     // true if the rows are conversations
  std::vector<std::string> notes{};
  Truncation truncation() const {
    return format == Format::Hh || chat ? Truncation::KeepEnd : Truncation::KeepStart;
  }
};

// Returns whether the first row of the files is a conversation.
bool begins_with_chat(const Source& source, const config::RunConfig& config);

// Finds the files of every data set of the configuration. Throws a UserError for a missing one that explains
// how to get it.
std::vector<Source> find_sources(const config::RunConfig& config, Split split);

// A data set of the configuration that is a repository on the hub. A local file or folder `name` takes
// precedence.
struct HubDataSet {
  std::string name;        // as in `datasets`
  std::string repository;  // ORG/NAME, maybe with @REVISION
  // Selects the needed files of the repository. Throws a UserError if the user has to choose.
  std::function<std::vector<std::string>(const std::vector<std::string>& paths)> choose = {};
};

// Throws a UserError for a data set that is neither here nor on the hub.
void require_local_files(const config::RunConfig& config);

std::vector<HubDataSet> hub_data_sets(const config::RunConfig& config);

// Returns a note for each known data set (hh) whose name is also that of a local file or folder. The note
// states which one is read.
std::vector<std::string> namesake_notes(const config::RunConfig& config);

struct SourceTexts {
  std::vector<PromptText> prompts;
  std::int64_t rows = 0;      // read and used
  std::int64_t bad_rows = 0;  // skipped (data.on_error=skip)
  std::vector<std::string> bad_examples;
  std::vector<std::string> notes;  // notes about its rows, without the name of the source
  std::int64_t readable = 0;       // rows of both splits, where the files have both
};

// Reads all rows of a source. Throws a UserError if it has no usable row.
SourceTexts read_source(const Source& source, const config::RunConfig& config);

// Returns the share that data.test_share=null means for this number of rows: 1 %, or more for a small file so
// that there are some prompts to evaluate on.
double default_test_share(std::int64_t rows);

}  // namespace dpo::data
