#include "hub/upload.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/error.h"
#include "base/parallel.h"
#include "hub/download.h"

namespace dpo::hub {
namespace {

constexpr std::size_t kUploads = 4;   // connections at once
constexpr long kUploadPatience = 60;  // seconds; a store answers only after writing the content
constexpr long kStorePatience = 300;  // seconds; the store joins the parts before it answers
const http::Headers kLfsJson = {{"Accept", "application/vnd.git-lfs+json"},
                                {"Content-Type", "application/vnd.git-lfs+json"}};

// Thrown if the store rejects an upload URL, usually because it has expired.
struct Expired {
  http::Answer answer;
};

bool is_expired(const http::Answer& answer) {
  return answer.status == 401 || answer.status == 403 || answer.status == 404 || answer.status == 410;
}

LargeObject object_of(const LocalFile& file) { return {file.sha256, file.size}; }

// Calls work(connection, 0) ... work(connection, count - 1) on several threads, each with its own connection.
// The first failure ends them all.
void for_each_on_connections(
    std::size_t count, std::atomic<bool>& cancelled,
    const std::function<void(http::Connection& connection, std::size_t index)>& work) {
  std::atomic<std::size_t> next = 0;
  for_each_parallel(
      std::min(kUploads, count),
      [&](std::size_t) {
        http::Connection connection;
        try {
          for (std::size_t i = next++; i < count && !cancelled; i = next++) work(connection, i);
        } catch (const http::Cancelled&) {  // another thread throws the reason
        } catch (...) {
          cancelled = true;
          throw;
        }
      },
      kUploads, 1);
}

// Asks the hub where to upload these contents.
std::map<std::string, UploadTarget> request_targets(Client& client, http::Connection& connection,
                                                    std::span<const LocalFile> files) {
  std::vector<LargeObject> objects;
  for (const LocalFile& file : files) objects.push_back(object_of(file));
  const std::string body = print_batch(objects, client.repository().revision);
  http::Request request{
      .url = fmt::format("{}/{}.git/info/lfs/objects/batch", client.endpoint(), client.repository().id),
      .method = "POST",
      .headers = kLfsJson,
      .upload = http::upload_of(body),
      .patience_s = kUploadPatience};
  const http::Answer answer = client.send(connection, request);
  UploadTargets found = parse_batch(answer.body, objects, request.url);
  if (found.transfer != "basic" && found.transfer != "multipart")
    throw UserError(fmt::format(
        "{} accepts large files only with the transfer '{}', but dpo supports only 'basic' and 'multipart'; "
        "upload them with 'hf upload {} FOLDER --exclude \"state/*\"'",
        client.endpoint(), found.transfer, client.repository().id));
  for (const LocalFile& file : files) {
    const auto target = found.targets.find(file.sha256);
    const std::string error =
        target == found.targets.end() ? "it is not in the response" : target->second.error;
    if (!error.empty())
      throw UserError(fmt::format("{} refuses {} ({} bytes, SHA-256 {}): {}", client.endpoint(), file.path,
                                  file.size, file.sha256, error));
  }
  return std::move(found.targets);
}

// Uploads the content of one file to the store.
class ContentUpload {
 public:
  ContentUpload(Client& client, const LocalFile& file, Meter& meter)
      : client_(client), file_(file), meter_(meter) {}

  void run(http::Connection& connection, UploadTarget target, const std::atomic<bool>& cancelled);

 private:
  void send_content(http::Connection& connection, const UploadTarget& target,
                    const std::atomic<bool>& cancelled);
  void send_parts(http::Connection& connection, const UploadTarget& target);
  http::Answer put(http::Connection& connection, const std::string& url, const http::Headers& headers,
                   std::int64_t begin, std::int64_t end, const std::atomic<bool>& cancelled);
  void post(http::Connection& connection, const std::string& url, http::Headers headers,
            const std::string& body);
  void count(std::int64_t bytes);

  Client& client_;
  const LocalFile& file_;
  Meter& meter_;
  std::atomic<std::int64_t> counted_ = 0;
};

void ContentUpload::count(std::int64_t bytes) {
  counted_ += bytes;
  meter_.add(bytes);
}

void ContentUpload::run(http::Connection& connection, UploadTarget target,
                        const std::atomic<bool>& cancelled) {
  constexpr int kMost = 3;
  for (int refusals = 0; !target.present;) {
    try {
      return send_content(connection, target, cancelled);
    } catch (const Expired& expired) {
      count(-counted_);
      if (++refusals == kMost)
        throw UserError(
            fmt::format("{}: the store of large files rejected {} {} times (HTTP status {}){}; run the "
                        "command again later",
                        client_.repository().id, file_.path, kMost, expired.answer.status,
                        reason_of(expired.answer).empty() ? "" : ": " + reason_of(expired.answer)));
    }
    target = request_targets(client_, connection, {&file_, 1}).at(file_.sha256);
  }
  count(file_.size - counted_);  // another process has uploaded it meanwhile
}

void ContentUpload::send_content(http::Connection& connection, const UploadTarget& target,
                                 const std::atomic<bool>& cancelled) {
  if (target.part_size > 0)
    send_parts(connection, target);
  else
    put(connection, target.url, target.headers, 0, file_.size, cancelled);
  if (!target.verify_url.empty())
    post(connection, target.verify_url, target.verify_headers, print_verification(object_of(file_)));
}

void ContentUpload::send_parts(http::Connection& connection, const UploadTarget& target) {
  std::vector<std::string> etags(target.part_urls.size());
  std::atomic<bool> cancelled = false;
  for_each_on_connections(etags.size(), cancelled, [&](http::Connection& own, std::size_t part) {
    const std::int64_t begin = static_cast<std::int64_t>(part) * target.part_size;
    const std::int64_t end = std::min(file_.size, begin + target.part_size);
    etags[part] = put(own, target.part_urls[part], {}, begin, end, cancelled).header("etag");
    if (etags[part].empty())
      throw UserError(
          fmt::format("{}: {} answered without an ETag for part {} of {}, so the parts cannot be put "
                      "together; check the proxy",
                      client_.repository().id, origin_of(target.part_urls[part]), part + 1, file_.path));
  });
  post(connection, target.url, {}, print_completion(file_.sha256, etags));
}

// Sends bytes `begin` to `end`, with retries.
http::Answer ContentUpload::put(http::Connection& connection, const std::string& url,
                                const http::Headers& headers, std::int64_t begin, std::int64_t end,
                                const std::atomic<bool>& cancelled) {
  const ContentReader content(file_);
  for (int failures = 0;;) {
    std::int64_t sent = 0;
    const auto read = [&](std::int64_t offset, char* into, std::size_t size) {
      content.read(begin + offset, {into, size});
      const std::int64_t more = offset + static_cast<std::int64_t>(size) - sent;
      if (more > 0) count(more), sent += more;
      return size;
    };
    const http::Request request{.url = url,
                                .method = "PUT",
                                .token = client_.token_for(url),
                                .headers = headers,
                                .upload = http::Upload{end - begin, read},
                                .patience_s = kUploadPatience,
                                .cancelled = &cancelled};
    std::optional<http::NetworkError> failed;
    http::Answer answer;
    try {
      answer = connection.send(request);
    } catch (const http::NetworkError& error) {
      failed = error;
    }
    if (!failed && answer.is_success()) return answer;
    count(-sent);
    if (!failed && is_expired(answer)) throw Expired{std::move(answer)};
    client_.wait_or_throw(++failures, failed ? nullptr : &answer, failed ? &*failed : nullptr, url);
  }
}

// Sends the request that completes an upload in parts, or that asks the hub to verify an upload.
void ContentUpload::post(http::Connection& connection, const std::string& url, http::Headers headers,
                         const std::string& body) {
  headers.insert(kLfsJson.begin(), kLfsJson.end());
  http::Request request{.url = url,
                        .method = "POST",
                        .headers = std::move(headers),
                        .upload = http::upload_of(body),
                        .patience_s = kStorePatience};
  const http::Answer answer = client_.send(connection, request, {400, 404, 406, 409, 410, 412, 422});
  if (!answer.is_success())
    throw UserError(
        fmt::format("{} rejects the uploaded {} (HTTP status {}){}. Was the file changed during the upload? "
                    "Run the command again; if that does not help, check the network and its proxies",
                    origin_of(url), file_.path, answer.status,
                    reason_of(answer).empty() ? "" : ": " + reason_of(answer)));
}

}  // namespace

ContentReader::ContentReader(const LocalFile& file) : file_(file) {
  if (!file.file.empty()) opened_.emplace(file.file, "a file to push");
}

void ContentReader::read(std::int64_t offset, std::span<char> into) const {
  if (opened_)
    opened_->read(static_cast<std::uint64_t>(offset), std::as_writable_bytes(into));
  else
    file_.text.copy(into.data(), into.size(), static_cast<std::size_t>(offset));
}

std::int64_t upload_contents(Client& client, const std::vector<LocalFile>& files, const Listener& listener) {
  if (files.empty()) return 0;
  http::Connection connection;
  const std::map<std::string, UploadTarget> targets = request_targets(client, connection, files);
  std::vector<const LocalFile*> whole, in_parts;
  std::int64_t all = 0;
  for (const LocalFile& file : files) {
    const UploadTarget& target = targets.at(file.sha256);
    if (target.present) continue;
    all += file.size;
    (target.part_size > 0 ? in_parts : whole).push_back(&file);
  }
  Meter meter(listener, "uploading to " + to_string(client.repository()), all);
  std::atomic<bool> cancelled = false;
  for_each_on_connections(whole.size(), cancelled, [&](http::Connection& own, std::size_t i) {
    ContentUpload(client, *whole[i], meter).run(own, targets.at(whole[i]->sha256), cancelled);
  });
  for (const LocalFile* file : in_parts)
    ContentUpload(client, *file, meter).run(connection, targets.at(file->sha256), cancelled);
  return all;
}

}  // namespace dpo::hub
