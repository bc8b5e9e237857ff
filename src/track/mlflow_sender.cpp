#include "track/mlflow_sender.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace dpo::track {
namespace {

// Whole lines from `begin` on: one, or as many as fit into a quarter megabyte, more than a request contains.
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
    if (error.code == kMissing) {  // the server has a new database: all of it is sent again
      run_.sent = 0;
      run_.id = run_.experiment_id = run_.artifacts = "";
      throw MlflowUnavailable(error.what());
    }
    rejected_values_ += request.values;
    rejected_artifacts_ += request.kind == MlflowRequest::Kind::artifact ? 1 : 0;
    if (rejection_.empty()) rejection_ = error.what();
  }
  // A part of a line, of a damaged file, is skipped.
  run_.sent = request.bytes > 0 ? run_.sent + request.bytes : end;
  remember();
}

void MlflowSender::reload(std::uint64_t end) {
  const auto state = read_mlflow_run(folder_);
  if (state && state->tag != run_.tag) return remember();  // a process that sent the old run wrote it
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

// Without it, on a full disk, a resumed run sends again what the server has. With a database the server
// ignores that; with a folder of files it keeps both.
void MlflowSender::remember() const try {
  if (keeps_state_ && !was_replaced()) write_mlflow_run(folder_, run_);
} catch (const std::exception&) {
}

// Whether the queue is now of another run.
bool MlflowSender::was_replaced() const {
  if (is_of_run_) return false;
  const auto state = read_mlflow_run(folder_);
  return state && state->tag != run_.tag;
}

}  // namespace dpo::track
