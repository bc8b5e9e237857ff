#include "track/wandb.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

// Prints NaN and the infinities as Python and W&B do.
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

// The file of the run that is resumed.
struct OldRun {
  fs::path file;
  WandbRun run;
};

std::optional<OldRun> read_old_run(const fs::path& file) {
  std::ifstream bytes(file, std::ios::binary);
  WandbReader reader(bytes);
  std::string header, record;
  if (!reader.next(header) || !reader.next(record) || !is_our_header(header)) return std::nullopt;
  OldRun old{file, read_run(record).value_or(WandbRun{})};
  if (old.run.id.empty()) return std::nullopt;
  return old;
}

// Returns the newest RUN/wandb/offline-run-TIME-ID/run-ID.wandb that we wrote.
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

std::string first_records(const WandbRun& run, const Settings& settings) {
  std::string contents = wandb_header();
  for (const std::string& record : {header_record(), run_record(run, *settings.wandb, settings.config)})
    contents += wandb_record(record, contents.size());
  return contents;
}

// The rows of an old file before the checkpoint. They are kept unchanged, because only they have their time,
// histograms, samples and infinite values. A run may have more rows than fit into memory.
struct KeptRows {
  std::uint64_t end = 0;     // offset in the file after the last of them
  std::int64_t last = -1;    // step of the last of them
  Items at_checkpoint = {};  // the row of the checkpoint's step, which may have more than the checkpoint
};

// Copies the old file with other first records. On a full disk the copy ends and the old file stays.
class Copy {
 public:
  Copy(const fs::path& path, std::string first_records)
      : buffer_(std::move(first_records)), size_(buffer_.size()) {
    attempt([&] { file_.emplace(path); });
  }

  void add(const std::string& record) {
    constexpr std::size_t kBuffer = 1u << 20;
    const std::string framed = wandb_record(record, size_);
    buffer_ += framed, size_ += framed.size();
    if (buffer_.size() >= kBuffer) flush();
  }

  // Returns the size of the new file, or nullopt if the old file stays.
  std::optional<std::uint64_t> finish() {
    flush();
    attempt([&] {
      if (file_) file_->commit();
    });
    return file_ ? std::optional(size_) : std::nullopt;
  }

 private:
  template <class Action>
  void attempt(Action action) {
    try {
      action();
    } catch (const std::exception&) {
      file_.reset();
    }
  }

  void flush() {
    attempt([&] {
      if (file_) file_->write(buffer_);
    });
    buffer_.clear();
  }

  std::optional<AtomicFile> file_;
  std::string buffer_;
  std::uint64_t size_;
};

bool begins_with(const fs::path& path, const std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string found(bytes.size(), '\0');
  return file.read(found.data(), static_cast<std::streamsize>(found.size())) && found == bytes;
}

// Continues the old file after the kept rows, with the configuration of the resumed run. The file is read
// once. It is copied only if the configuration has changed.
std::unique_ptr<AppendFile> continue_file(const OldRun& old, const Settings& settings, KeptRows& kept) {
  const std::string first = first_records(old.run, settings);
  std::optional<Copy> copy;
  if (!begins_with(old.file, first)) copy.emplace(old.file, first);
  std::ifstream bytes(old.file, std::ios::binary);
  WandbReader reader(bytes);
  std::string record;
  for (int i = 0; i < 2 && reader.next(record); ++i) kept.end = reader.end();
  for (std::vector<std::string> row; reader.next(record);) {
    row.push_back(record);
    const auto step = step_of_history(record);
    if (!step) continue;
    if (*step == settings.examples) kept.at_checkpoint = read_history(record)->second;
    if (*step >= settings.examples) break;
    kept.end = reader.end(), kept.last = *step;
    if (copy)
      for (const std::string& each : row) copy->add(each);
    row.clear();
  }
  const auto copied = copy ? copy->finish() : std::nullopt;
  return std::make_unique<AppendFile>(old.file, copied.value_or(kept.end));
}

class Wandb : public Tracker {
 public:
  // `kept` are rows of the resumed run's file.
  Wandb(std::unique_ptr<AppendFile> file, const WandbRun& run, const Settings& settings, const KeptRows& kept,
        const History& history)
      : run_(run), file_(std::move(file)), step_(settings.examples) {
    if (history)
      history(kept.last + 1, [&](const Row& row) {
        continue_row(row.step, items_of(row));
        if (row.step < settings.examples) merge(row_, time_items(row.step, run_.started));
      });
    finish_checkpoint(settings, kept);
  }

  bool add(const Row& row) override {
    continue_row(row.step, items_of(row));
    merge(row_, time_items(row.step, run_.started));
    return file_->is_written();
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
    return file_->is_written();
  }

  // Logs the tables that direct-preference-optimization logs.
  bool add_samples(std::int64_t step, std::span<const SampleText> samples) override {
    ordered_json policy = ordered_json::array(), reference = ordered_json::array();
    for (const SampleText& sample : samples) {
      const std::string prompt = replace_invalid_utf8(sample.prompt);
      policy.push_back({step, prompt, replace_invalid_utf8(sample.policy)});
      if (sample.reference) reference.push_back({step, prompt, replace_invalid_utf8(*sample.reference)});
    }
    add_table(step, "policy_samples", policy);
    if (!reference.empty()) add_table(step, "reference_samples", reference);
    return write_tables() && file_->is_written();
  }

  bool flush() override {
    if (!row_.empty()) {
      for (const std::string& record : row_records(step_, row_)) append(record);
      row_.clear();
    }
    return write_tables() && file_->append("");
  }

  bool finish(int exit_status) override {
    const bool flushed = flush();
    return append(exit_record(exit_status, static_cast<std::int64_t>(seconds_since_1970() - run_.started))) &&
           flushed;
  }

 private:
  // Continues the row at the checkpoint's step. The row is written at once, with the old file's histograms
  // and samples, unless its evaluation is still to come.
  void finish_checkpoint(const Settings& settings, const KeptRows& kept) {
    const bool is_complete = settings.evaluated == settings.examples;
    const bool is_logged = step_ == settings.examples && !row_.empty();
    if (!is_logged && !(is_complete && !kept.at_checkpoint.empty()))
      return continue_row(settings.examples, {});
    continue_row(settings.examples, {});
    for (const auto& [key, json] : kept.at_checkpoint)
      if (is_complete || key.starts_with("_")) merge(row_, {{key, json}});
    merge(row_, time_items(settings.examples, run_.started));
    if (is_complete) flush();
  }

  bool append(const std::string& record) { return file_->append(wandb_record(record, file_->size())); }

  void continue_row(std::int64_t step, const Items& items) {
    if (step != step_) flush();
    step_ = step;
    merge(row_, items);
  }

  // Adds a table, which is a separate file that the row refers to.
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
    tables_[file_->path().parent_path() / "files" / path] = text;
  }

  // Returns true if all tables are written. The others are tried again.
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
  const std::unique_ptr<AppendFile> file_;
  std::int64_t step_;  // of the row that is not written yet
  Items row_;
  std::map<fs::path, std::string> tables_;  // not written yet
};

}  // namespace

std::unique_ptr<Tracker> open_wandb(const Settings& settings, const History& history) {
  const auto old = newest_run(settings.folder);
  if (!old) {
    const WandbRun run{random_id(), seconds_since_1970()};
    const auto start = static_cast<std::time_t>(run.started);
    const fs::path file = settings.folder / "wandb" /
                          fmt::format("{}{:%Y%m%d_%H%M%S}-{}", kFolderPrefix, fmt::localtime(start), run.id) /
                          fmt::format("run-{}.wandb", run.id);
    return std::make_unique<Wandb>(std::make_unique<AppendFile>(file, first_records(run, settings)), run,
                                   settings, KeptRows{}, history);
  }
  std::error_code none;
  fs::remove(fs::path(old->file) += ".synced", none);  // there will be more to upload
  KeptRows kept;
  auto file = continue_file(*old, settings, kept);
  return std::make_unique<Wandb>(std::move(file), old->run, settings, kept, history);
}

std::optional<fs::path> wandb_folder(const fs::path& run) {
  const auto newest = newest_run(run);
  if (!newest) return std::nullopt;
  return newest->file.parent_path();
}

}  // namespace dpo::track
