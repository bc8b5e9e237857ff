#include "track/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/utf8.h"
#include "track/append_file.h"
#include "track/clock.h"
#include "track/framing.h"
#include "track/histogram.h"
#include "track/protobuf.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigTag = "config";
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::string_view kSuffix = ".dpo";  // a file of another program is not touched

// Field numbers of the messages in TensorBoard's event.proto, summary.proto and tensor.proto.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
}
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9;
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

// Text that TensorBoard, which renders Markdown, shows as it is: indented, it is a code block.
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

std::string config_event(const std::string& config) {
  const std::string readable = nlohmann::ordered_json::parse(config).dump(2);
  return make_event(0, Message().text(summary::kValue, text_value(kConfigTag, as_code(readable))));
}

struct OldEvent {
  std::int64_t step = 0;
  std::string tag;  // of the first value
  std::string bytes;
};

OldEvent old_event(std::string_view bytes) {
  const std::string_view first = field_of(field_of(bytes, event::kSummary).bytes, summary::kValue).bytes;
  return {static_cast<std::int64_t>(field_of(bytes, event::kStep).value),
          std::string(field_of(first, value::kTag).bytes), std::string(bytes)};
}

// Our event files, the oldest first.
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

std::vector<OldEvent> read_events(const std::vector<fs::path>& files) {
  std::vector<OldEvent> events;
  for (const fs::path& file : files) try {
      const MappedFile mapped(file, "a TensorBoard event file");
      const auto bytes = mapped.bytes();
      for (const std::string_view record :
           tf_records({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
        events.push_back(old_event(record));
    } catch (const std::exception&) {  // its rows are added again from the history
    }
  return events;
}

// The events of the history: those that a file has, with their time, and the others as they would be written
// now. Histograms and samples belong to the evaluation at their step.
std::vector<std::string> events_of(std::span<const Row> history, std::vector<OldEvent> old) {
  using Key = std::pair<std::int64_t, std::string>;
  std::set<Key> rows, written;
  std::set<std::string> row_names;
  std::set<std::int64_t> evaluations;
  for (const Row& row : history) {
    rows.emplace(row.step, row.values.front().first);
    row_names.insert(row.values.front().first);
    if (row.is_evaluation) evaluations.insert(row.step);
  }
  const auto belongs = [&](const OldEvent& event) {
    if (event.tag.empty() || event.tag == kConfigTag) return false;  // they are written anew
    if (row_names.contains(event.tag)) return rows.contains({event.step, event.tag});
    return evaluations.contains(event.step);
  };
  std::vector<OldEvent> events;
  for (OldEvent& event : old)
    if (belongs(event) && written.emplace(event.step, event.tag).second) events.push_back(std::move(event));
  Row before{.step = -1};
  for (const Row& row : history) {
    if (written.emplace(row.step, row.values.front().first).second)
      events.push_back({row.step, row.values.front().first, scalar_event(without_repeated(row, before))});
    before = row;
  }
  std::ranges::stable_sort(events, {}, &OldEvent::step);
  std::vector<std::string> all;
  for (OldEvent& event : events) all.push_back(std::move(event.bytes));
  return all;
}

// The first event of a file; that of the oldest file has the time when the run started.
std::string version_event(const std::vector<OldEvent>& old) {
  if (!old.empty() && !field_of(old.front().bytes, event::kFileVersion).bytes.empty())
    return old.front().bytes;
  return Message()
      .real(event::kWallTime, seconds_since_1970())
      .text(event::kFileVersion, "brain.Event:2")
      .bytes();
}

std::string file_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{:010}.{}.{}.0{}", kPrefix, static_cast<std::int64_t>(seconds_since_1970()),
                     host.data(), ::getpid(), kSuffix);
}

class TensorBoard : public Tracker {
 public:
  // `last`: the last row before the run was resumed.
  TensorBoard(const fs::path& path, std::string contents, Row last)
      : file_(path, std::move(contents)), last_(std::move(last)) {}

  bool add(const Row& row) override {
    const Row fresh = without_repeated(row, last_);
    last_ = row;
    return file_.append(tf_record(scalar_event(fresh)));
  }

  bool add_histograms(std::int64_t step, std::span<const Distribution> distributions) override {
    Message values;
    for (const Distribution& distribution : distributions)
      values.text(summary::kValue, histogram_value(distribution));
    return file_.append(tf_record(make_event(step, values)));
  }

  bool add_samples(std::int64_t step, std::span<const SampleText> samples) override {
    Message values;
    for (std::size_t i = 0; i < samples.size(); ++i)
      values.text(summary::kValue, text_value(fmt::format("samples/{}", i + 1), sample_text(samples[i])));
    return file_.append(tf_record(make_event(step, values)));
  }

  bool flush() override { return file_.append(""); }
  bool finish(int) override { return flush(); }

  bool is_written() const { return file_.is_written(); }

 private:
  AppendFile file_;
  Row last_;
};

}  // namespace

std::unique_ptr<Tracker> open_tensorboard(const Settings& settings, std::span<const Row> history) {
  const fs::path folder = settings.folder / "tensorboard";
  const std::vector<fs::path> old_files = event_files(folder);
  std::vector<OldEvent> old = read_events(old_files);
  std::string contents = tf_record(version_event(old)) + tf_record(config_event(settings.config));
  for (const std::string& event : events_of(history, std::move(old))) contents += tf_record(event);
  const fs::path path = folder / file_name();
  auto tracker = std::make_unique<TensorBoard>(path, std::move(contents),
                                               history.empty() ? Row{.step = -1} : history.back());
  std::error_code none;
  if (tracker->is_written())
    for (const fs::path& file : old_files)
      if (file != path) fs::remove(file, none);
  return tracker;
}

}  // namespace dpo::track
