#include "track/wandb_records.h"

#include <unistd.h>

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "track/protobuf.h"

namespace dpo::track {
namespace {

// Field numbers of Record.
constexpr int kHistory = 2, kSummary = 3, kFiles = 6, kRun = 17, kExit = 18, kHeader = 21;
// Field numbers of RunRecord.
constexpr int kId = 1, kEntity = 2, kProject = 3, kConfig = 4, kName = 8, kHost = 13, kStartTime = 17;
// Field numbers of an item of the history, the summary or the configuration.
constexpr int kKey = 1, kJson = 16;
constexpr std::string_view kProducer = "dpo";

std::string make_record(int field, const Message& message) {
  return Message().text(field, message.bytes()).bytes();
}

Message make_item(std::string_view key, std::string_view json) {
  return Message().text(kKey, key).text(kJson, json);
}

Message timestamp(double seconds) {
  const double whole = std::floor(seconds);
  return Message()
      .number(1, static_cast<std::int64_t>(whole))
      .number(2, static_cast<std::int64_t>((seconds - whole) * 1e9));
}

// Returns the path of the file that a value refers to, or "".
std::string file_of(const std::string& value) {
  if (!value.starts_with("{")) return "";
  const auto parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  const bool refers = parsed.is_object() && parsed.contains("path") && parsed["path"].is_string();
  return refers ? parsed["path"].get<std::string>() : "";
}

}  // namespace

std::string header_record() {
  return make_record(kHeader, Message().text(1, Message().text(1, kProducer).bytes()));
}

std::string run_record(const WandbRun& run, const WandbSettings& settings, const std::string& config) {
  Message values;
  const auto parsed = nlohmann::ordered_json::parse(config);
  for (const auto& [key, value] : parsed.items()) values.text(1, make_item(key, value.dump()).bytes());
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  Message message;
  message.text(kId, run.id)
      .text(kProject, settings.project)
      .text(kConfig, values.bytes())
      .text(kName, settings.name);
  if (settings.entity) message.text(kEntity, *settings.entity);
  message.text(kHost, host.data()).text(kStartTime, timestamp(run.started).bytes());
  return make_record(kRun, message);
}

std::vector<std::string> row_records(std::int64_t step, const Items& items) {
  std::vector<std::string> records;
  Message values;
  for (const auto& [key, json] : items) {
    values.text(1, make_item(key, json).bytes());
    const std::string path = file_of(json);
    if (!path.empty())
      records.push_back(make_record(kFiles, Message().text(1, Message().text(1, path).bytes())));
  }
  records.push_back(make_record(kSummary, values));
  values.text(2, Message().number(1, step).bytes());
  records.push_back(make_record(kHistory, values));
  return records;
}

std::string exit_record(int status, std::int64_t seconds) {
  return make_record(kExit, Message().number(1, status).number(2, seconds));
}

bool is_our_header(std::string_view record) {
  return field_of(field_of(field_of(record, kHeader).bytes, 1).bytes, 1).bytes == kProducer;
}

std::optional<WandbRun> read_run(std::string_view record) {
  const std::string_view message = field_of(record, kRun).bytes;
  if (message.empty()) return std::nullopt;
  const std::string_view time = field_of(message, kStartTime).bytes;
  return WandbRun{
      std::string(field_of(message, kId).bytes),
      static_cast<double>(field_of(time, 1).value) + static_cast<double>(field_of(time, 2).value) / 1e9};
}

std::optional<std::int64_t> step_of_history(std::string_view record) {
  const std::string_view message = field_of(record, kHistory).bytes;
  if (message.empty()) return std::nullopt;
  return static_cast<std::int64_t>(field_of(field_of(message, 2).bytes, 1).value);
}

std::optional<std::pair<std::int64_t, Items>> read_history(std::string_view record) {
  const std::string_view message = field_of(record, kHistory).bytes;
  if (message.empty()) return std::nullopt;
  std::pair<std::int64_t, Items> row;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1)
      row.second.emplace_back(field_of(field.bytes, kKey).bytes, field_of(field.bytes, kJson).bytes);
    if (field.number == 2) row.first = static_cast<std::int64_t>(field_of(field.bytes, 1).value);
  }
  return row;
}

}  // namespace dpo::track
