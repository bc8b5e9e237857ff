// Data sets by name: which files hold them, and the prompts they give.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

enum class Split { Train, Test };

// Which end of a prompt stays when it is too long.
enum class Truncation { KeepStart, KeepEnd };

// Where the rows of one split of a data set are.
struct Source {
  enum class Format { Hh, Shp, Se, Columns };

  std::string name;  // as `datasets` has it
  Format format = Format::Columns;
  Split split = Split::Train;
  std::vector<std::filesystem::path> files;
  bool by_hash = false;  // the files hold both splits: a hash of the prompt decides
  Truncation truncation() const { return format == Format::Hh ? Truncation::KeepEnd : Truncation::KeepStart; }
};

// Finds the files of every data set of the configuration. What is not there is a UserError that says how to
// get it.
std::vector<Source> find_sources(const config::RunConfig& config, Split split);

struct SourceTexts {
  std::vector<PromptText> prompts;
  std::int64_t rows = 0;      // read and used
  std::int64_t bad_rows = 0;  // left out (data.on_error=skip)
  std::vector<std::string> bad_examples;
  std::vector<std::string> notes;  // what is worth telling of its rows, without the name of the source
};

// Reads all rows of a source. A source without a single usable row is a UserError.
SourceTexts read_source(const Source& source, const config::RunConfig& config);

// Whether a prompt belongs to the test split of files that hold both: the same in every run, whatever else
// the files hold.
bool is_test_prompt(const std::string& prompt, double test_share);

// What data.test_share=null means for files of so many rows: a hundredth, or what gives a small file some
// prompts to evaluate on.
double usual_test_share(std::int64_t rows);

}  // namespace dpo::data
