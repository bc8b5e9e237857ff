#include "track/mlflow_sender.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace dpo::track {
namespace {

// Returns whole lines from `begin` on: as many as fit into 256 KiB, which is more than a request contains, or
// one longer line.
std::string read_lines(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end) {
  std::ifstream file(path, std::ios::binary);
  for (std::uint64_t size = 256u << 10;; size *= 2) {
    std::string text(std::min(size, end - begin), '\0');
    file.seekg(static_cast<std::streamoff>(begin));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file) throw MlflowUnavailable("cannot read " + path.string());
    if (text.find('\n') != text.npos || size >= end - begin) return text;
  }
}

}  // namespace

MlflowSender::MlflowSender(std::filesystem::path folder, MlflowRun run, const std::atomic<bool>* cancelled,
                           bool keeps_state)
    : folder_(std::move(folder)),
      run_(std::move(run)),
      client_(run_.uri, cancelled),
      is_of_run_(cancelled != nullptr),
      keeps_state_(keeps_state) {}

void MlflowSender::send_next(std::uint64_t end) {
  if (run_.id.empty()) {
    client_.open(run_);
    remember();
  }
  const std::string lines = read_lines(mlflow_queue(folder_), run_.sent, end);
  if (was_replaced()) throw MlflowUnavailable("the run began again, and sends its new rows itself");
  const MlflowRequest request = next_request(lines, run_.id);
  try {
    client_.send(run_, request);
    sent_values_ += request.values;
  } catch (const MlflowRejected& error) {
    if (error.code == kMissing) {  // the server has a new database: everything is sent again
      run_.sent = 0;
      run_.id = run_.experiment_id = run_.artifacts = "";
      throw MlflowUnavailable(error.what());
    }
    rejected_values_ += request.values;
    rejected_artifacts_ += request.kind == MlflowRequest::Kind::artifact ? 1 : 0;
    if (rejection_.empty()) rejection_ = error.what();
  }
  // Skips a partial line of a damaged file.
  run_.sent = request.bytes > 0 ? run_.sent + request.bytes : end;
  remember();
}

void MlflowSender::reload(std::uint64_t end) {
  const auto state = read_mlflow_run(folder_);
  if (state && state->tag != run_.tag) return remember();  // a process that was sending the old run wrote it
  if (!state || state->uri != run_.uri) return;
  run_ = *state;
  run_.sent = std::min(run_.sent, end);
}

std::string MlflowSender::rejected() const {
  const std::string values = fmt::format("{} values", rejected_values_);
  if (rejected_artifacts_ == 0) return values;
  const std::string samples = fmt::format("the samples of {} evaluations", rejected_artifacts_);
  return rejected_values_ == 0 ? samples : values + " and " + samples;
}

std::int64_t MlflowSender::remaining() const {
  std::ifstream queue(mlflow_queue(folder_), std::ios::binary);
  queue.seekg(static_cast<std::streamoff>(run_.sent));
  return count_values(queue);
}

// Saves run.json, except on a full disk. Without it, a resumed run sends again what the server has. A server
// with a database ignores repeated values, but one with a folder of files keeps both.
void MlflowSender::remember() const try {
  if (keeps_state_ && !was_replaced()) write_mlflow_run(folder_, run_);
} catch (const std::exception&) {
}

// Returns true if the queue now belongs to another run.
bool MlflowSender::was_replaced() const {
  if (is_of_run_) return false;
  const auto state = read_mlflow_run(folder_);
  return state && state->tag != run_.tag;
}

}  // namespace dpo::track
