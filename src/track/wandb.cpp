#include "track/wandb.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/output_files.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "track/append_file.h"
#include "track/clock.h"
#include "track/framing.h"
#include "track/histogram.h"
#include "track/wandb_records.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kFolderPrefix = "offline-run-";

std::string random_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> letter(0, kLetters.size() - 1);
  std::string id;
  for (int i = 0; i < 8; ++i) id += kLetters[letter(device)];
  return id;
}

// NaN and the infinities as Python and W&B write them.
std::string json_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return ordered_json(value).dump();
}

void merge(Items& into, const Items& more) {
  for (const auto& item : more)
    if (std::ranges::find(into, item.first, &Items::value_type::first) == into.end()) into.push_back(item);
}

Items items_of(const Row& row) {
  Items items;
  for (const auto& [name, value] : row.values) items.emplace_back(name, json_of(value));
  return items;
}

Items time_items(std::int64_t step, double started) {
  const double now = seconds_since_1970();
  return {
      {"_step", std::to_string(step)}, {"_timestamp", json_of(now)}, {"_runtime", json_of(now - started)}};
}

// What is read of the file of a run that is resumed.
struct OldRun {
  fs::path file;
  WandbRun run;
  std::map<std::int64_t, Items> rows;
};

std::optional<OldRun> read_old_run(const fs::path& file) try {
  const MappedFile mapped(file, "a W&B run");
  const auto bytes = mapped.bytes();
  const auto records = wandb_records({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (records.size() < 2 || !is_our_header(records[0])) return std::nullopt;
  OldRun old{file, read_run(records[1]).value_or(WandbRun{}), {}};
  if (old.run.id.empty()) return std::nullopt;
  for (const std::string& record : records)
    if (auto row = read_history(record)) old.rows[row->first] = std::move(row->second);
  return old;
} catch (const std::exception&) {
  return std::nullopt;
}

// RUN/wandb/offline-run-TIME-ID/run-ID.wandb, the newest that we wrote.
std::optional<OldRun> newest_run(const fs::path& run) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "wandb", none))
    if (entry.path().filename().string().starts_with(kFolderPrefix)) folders.push_back(entry.path());
  std::ranges::sort(folders, std::greater());
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (auto old = read_old_run(folder / fmt::format("run-{}.wandb", name.substr(name.rfind('-') + 1))))
      return old;
  }
  return std::nullopt;
}

// The rows up to the checkpoint, of the history and of the old file, which has their time, histograms,
// samples and infinite values. An update and an evaluation at the same step are one row, as in W&B itself.
std::map<std::int64_t, Items> rows_of(std::span<const Row> history, const OldRun& old,
                                      const Settings& settings) {
  std::map<std::int64_t, Items> rows;
  for (const Row& row : history) merge(rows[row.step], items_of(row));
  for (const auto& [step, items] : old.rows) {
    if (step > settings.examples) continue;
    // An evaluation at the last step may come after the checkpoint.
    const bool belongs = step < settings.examples || settings.evaluated == step;
    for (const auto& [key, json] : items)
      if (belongs || (key.starts_with("_") && rows.contains(step))) merge(rows[step], {{key, json}});
  }
  for (auto& [step, items] : rows) merge(items, time_items(step, old.run.started));
  return rows;
}

class Wandb : public Tracker {
 public:
  // `rows`: from before the run was resumed. `unfinished`: the row at the checkpoint's step, if its
  // evaluation is still to come; the others are in the file at once, as nothing else has their histograms and
  // samples.
  Wandb(const fs::path& file, const WandbRun& run, const Settings& settings,
        const std::map<std::int64_t, Items>& rows, Items unfinished)
      : run_(run),
        file_(file, first_contents(run, settings, rows)),
        step_(settings.examples),
        row_(std::move(unfinished)) {}

  bool add(const Row& row) override {
    continue_row(row.step, items_of(row));
    merge(row_, time_items(row.step, run_.started));
    return file_.is_written();
  }

  bool add_histograms(std::int64_t step, std::span<const Distribution> distributions) override {
    Items items;
    for (const Distribution& distribution : distributions) {
      const Histogram histogram = histogram_of(distribution.values);
      items.emplace_back(
          distribution.name,
          ordered_json{{"_type", "histogram"}, {"values", histogram.counts}, {"bins", histogram.edges}}
              .dump());
    }
    continue_row(step, items);
    return file_.is_written();
  }

  // The tables of direct-preference-optimization.
  bool add_samples(std::int64_t step, std::span<const SampleText> samples) override {
    ordered_json policy = ordered_json::array(), reference = ordered_json::array();
    for (const SampleText& sample : samples) {
      const std::string prompt = replace_invalid_utf8(sample.prompt);
      policy.push_back({step, prompt, replace_invalid_utf8(sample.policy)});
      if (sample.reference) reference.push_back({step, prompt, replace_invalid_utf8(*sample.reference)});
    }
    add_table(step, "policy_samples", policy);
    if (!reference.empty()) add_table(step, "reference_samples", reference);
    return write_tables() && file_.is_written();
  }

  bool flush() override {
    if (!row_.empty()) {
      for (const std::string& record : row_records(step_, row_)) append(record);
      row_.clear();
    }
    return write_tables() && file_.append("");
  }

  bool finish(int exit_status) override {
    const bool flushed = flush();
    return append(exit_record(exit_status, static_cast<std::int64_t>(seconds_since_1970() - run_.started))) &&
           flushed;
  }

 private:
  static std::string first_contents(const WandbRun& run, const Settings& settings,
                                    const std::map<std::int64_t, Items>& rows) {
    std::string contents = wandb_header();
    const auto add = [&contents](const std::string& record) {
      contents += wandb_record(record, contents.size());
    };
    add(header_record());
    add(run_record(run, *settings.wandb, settings.config));
    for (const auto& [step, items] : rows)
      for (const std::string& record : row_records(step, items)) add(record);
    return contents;
  }

  bool append(const std::string& record) { return file_.append(wandb_record(record, file_.size())); }

  void continue_row(std::int64_t step, const Items& items) {
    if (step != step_) flush();
    step_ = step;
    merge(row_, items);
  }

  // A table is a file of its own, which the row refers to.
  void add_table(std::int64_t step, const std::string& name, const ordered_json& rows) {
    const std::string text = ordered_json{{"columns", {"step", "prompt", "sample"}}, {"data", rows}}.dump();
    Sha256 sum;
    sum.add(text);
    const std::string hash = to_hex(sum.finish());
    const std::string path = fmt::format("media/table/{}_{}_{}.table.json", name, step, hash.substr(0, 20));
    continue_row(step, {{name, ordered_json{{"_type", "table-file"},
                                            {"ncols", 3},
                                            {"nrows", rows.size()},
                                            {"path", path},
                                            {"sha256", hash},
                                            {"size", text.size()}}
                                   .dump()}});
    tables_[file_.path().parent_path() / "files" / path] = text;
  }

  // Whether all tables are written; the others are tried again.
  bool write_tables() {
    std::erase_if(tables_, [](const auto& table) {
      try {
        fs::create_directories(table.first.parent_path());
        write_file(table.first, table.second);
        return true;
      } catch (const std::exception&) {
        return false;
      }
    });
    return tables_.empty();
  }

  WandbRun run_;
  AppendFile file_;
  std::int64_t step_;  // of the row that is not written yet
  Items row_;
  std::map<fs::path, std::string> tables_;  // that are not written yet
};

}  // namespace

std::unique_ptr<Tracker> open_wandb(const Settings& settings, std::span<const Row> history) {
  OldRun old = newest_run(settings.folder).value_or(OldRun{});
  if (old.file.empty()) {
    old.run = {random_id(), seconds_since_1970()};
    const auto start = static_cast<std::time_t>(old.run.started);
    old.file = settings.folder / "wandb" /
               fmt::format("{}{:%Y%m%d_%H%M%S}-{}", kFolderPrefix, fmt::localtime(start), old.run.id) /
               fmt::format("run-{}.wandb", old.run.id);
  }
  std::error_code none;
  fs::remove(fs::path(old.file) += ".synced", none);  // there will be more to upload
  auto rows = rows_of(history, old, settings);
  Items unfinished;
  if (settings.evaluated != settings.examples)
    if (auto last = rows.extract(settings.examples)) unfinished = std::move(last.mapped());
  return std::make_unique<Wandb>(old.file, old.run, settings, rows, std::move(unfinished));
}

std::optional<fs::path> wandb_folder(const fs::path& run) {
  const auto newest = newest_run(run);
  if (!newest) return std::nullopt;
  return newest->file.parent_path();
}

}  // namespace dpo::track
