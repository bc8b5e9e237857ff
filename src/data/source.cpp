#include "data/source.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "config/text.h"
#include "data/columns.h"
#include "data/formats.h"
#include "data/random.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSeSeed = 42;
constexpr double kSeTestShare = 0.01;

// Share of the rows that becomes the test split if no file is named test: 1 %, or in a small file as much as
// gives about kTestPrompts rows, but at most 10 %.
constexpr double kDefaultShare = 0.01, kMostShare = 0.1, kTestPrompts = 16;
constexpr auto kSmallFile = static_cast<std::int64_t>(kTestPrompts / kDefaultShare);  // rows

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t limit_of(const Source& source, const config::RunConfig& config) {
  const auto limit = config.data.limits.find(source.name);
  return limit == config.data.limits.end() ? kNoLimit : limit->second;
}

void read_files(const Source& source, const std::function<bool(Value&& row)>& take, BadRows& bad) {
  bool more = true;
  for (std::size_t file = 0; file < source.files.size() && more; ++file)
    read_rows(
        source.files[file], [&](Value&& row, std::int64_t) { return more = take(std::move(row)); }, bad);
}

// Reads a row of the user's own files. Either all rows are conversations or none is, because the cache keys
// of their tokens differ.
PromptText read_own(const Value& row, RowOrigin origin, const Source& source,
                    const config::RunConfig& config) {
  PromptText made = read_by_columns(row, config.data.columns, config.data.train_on);
  if (made.chat != source.chat)
    throw BadRow(fmt::format("this row is {}, but the first one is {}; put them into different files",
                             made.chat ? "a conversation" : "plain text",
                             source.chat ? "a conversation" : "plain text"));
  if (made.chat) made.origins.assign(made.responses.size(), origin);
  return made;
}

// Reads the user's own files, and converts the rows of a block on all cores. `take` returns whether to
// continue.
void read_own_files(const Source& source, const config::RunConfig& config, ColumnUse& use,
                    const std::function<bool(PromptText&& text)>& take, BadRows& bad) {
  bool more = true;
  for (std::uint32_t file = 0; file < source.files.size() && more; ++file)
    read_row_blocks(source.files[file], [&](std::vector<Row>&& rows) {
      std::vector<PromptText> texts(rows.size());
      for_each_parallel(rows.size(), [&](std::size_t i) {
        if (!rows[i].problem.empty()) return;
        try {
          texts[i] = read_own(rows[i].value, {file, rows[i].line}, source, config);
        } catch (const BadRow& refused) {
          rows[i].problem = refused.what();
        }
      });
      for (std::size_t i = 0; i < rows.size() && more; ++i) {
        use.add(rows[i].value);
        if (rows[i].problem.empty())
          more = take(std::move(texts[i]));
        else
          bad.add(source.files[file], rows[i].line, rows[i].problem);
      }
      return more;
    });
}

SourceTexts finish(PromptTexts&& texts, std::int64_t rows, std::int64_t readable, const BadRows& bad) {
  return {std::move(texts).take(), rows, bad.count(), bad.examples(), {}, readable};
}

// Adds notes on the forms of rows and on unused columns. Throws a UserError for a configured column that no
// row has: the name is a typo, and the run would train on other data.
void check_columns(const Source& source, const ColumnUse& use, SourceTexts& texts) {
  for (const std::string& form : use.forms()) texts.notes.push_back("read as " + form);
  if (const std::string problem = use.problem(); !problem.empty())
    throw UserError(fmt::format("datasets: '{}': {}", config::shown(source.name), problem));
  std::vector<std::string> unused = use.unused();
  std::ranges::replace(unused, std::string(), std::string("the one without a name (such as pandas' index)"));
  if (!unused.empty())
    texts.notes.push_back(fmt::format(
        "unused column{}: {}; data.columns={{prompt: NAME, ...}} maps column names",
        unused.size() == 1 ? "" : "s", config::shown(fmt::format("{}", fmt::join(unused, ", ")))));
}

SourceTexts read_in_order(const Source& source, const config::RunConfig& config) {
  const std::int64_t limit = limit_of(source, config);
  BadRows bad(config.data.on_error == config::BadRowPolicy::skip);
  PromptTexts texts;
  std::int64_t rows = 0;
  const auto take = [&](Value&& row) {
    source.format == Source::Format::Hh ? add_hh_row(std::move(row), texts)
                                        : add_shp_row(std::move(row), texts);
    return ++rows < limit;
  };
  read_files(source, take, bad);
  return finish(std::move(texts), rows, rows, bad);
}

// Returns the number of rows that can be read, but at most `most`.
std::uint32_t count_rows(const Source& source, const config::RunConfig& config,
                         std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
  BadRows bad(config.data.on_error == config::BadRowPolicy::skip);
  std::uint32_t rows = 0;
  read_files(
      source, [&](Value&&) { return ++rows < most; }, bad);
  return rows;
}

// Returns the hashes of the distinct prompts. Stops as soon as there are more than `most`.
std::set<std::uint64_t> distinct_prompts(const Source& source, const config::RunConfig& config,
                                         std::size_t most = std::numeric_limits<std::size_t>::max()) {
  BadRows bad(/*skip=*/true);
  std::set<std::uint64_t> prompts;
  const auto take = [&](Value&& row) {
    prompts.insert(read_by_columns(row, config.data.columns, config.data.train_on).split_hash);
    return prompts.size() <= most;
  };
  read_files(source, take, bad);
  return prompts;
}

// Returns the share that data.test_share=null means for a source. A small file gives at least one prompt to
// the test split, unless it has only one.
double default_share_of(const Source& source, const config::RunConfig& config) {
  const std::int64_t rows = count_rows(source, config, kSmallFile);
  const double share = default_test_share(rows);
  if (rows >= kSmallFile) return share;
  const std::set<std::uint64_t> prompts = distinct_prompts(source, config);
  return prompts.size() < 2 ? share : std::max(share, share_that_takes(*prompts.begin()));
}

// Returns ", 12 of its 100 rows", the size of the test split, for a note. Rows of a prompt stay together,
// so a file of few prompts may be divided very differently from its share.
std::string test_rows_of(const Source& source, const SourceTexts& read) {
  const std::int64_t test = source.split == Split::Test ? read.rows : read.readable - read.rows;
  return fmt::format(", {} of its {}", with_commas(test), plural(read.readable, "row"));
}

// Reads the user's own files. If they have both splits, rows of the other split are skipped.
SourceTexts read_own_source(const Source& source, const config::RunConfig& config) {
  const std::int64_t limit = limit_of(source, config);
  const std::optional<double>& set = config.data.test_share;
  const double share = !source.by_hash ? 0 : set ? *set : default_share_of(source, config);
  BadRows bad(config.data.on_error == config::BadRowPolicy::skip);
  PromptTexts texts;
  std::int64_t rows = 0, readable = 0;
  ColumnUse use(config.data.columns);
  const auto take = [&](PromptText&& text) {
    ++readable;
    if (source.by_hash && is_in_test_split(text.split_hash, share) != (source.split == Split::Test))
      return true;
    texts.append(std::move(text));
    return ++rows < limit;
  };
  read_own_files(source, config, use, take, bad);
  SourceTexts read = finish(std::move(texts), rows, readable, bad);
  check_columns(source, use, read);
  if (!set && share > kDefaultShare)
    read.notes.push_back(fmt::format(
        "small file: the test split is {:.2g} % of its prompts{} (data.test_share=0.01 takes 1 %)",
        100 * share, limit < kNoLimit ? "" : test_rows_of(source, read)));
  return read;
}

// Returns the position of each row of se in its shuffled split, or nullopt for a row of the other split.
std::vector<std::optional<std::uint32_t>> se_positions(const Source& source, std::uint32_t rows) {
  const std::vector<std::uint32_t> order = numpy_permutation(kSeSeed, rows);
  const auto test_rows = static_cast<std::uint32_t>(rows * kSeTestShare);
  const bool is_test = source.split == Split::Test;
  std::vector<std::optional<std::uint32_t>> positions(rows);
  for (std::uint32_t i = is_test ? 0 : test_rows; i < (is_test ? test_rows : rows); ++i)
    positions[order[i]] = is_test ? i : i - test_rows;
  return positions;
}

// Reads se, whose split is drawn from all rows. The rows are counted first, and only those of the split are
// kept.
SourceTexts read_shuffled(const Source& source, const config::RunConfig& config) {
  const auto positions = se_positions(source, count_rows(source, config));
  const std::int64_t limit = limit_of(source, config);
  struct ShuffledRow {
    std::uint32_t position;
    PromptText text;
  };
  std::vector<ShuffledRow> kept;
  BadRows bad(config.data.on_error == config::BadRowPolicy::skip);
  std::uint32_t row_number = 0;
  const auto take = [&](Value&& row) {
    const std::optional<std::uint32_t> position = positions.at(row_number++);
    if (!position || *position >= limit) return true;
    PromptTexts single;
    add_se_row(std::move(row), single);
    kept.push_back({*position, std::move(std::move(single).take().front())});
    return true;
  };
  read_files(source, take, bad);
  std::ranges::sort(kept, {}, &ShuffledRow::position);
  PromptTexts texts;
  for (ShuffledRow& row : kept) {
    PromptText& prompt = texts.at(row.text.prompt);
    prompt = std::move(row.text);  // a repeated question keeps its position and takes the later answers
  }
  return finish(std::move(texts), static_cast<std::int64_t>(kept.size()), row_number, bad);
}

std::string why_no_rows(const Source& source) {
  const fs::path& file = source.files.front();
  const std::string name =
      source.files.size() == 1 ? "the file" : fmt::format("each file, such as {},", file.string());
  const auto is_empty = [](const fs::path& one) { return fs::file_size(one) == 0; };
  if (std::ranges::all_of(source.files, is_empty)) return name + " is empty (0 bytes)";
  return name + " has only blank lines, an empty list or a line of column names";
}

// Explains why a split is empty: no row can be read, or all rows belong to the other split.
std::string why_empty(const Source& source, const SourceTexts& texts, const config::RunConfig& config) {
  const bool is_test = source.split == Split::Test;
  const char* const split = is_test ? "test" : "train";
  const std::string first = texts.bad_rows == 0 ? "" : texts.bad_examples.front();
  if (texts.readable == 0 && texts.bad_rows == 0)
    return fmt::format("there are no rows to read for the {} split: {}", split, why_no_rows(source));
  if (texts.readable == 0)
    return fmt::format("none of its {} can be read, all were skipped; the first: {}",
                       plural(texts.bad_rows, "row"), first);
  const std::string skipped =
      texts.bad_rows == 0 ? ""
                          : fmt::format(" ({} skipped, the first: {})", plural(texts.bad_rows, "row"), first);
  const std::string none =
      fmt::format("of its {} none fell into the {} split{}", plural(texts.readable, "row"), split, skipped);
  if (!source.by_hash) return none + ". Give more rows";
  constexpr const char* kNoTest = "eval_every=null data.test_share=0 to train on all rows without evaluation";
  constexpr std::size_t kFewPrompts = 2;  // with so few prompts, a share divides them only by luck
  const std::size_t prompts = distinct_prompts(source, config, kFewPrompts).size();
  if (prompts <= kFewPrompts)
    return fmt::format("{}: {} {} too few to split by prompt. Give rows with more prompts, or {}", none,
                       plural(prompts, "prompt"), prompts == 1 ? "is" : "are", kNoTest);
  return fmt::format("{}. Give more rows, a {} data.test_share, or {}", none, is_test ? "larger" : "smaller",
                     kNoTest);
}

}  // namespace

double default_test_share(std::int64_t rows) {
  return std::max(kDefaultShare,
                  std::min(kMostShare, kTestPrompts / static_cast<double>(std::max<std::int64_t>(rows, 1))));
}

bool begins_with_chat(const Source& source, const config::RunConfig& config) {
  bool chat = false;
  BadRows bad(true);
  const auto look = [&](Value&& row) {
    chat = read_by_columns(row, config.data.columns, config.data.train_on).chat;
    return false;
  };
  read_files(source, look, bad);
  return chat;
}

SourceTexts read_source(const Source& source, const config::RunConfig& config) {
  SourceTexts texts = source.format == Source::Format::Se        ? read_shuffled(source, config)
                      : source.format == Source::Format::Columns ? read_own_source(source, config)
                                                                 : read_in_order(source, config);
  if (texts.prompts.empty())
    throw UserError(
        fmt::format("datasets: '{}': {}", config::shown(source.name), why_empty(source, texts, config)));
  texts.notes.insert(texts.notes.begin(), source.notes.begin(), source.notes.end());
  return texts;
}

}  // namespace dpo::data
