#include "track/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "track/framing.h"
#include "track/histogram.h"
#include "track/protobuf.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigTag = "config";
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::string_view kSuffix = ".dpo";  // marks our files; those of other programs are not touched

// Field numbers of the messages in TensorBoard's event.proto, summary.proto and tensor.proto.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string make_event(std::int64_t step, const Message& values) {
  return Message()
      .real(event::kWallTime, seconds_since_1970())
      .number(event::kStep, step)
      .text(event::kSummary, values.bytes())
      .bytes();
}

std::string scalar_event(const Row& row) {
  Message values;
  for (const auto& [name, number] : row.values)
    values.text(
        summary::kValue,
        Message().text(value::kTag, name).real32(value::kSimpleValue, static_cast<float>(number)).bytes());
  return make_event(row.step, values);
}

// Indents a text as a Markdown code block, which TensorBoard shows unchanged.
std::string as_code(std::string_view text) {
  std::string code = "    ";
  for (const char c : replace_invalid_utf8(text)) {
    code += c;
    if (c == '\n') code += "    ";
  }
  return code;
}

std::string text_value(const std::string& tag, const std::string& markdown) {
  constexpr int kString = 7, kTensorClass = 2;  // DT_STRING, DATA_CLASS_TENSOR
  const Message shape = Message().text(2, Message().number(1, 1).bytes());
  const Message tensor = Message().number(1, kString).text(2, shape.bytes()).text(8, markdown);
  const Message metadata = Message().text(1, Message().text(1, "text").bytes()).number(4, kTensorClass);
  return Message()
      .text(value::kTag, tag)
      .text(value::kTensor, tensor.bytes())
      .text(value::kMetadata, metadata.bytes())
      .bytes();
}

std::string histogram_value(const Distribution& distribution) {
  const Histogram histogram = histogram_of(distribution.values);
  const Message message = Message()
                              .real(1, histogram.edges.front())
                              .real(2, histogram.edges.back())
                              .real(3, histogram.count)
                              .real(4, histogram.sum)
                              .real(5, histogram.sum_of_squares)
                              .reals(6, std::span(histogram.edges).subspan(1))
                              .reals(7, histogram.counts);
  return Message().text(value::kTag, distribution.name).text(value::kHistogram, message.bytes()).bytes();
}

std::string sample_text(const SampleText& sample) {
  std::string text =
      "**prompt**\n\n" + as_code(sample.prompt) + "\n\n**policy**\n\n" + as_code(sample.policy);
  if (sample.reference) text += "\n\n**reference**\n\n" + as_code(*sample.reference);
  return text;
}

std::string config_event(std::int64_t step, const std::string& config) {
  const std::string readable = nlohmann::ordered_json::parse(config).dump(2);
  return make_event(step, Message().text(summary::kValue, text_value(kConfigTag, as_code(readable))));
}

// Returns our event files, the oldest first.
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Returns the last step in the files, or -1.
std::int64_t last_step(const std::vector<fs::path>& files) {
  std::int64_t last = -1;
  for (const fs::path& file : files) {
    std::ifstream bytes(file, std::ios::binary);
    TfReader reader(bytes);
    for (std::string record; reader.next(record);)
      if (!field_of(record, event::kSummary).bytes.empty())
        last = std::max(last, static_cast<std::int64_t>(field_of(record, event::kStep).value));
  }
  return last;
}

// Returns an event that makes readers discard earlier files' events from this step on.
std::string restart_event(std::int64_t step) {
  constexpr int kStatus = 1, kStart = 1;
  return Message()
      .real(event::kWallTime, seconds_since_1970())
      .number(event::kStep, step)
      .text(event::kSessionLog, Message().number(kStatus, kStart).bytes())
      .bytes();
}

std::string version_event() {
  return Message()
      .real(event::kWallTime, seconds_since_1970())
      .text(event::kFileVersion, "brain.Event:2")
      .bytes();
}

// Returns a name after those of the existing files, because readers take the files by name.
std::string file_name(const std::vector<fs::path>& files) {
  auto time = static_cast<std::int64_t>(seconds_since_1970());
  if (!files.empty()) {
    const std::string newest = files.back().filename().string();
    time = std::max<std::int64_t>(time, std::atoll(newest.c_str() + kPrefix.size()) + 1);
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{:010}.{}.{}.0{}", kPrefix, time, host.data(), ::getpid(), kSuffix);
}

fs::path folder_of(const TensorBoard::Settings& settings) { return settings.run / "tensorboard"; }

// Returns the first step that this process logs: the checkpoint's own step if its evaluation is still to
// come, otherwise the next one.
std::int64_t start_of(const TensorBoard::Settings& settings) {
  return settings.examples + (settings.evaluated == settings.examples ? 1 : 0);
}

// Returns `row` without the values that `before` has logged at the same step: an evaluation repeats the
// counters of the update before it.
Row without_repeated(Row row, const Row& before) {
  if (row.step != before.step) return row;
  const auto is_repeated = [&](const auto& value) {
    return std::ranges::any_of(before.values, [&](const auto& other) { return other.first == value.first; });
  };
  std::erase_if(row.values, is_repeated);
  return row;
}

}  // namespace

TensorBoard::TensorBoard(const Settings& settings, const History& history)
    : TensorBoard(settings, history, event_files(folder_of(settings))) {}

// A resumed run gets a new file, and the others stay unchanged. TensorBoard follows files that grow, but not
// files that are replaced.
TensorBoard::TensorBoard(const Settings& settings, const History& history, const std::vector<fs::path>& files)
    : file_(folder_of(settings) / file_name(files),
            tf_record(version_event()) + tf_record(restart_event(start_of(settings))) +
                tf_record(config_event(settings.examples, settings.config))) {
  if (!history) return;
  const std::int64_t first =
      std::min(last_step(files) + 1, start_of(settings));  // the files lack the rows from here on
  history(std::min(first, settings.examples), [&](const Row& row) {
    if (row.step >= first)
      add(row);
    else
      last_ = row;
  });
}

bool TensorBoard::add(const Row& row) {
  const Row fresh = without_repeated(row, last_);
  last_ = row;
  return file_.append(tf_record(scalar_event(fresh)));
}

bool TensorBoard::add_histograms(std::int64_t step, std::span<const Distribution> distributions) {
  Message values;
  for (const Distribution& distribution : distributions)
    values.text(summary::kValue, histogram_value(distribution));
  return file_.append(tf_record(make_event(step, values)));
}

bool TensorBoard::add_samples(std::int64_t step, std::span<const SampleText> samples) {
  Message values;
  for (std::size_t i = 0; i < samples.size(); ++i)
    values.text(summary::kValue, text_value(fmt::format("samples/{}", i + 1), sample_text(samples[i])));
  return file_.append(tf_record(make_event(step, values)));
}

bool TensorBoard::flush() { return file_.append(""); }

}  // namespace dpo::track
