#include "hub/push.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "base/stop.h"
#include "hub/content_hash.h"
#include "hub/download.h"
#include "hub/needed_files.h"
#include "hub/settings.h"

namespace dpo::hub {
namespace {

constexpr long kPatience = 120;  // seconds; a commit can take long
constexpr int kAttempts = 5;     // attempts to commit while others commit
constexpr const char* kCard = "README.md";
const http::Headers kJson = {{"Content-Type", "application/json"}};

void require_access() {
  if (!http::is_available())
    throw UserError(
        "push: this dpo was built without libcurl: install its development files (libcurl4-openssl-dev) and "
        "build again");
  if (is_offline()) throw UserError("push: HF_HUB_OFFLINE forbids requests to the hub: set HF_HUB_OFFLINE=0");
  if (token().empty())
    throw UserError(
        fmt::format("push: no token: create one with the role 'write' at {}/settings/tokens, then {}",
                    endpoint(), kLogIn));
}

std::string content_of(const LocalFile& file, std::int64_t limit) {
  std::string content(static_cast<std::size_t>(std::min(file.size, limit)), '\0');
  ContentReader(file).read(0, content);
  return content;
}

void hash_content(LocalFile& file, Meter& meter) {
  constexpr std::int64_t kPiece = 4 << 20;
  const ContentReader reader(file);
  Sha256 hash;
  std::string piece;
  for (std::int64_t at = 0; at < file.size; at += kPiece) {
    if (stop_requested()) throw Stopped();
    piece.resize(static_cast<std::size_t>(std::min(kPiece, file.size - at)));
    reader.read(at, piece);
    hash.add(piece);
    meter.add(static_cast<std::int64_t>(piece.size()));
  }
  const std::string sum = to_hex(hash.finish());
  if (!file.sha256.empty() && file.sha256 != sum)
    throw UserError(fmt::format(
        "{}: the file is damaged: its SHA-256 is {}, but the checkpoint's marker COMPLETE says {}; "
        "push another checkpoint",
        file.file.string(), sum, file.sha256));
  file.sha256 = sum;
}

class Push {
 public:
  Push(Client& client, std::vector<LocalFile> files, const PushOptions& options, const Listener& listener)
      : client_(client), files_(std::move(files)), options_(options), listener_(listener) {}

  Pushed run();
  std::string explain(const NoAccess& refused);

 private:
  // Changes of the next commit.
  struct Changes {
    std::vector<LocalFile> large;
    std::vector<CommitFile> files;
    std::vector<std::string> removed;
  };

  std::string open_repository();
  void create_repository();
  void create_branch();
  std::string visibility();
  void require_private();
  std::string read_card(const std::string& commit);
  void keep_edited_card(const std::string& card);
  void keep_other_model(const std::string& card, const std::vector<HubFile>& there, const Changes& changes);
  Changes find_changes(const std::vector<HubFile>& there);
  Changes allowed_changes(const std::string& commit);
  void hash_all();
  http::Answer post(const std::string& url, const std::string& body,
                    std::initializer_list<int> expected = {});
  http::Answer commit(const Changes& changes, const std::string& parent, std::string& url);
  void say(const std::string& note) const {
    if (listener_.say) listener_.say(note);
  }

  Client& client_;
  std::vector<LocalFile> files_;
  const PushOptions& options_;
  const Listener& listener_;
  http::Connection connection_;
};

http::Answer Push::post(const std::string& url, const std::string& body,
                        std::initializer_list<int> expected) {
  http::Request request{.url = url,
                        .method = "POST",
                        .headers = kJson,
                        .upload = http::upload_of(body),
                        .patience_s = kPatience};
  return client_.send(connection_, request, expected);
}

void Push::create_repository() {
  const std::string& id = client_.repository().id;
  const std::size_t slash = id.find('/');
  const http::Answer answer =
      post(client_.endpoint() + "/api/repos/create",
           print_new_repository(id.substr(0, slash), id.substr(slash + 1), options_.is_private), {409});
  require_private();  // checks also a repository that another user has just created
  if (!answer.is_success()) return;
  const std::string found = visibility();
  say(fmt::format("created the {}model {}/{}", found.empty() ? "" : found + " ", client_.endpoint(), id));
}

std::string Push::visibility() {
  http::Request request{.url = fmt::format("{}/api/models/{}", client_.endpoint(), client_.repository().id),
                        .patience_s = kPatience};
  return visibility_in(client_.send(connection_, request).body);
}

void Push::require_private() {
  if (!options_.is_private) return;
  const std::string found = visibility();
  if (found == "private") return;
  throw UserError(fmt::format(
      "{} exists and {}, so --private would not hide what is pushed: make it private at {}/{}/settings "
      "first, or push without --private; nothing was sent",
      describe(client_.repository()), found == "public" ? "is public" : "the hub does not say who can see it",
      client_.endpoint(), client_.repository().id));
}

void Push::create_branch() {
  const std::string& revision = client_.repository().revision;
  if (revision == "main") return;
  if (post(client_.api_url("branch/" + escape(revision, false)), "{}", {409}).is_success())
    say(fmt::format("created the branch '{}'", revision));
}

// Returns the newest commit of the branch. Creates the repository and the branch if missing, but only after
// all files were hashed, so that a damaged file creates nothing.
std::string Push::open_repository() {
  http::Request request{.url = client_.api_url("revision/" + escape(client_.repository().revision, false)),
                        .patience_s = kPatience};
  const http::Answer answer = client_.send(connection_, request, {404});
  const bool exists = answer.is_success() || answer.header("x-error-code") == "RevisionNotFound";
  if (exists) require_private();
  hash_all();
  if (answer.is_success()) return parse_commit(answer.body, request.url);
  if (!exists) create_repository();
  create_branch();
  return client_.find_commit();
}

// Returns the hub's README.md, or "" if there is none.
std::string Push::read_card(const std::string& commit) {
  http::Request request{.url = client_.file_url(commit, kCard), .patience_s = kPatience};
  const http::Answer answer = client_.send(connection_, request, {404});
  return answer.is_success() ? answer.body : "";
}

// Leaves out README.md if the one on the hub was written or edited by hand.
void Push::keep_edited_card(const std::string& card) {
  if (options_.replaces_any_card || card.empty() || options_.is_unchanged(card)) return;
  const std::size_t removed = std::erase_if(files_, [](const LocalFile& file) { return file.path == kCard; });
  if (removed > 0)
    say(fmt::format(
        "{} on the hub was not generated by dpo, or was edited: it stays as it is; --overwrite-card "
        "replaces it",
        kCard));
}

// Protects other models from a mistyped name.
void Push::keep_other_model(const std::string& card, const std::vector<HubFile>& there,
                            const Changes& changes) {
  const bool changes_model =
      !changes.removed.empty() ||
      std::ranges::any_of(changes.files, [](const CommitFile& file) { return file.path != kCard; });
  const auto weights = std::ranges::find_if(there, [](const HubFile& file) {
    return file.path.ends_with(".safetensors") || file.path.ends_with(".bin") || file.path.ends_with(".gguf");
  });
  if (options_.replaces_model || !changes_model || weights == there.end() || options_.is_generated(card))
    return;
  throw UserError(
      fmt::format("{} has a model that was not pushed by dpo ({}): check the name and the branch; --replace "
                  "replaces that model",
                  to_string(client_.repository()), weights->path));
}

void Push::hash_all() {
  std::int64_t all = 0;
  for (const LocalFile& file : files_) all += file.size;
  Meter meter(listener_, "hashing", all);
  for_each_parallel(
      files_.size(), [&](std::size_t i) { hash_content(files_[i], meter); }, 0, 1);
}

Push::Changes Push::find_changes(const std::vector<HubFile>& there) {
  std::vector<Announced> announced;
  for (const LocalFile& file : files_)
    announced.push_back({file.path, file.size, content_of(file, kSampleBytes)});
  const std::string url = client_.api_url("preupload/" + escape(client_.repository().revision, false));
  const std::map<std::string, PreuploadReply> replies =
      parse_preupload(post(url, print_preupload(announced)).body, url);
  Changes changes;
  std::set<std::string> pushed;
  for (const LocalFile& file : files_) {
    const auto reply = replies.find(file.path);
    if (reply == replies.end()) throw UserError(fmt::format("{}: the response lacks {}", url, file.path));
    pushed.insert(file.path);
    if (reply->second.ignored && is_safetensors_file(file.path))
      throw UserError(
          fmt::format("{}: the repository's .gitignore excludes {}, so the model would be without "
                      "weights: change it first",
                      to_string(client_.repository()), file.path));
    if (reply->second.ignored) {
      say(fmt::format("{} is not pushed: the repository's .gitignore excludes it", file.path));
      continue;
    }
    if (reply->second.large && file.size > 0) {  // the LFS store cannot hold empty contents
      if (reply->second.hash == file.sha256) continue;
      changes.large.push_back(file);
      changes.files.push_back({file.path, {file.sha256, file.size}});
      continue;
    }
    std::string content = content_of(file, file.size);
    if (reply->second.hash != git_sha1(content)) changes.files.push_back({file.path, {}, std::move(content)});
  }
  for (const HubFile& file : there)
    if (is_safetensors_file(file.path) && !pushed.contains(file.path)) changes.removed.push_back(file.path);
  return changes;
}

// Returns the changes that follow `commit`. Throws UserError if the branch has a model that dpo did not push.
Push::Changes Push::allowed_changes(const std::string& commit) {
  const std::string card = read_card(commit);
  keep_edited_card(card);
  const std::vector<HubFile> there = client_.list_files(commit);
  Changes changes = find_changes(there);
  keep_other_model(card, there, changes);
  return changes;
}

http::Answer Push::commit(const Changes& changes, const std::string& parent, std::string& url) {
  const std::string body = print_commit(options_.summary, parent, changes.files, changes.removed);
  http::Request request{.url = client_.api_url("commit/" + escape(client_.repository().revision, false)),
                        .method = "POST",
                        .headers = {{"Content-Type", "application/x-ndjson"}},
                        .upload = http::upload_of(body),
                        .patience_s = kPatience};
  url = request.url;
  http::Connection fresh;  // libcurl may send a request again on a kept connection, and commit twice
  return client_.send(fresh, request, {}, true);
}

Pushed Push::run() {
  std::string newest = open_repository();
  Pushed pushed;
  // After a lost or failed answer, only a new look at the branch shows whether the commit was made.
  for (int failures = 0;;) {
    const Changes changes = allowed_changes(newest);
    if (changes.files.empty() && changes.removed.empty()) {
      pushed.commit = {newest,
                       fmt::format("{}/{}/commit/{}", client_.endpoint(), client_.repository().id, newest)};
      return pushed;
    }
    pushed.sent += upload_contents(client_, changes.large, listener_);
    if (!changes.removed.empty())
      say(fmt::format("removing {}: weights that the model no longer has", fmt::join(changes.removed, ", ")));
    pushed.files = changes.files.size();
    pushed.removed = changes.removed.size();
    std::string url;
    try {
      const http::Answer answer = commit(changes, newest, url);
      if (answer.is_success()) {
        pushed.commit = parse_new_commit(answer.body, url);
        return pushed;
      }
      const bool is_outdated = answer.status == 412 && ++failures < kAttempts;
      if (is_outdated)
        say(fmt::format("{} has changed during the upload: checking again", to_string(client_.repository())));
      else
        client_.wait_or_throw(++failures, &answer, nullptr, url);
    } catch (const http::NetworkError& error) {
      client_.wait_or_throw(++failures, nullptr, &error, url);
    }
    newest = client_.find_commit();
  }
}

std::string Push::explain(const NoAccess& refused) {
  const Repository& repository = client_.repository();
  const std::string owner = repository.id.substr(0, repository.id.find('/'));
  const std::string reason = reason_of(refused.answer);
  const std::string said = reason.empty() ? "" : fmt::format(" (the hub says: {})", reason);
  http::Request request{.url = client_.endpoint() + "/api/whoami-v2", .patience_s = kPatience};
  Account account;
  try {
    account = parse_account(client_.send(connection_, request, {}, true).body);
  } catch (const http::NetworkError&) {  // the refusal itself is reported below
  }
  const std::string tokens = client_.endpoint() + "/settings/tokens";
  if (account.role == "read")
    return fmt::format("{}: your token can only read: create one with the role 'write' at {}, then {}{}",
                       describe(repository), tokens, kLogIn, said);
  const bool is_member = account.name == owner || std::ranges::count(account.organizations, owner) > 0;
  if (!account.name.empty() && !is_member)
    return fmt::format(
        "{}: your token may not write there: '{}' is neither your account ({}) nor one of your "
        "organizations{}: push to {}/{}, or set HF_TOKEN to a token of that account{}",
        describe(repository), owner, account.name,
        account.organizations.empty() ? "" : fmt::format(" ({})", fmt::join(account.organizations, ", ")),
        account.name, repository.id.substr(repository.id.find('/') + 1), said);
  return fmt::format(
      "{}: your token may not write there{}: check its permissions at {}, your role in '{}', "
      "and its storage quota",
      describe(repository), said, tokens, owner);
}

}  // namespace

Pushed push(const Repository& repository, std::vector<LocalFile> files, const PushOptions& options,
            const Listener& listener) {
  require_access();
  Client client(repository, listener, Direction::upload);
  Push work(client, std::move(files), options, listener);
  try {
    return work.run();
  } catch (const NoAccess& refused) {
    throw UserError(work.explain(refused));
  }
}

}  // namespace dpo::hub
