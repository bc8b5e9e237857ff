#include "hub/download.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/parallel.h"
#include "base/progress_count.h"
#include "base/quantity.h"
#include "hub/cache.h"
#include "hub/partial_file.h"
#include "hub/settings.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConnections = 8;
constexpr std::int64_t kChunk = 8 << 20;      // bytes of one request
constexpr std::int64_t kAhead = 16 * kChunk;  // bytes that may wait in memory for those before them

// Thrown if the server ignores a range request and answers with the whole file.
struct NoRanges {};

// True if the answer is a part of the file that begins at `begin`: "content-range: bytes 0-99/1234".
bool begins_at(const http::Answer& answer, std::int64_t begin) {
  return answer.status == 206 && answer.header("content-range").starts_with(fmt::format("bytes {}-", begin));
}

// Downloads the content of one file into the cache.
class BlobDownload {
 public:
  BlobDownload(Client& client, const std::string& commit, const HubFile& file, Meter& meter)
      : client_(client), commit_(commit), file_(file), meter_(meter), cancelled_(client.cancelled()) {}

  void run(http::Connection& connection);

 private:
  using Take = std::function<void(std::string_view)>;

  bool link_if_cached(const std::string& etag);
  void receive_content(http::Connection& connection, PartialFile& partial);
  void receive_in_parallel(PartialFile& partial);
  void receive(http::Connection& connection, std::int64_t begin, std::int64_t end, const Take& take);
  http::Answer send(http::Connection& connection, std::int64_t begin, std::int64_t end,
                    const http::BodySink& sink);
  void count(std::int64_t bytes);
  void recover(http::Connection& connection, int failures, const http::Answer* answer,
               const http::NetworkError* failed);
  std::string url();

  Client& client_;
  const std::string& commit_;
  const HubFile& file_;
  Meter& meter_;
  std::atomic<bool>& cancelled_;
  std::mutex mutex_;  // guards location_
  Location location_;
  std::atomic<std::int64_t> counted_ = 0;
};

void BlobDownload::count(std::int64_t bytes) {
  counted_ += bytes;
  meter_.add(bytes);
}

std::string BlobDownload::url() {
  const std::lock_guard lock(mutex_);
  return location_.url;
}

bool BlobDownload::link_if_cached(const std::string& etag) {
  std::error_code none;
  if (!fs::exists(folder_of(client_.repository()) / "blobs" / etag, none)) return false;
  link_blob(client_.repository(), commit_, file_.path, etag);
  count(file_.size - counted_);
  return true;
}

void BlobDownload::run(http::Connection& connection) {
  if (link_if_cached(file_.hash())) return;
  location_ = client_.locate(connection, commit_, file_.path);
  if (location_.size >= 0 && location_.size != file_.size)
    throw UserError(fmt::format("{}: {} has {} bytes, but the list of files says {}; try again",
                                to_string(client_.repository()), file_.path, location_.size, file_.size));
  const std::string etag = location_.etag;
  const BlobLock lock(client_.repository(), etag, [&] { client_.wait_for_other(file_.path); });
  if (link_if_cached(etag)) return;  // another process has downloaded it meanwhile
  const fs::path blob = folder_of(client_.repository()) / "blobs" / etag;
  PartialFile partial(blob, file_.hash(), file_.size);
  count(partial.size());
  for (int attempt = 0;; ++attempt) {
    receive_content(connection, partial);
    if (partial.matches()) break;
    count(-counted_);
    partial.restart();
    if (attempt == 0) continue;  // the beginning may be left from an earlier download
    partial.remove();
    throw UserError(
        fmt::format("{}: {} was downloaded twice, and its content does not match its hash {}: something "
                    "between here and {} changes it; try another network, or check HF_ENDPOINT and the proxy",
                    to_string(client_.repository()), file_.path, file_.hash(), origin_of(url())));
  }
  partial.finish();
  link_blob(client_.repository(), commit_, file_.path, etag);
}

void BlobDownload::receive_content(http::Connection& connection, PartialFile& partial) {
  const auto append = [&](std::string_view piece) { partial.append(piece); };
  const bool parallel = file_.size - partial.size() > kChunk;
  try {
    return parallel ? receive_in_parallel(partial) : receive(connection, partial.size(), file_.size, append);
  } catch (const NoRanges&) {
    if (parallel) cancelled_ = false;  // set when the other connections were stopped
  }
  for (int failures = 1;; ++failures) {
    count(-counted_);
    partial.restart();
    try {
      return receive(connection, 0, file_.size, append);
    } catch (const NoRanges&) {  // interrupted, and the server cannot continue it
      constexpr int kMost = 5;
      const http::NetworkError error(http::NetworkError::Kind::interrupted,
                                     "the server sends only whole files, and the transfer was cut off");
      if (failures >= kMost)
        throw UserError(explain(error, client_.repository(), url(), Direction::download));
    }
  }
}

// Each connection takes the next chunk. Bytes that follow those on disk are appended as they arrive; other
// bytes wait in memory.
void BlobDownload::receive_in_parallel(PartialFile& partial) {
  constexpr std::size_t kPiece = 1u << 20;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::int64_t, std::string> received;  // keyed by their offset
  std::int64_t next = partial.size();
  const auto append_received = [&] {
    for (auto at = received.find(partial.size()); at != received.end(); at = received.find(partial.size())) {
      partial.append(at->second);
      received.erase(at);
    }
    changed.notify_all();
  };
  const auto work = [&] {
    http::Connection connection;
    std::unique_lock lock(mutex, std::defer_lock);
    for (;;) {
      lock.lock();
      changed.wait(lock, [&] { return cancelled_ || next >= file_.size || next < partial.size() + kAhead; });
      if (cancelled_ || next >= file_.size) return;
      std::int64_t begin = next;
      const std::int64_t end = next = std::min(file_.size, begin + kChunk);
      lock.unlock();
      std::string bytes;
      receive(connection, begin, end, [&](std::string_view piece) {
        bytes.append(piece);
        if (bytes.size() < kPiece) return;
        const std::lock_guard guard(mutex);
        if (begin != partial.size()) return;
        begin += static_cast<std::int64_t>(bytes.size());
        partial.append(std::exchange(bytes, {}));
      });
      lock.lock();
      if (!bytes.empty()) received[begin] = std::move(bytes);
      append_received();
      lock.unlock();
    }
  };
  for_each_parallel(
      kConnections,
      [&](std::size_t) {
        try {
          work();
        } catch (const http::Cancelled&) {  // another thread throws the reason
        } catch (...) {
          const std::lock_guard guard(mutex);
          cancelled_ = true;
          changed.notify_all();
          throw;
        }
      },
      kConnections, 1);
}

// Receives bytes `begin` to `end`, in as many requests as needed.
void BlobDownload::receive(http::Connection& connection, std::int64_t begin, std::int64_t end,
                           const Take& take) {
  for (int failures = 0; begin < end;) {
    const std::int64_t before = begin;
    const http::BodySink sink = [&](const http::Answer& answer, std::string_view piece) {
      const bool whole = before == 0 && end == file_.size && answer.status == 200;
      if (!whole && !begins_at(answer, before)) throw NoRanges();
      piece = piece.substr(0, static_cast<std::size_t>(end - begin));
      take(piece);
      begin += static_cast<std::int64_t>(piece.size());
      count(static_cast<std::int64_t>(piece.size()));
    };
    http::NetworkError failed(http::NetworkError::Kind::interrupted, "the response is too short");
    http::Answer answer;
    try {
      answer = send(connection, before, end, sink);
    } catch (const http::NetworkError& error) {
      failed = error;
    }
    if (begin >= end) return;
    failures = begin > before ? 1 : failures + 1;
    const bool refused = answer.status != 0 && !answer.is_success();
    recover(connection, failures, refused ? &answer : nullptr, refused ? nullptr : &failed);
  }
}

http::Answer BlobDownload::send(http::Connection& connection, std::int64_t begin, std::int64_t end,
                                const http::BodySink& sink) {
  constexpr int kRedirects = 5;
  http::Request request{.url = url(), .patience_s = download_timeout(), .cancelled = &cancelled_};
  if (begin > 0 || end < file_.size) request.range = {begin, end - 1};
  http::Answer answer;
  for (int redirects = 0; redirects <= kRedirects; ++redirects) {
    request.token = client_.token_for(request.url);
    answer = connection.send(request, sink);
    if (!answer.is_redirect()) break;
    request.url = resolve_redirect(request.url, answer.header("location"));
  }
  return answer;
}

// Prepares another attempt: waits, or asks for a new location if the old one has expired.
void BlobDownload::recover(http::Connection& connection, int failures, const http::Answer* answer,
                           const http::NetworkError* failed) {
  constexpr int kMost = 5;
  const bool expired = answer && (answer->status == 401 || answer->status == 403 || answer->status == 410);
  if (!expired || failures >= kMost) return client_.wait_or_throw(failures, answer, failed, url());
  Location found = client_.locate(connection, commit_, file_.path);
  const std::lock_guard lock(mutex_);
  location_ = std::move(found);
}

void check_space(const fs::path& folder, std::int64_t needed) {
  std::error_code failed;
  const fs::space_info space = fs::space(folder, failed);
  if (!failed && needed > static_cast<std::int64_t>(space.available))
    throw UserError(fmt::format(
        "the download needs {}, and {} has only {} free: free some space, or set HF_HUB_CACHE=DIR to a "
        "folder on another disk",
        file_size(needed), folder.string(), file_size(static_cast<std::int64_t>(space.available))));
}

// Adds a tag by which other programs leave the folder out of backups.
void mark_as_cache(const fs::path& folder) try {
  std::error_code none;
  if (fs::exists(folder / "CACHEDIR.TAG", none)) return;
  write_file(folder / "CACHEDIR.TAG",
             "Signature: 8a477f597d28d172789f06886806bc55\n"
             "# This file is a cache directory tag. See https://bford.info/cachedir/\n");
} catch (const UserError&) {  // the folder belongs to another user
}

void download_small(Client& client, const std::string& commit, std::span<const HubFile> files, Meter& meter) {
  std::atomic<bool>& cancelled = client.cancelled();
  std::atomic<std::size_t> next = 0;
  for_each_parallel(
      std::min(kConnections, files.size()),
      [&](std::size_t) {
        http::Connection connection;
        try {
          for (std::size_t i = next++; i < files.size() && !cancelled; i = next++)
            BlobDownload(client, commit, files[i], meter).run(connection);
        } catch (const http::Cancelled&) {  // another thread throws the reason
        } catch (...) {
          cancelled = true;
          throw;
        }
      },
      kConnections, 1);
}

}  // namespace

void Meter::add(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  count_progress();
  if (listener_.progress) listener_.progress(what_, done_, all_);
}

void download_files(Client& client, const std::string& commit, const std::vector<HubFile>& files,
                    const Listener& listener) {
  const fs::path folder = folder_of(client.repository());
  std::vector<HubFile> small, large;
  std::int64_t all = 0, needed = 0;
  for (const HubFile& file : files) {
    std::error_code none;
    if (fs::exists(folder / "snapshots" / commit / file.path, none)) continue;
    all += file.size;
    (file.size <= kChunk ? small : large).push_back(file);
    if (fs::exists(folder / "blobs" / file.hash(), none)) continue;
    const auto partial = find_partial(folder / "blobs" / file.hash());
    const auto size = partial ? fs::file_size(*partial, none) : 0;
    needed += file.size - (none ? 0 : static_cast<std::int64_t>(size));
  }
  if (small.empty() && large.empty()) return;
  make_folder(folder / "blobs");
  mark_as_cache(cache_folder());
  check_space(folder, needed);
  Meter meter(listener, "downloading " + to_string(client.repository()), all);
  download_small(client, commit, small, meter);
  http::Connection connection;
  for (const HubFile& file : large) BlobDownload(client, commit, file, meter).run(connection);
}

}  // namespace dpo::hub
