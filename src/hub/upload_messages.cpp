#include "hub/upload_messages.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_json.h"
#include "hub/repository.h"

namespace dpo::hub {
namespace {

using nlohmann::json;

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // EVP_EncodeBlock adds a zero
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) throw std::bad_alloc();
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

std::string printed(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

UserError not_a_hub(const std::string& origin, const char* what) {
  return UserError(fmt::format(
      "{}: not a response of a Hugging Face hub: {}; check HF_ENDPOINT and the proxy", origin, what));
}

// Returns the list `name` of an answer. Throws UserError unless all its items are objects.
const json& list_in(const json& answer, const char* name, const std::string& origin) {
  if (!answer.is_object() || !answer.contains(name) || !answer[name].is_array())
    throw not_a_hub(origin, "a list is missing");
  for (const json& item : answer[name])
    if (!item.is_object()) throw not_a_hub(origin, "an item is not an object");
  return answer[name];
}

// Parses a non-negative number; -1 if the text is not one.
std::int64_t number_in(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

http::Headers headers_in(const json& action) {
  http::Headers headers;
  const auto found = action.find("header");
  if (found == action.end() || !found->is_object()) return headers;
  for (const auto& [name, value] : found->items())
    headers[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return headers;
}

// Handles the hub's own form of a multipart upload: a header chunk_size, and the address of part N as header
// N.
void take_parts(UploadTarget& target, std::int64_t size, const std::string& origin) {
  const auto chunk = target.headers.find("chunk_size");
  if (chunk == target.headers.end()) return;
  target.part_size = number_in(chunk->second);
  std::map<std::int64_t, std::string> parts;
  for (const auto& [name, value] : target.headers)
    if (const std::int64_t part = number_in(name); part >= 0) parts[part] = value;
  for (auto& [part, url] : parts) target.part_urls.push_back(std::move(url));
  target.headers.clear();
  const std::int64_t needed = target.part_size > 0 ? (size - 1) / target.part_size + 1 : -1;
  if (static_cast<std::int64_t>(target.part_urls.size()) != needed)
    throw not_a_hub(origin, "the parts of an upload do not add up to its size");
}

UploadTarget target_of(const json& object, std::int64_t size, const std::string& origin) {
  UploadTarget target;
  if (const auto error = object.find("error"); error != object.end() && error->is_object()) {
    target.error = member(*error, "message");
    if (target.error.empty()) target.error = "no reason is given";
    return target;
  }
  const auto actions = object.find("actions");
  target.present = actions == object.end() || !actions->is_object() || !actions->contains("upload");
  if (target.present) return target;
  const json& upload = (*actions)["upload"];
  if (!upload.is_object() || member(upload, "href").empty()) throw not_a_hub(origin, "an address is missing");
  target.url = member(upload, "href");
  target.headers = headers_in(upload);
  take_parts(target, size, origin);
  if (const auto verify = actions->find("verify"); verify != actions->end() && verify->is_object()) {
    target.verify_url = member(*verify, "href");
    target.verify_headers = headers_in(*verify);
  }
  return target;
}

}  // namespace

std::string print_new_repository(const std::string& owner, const std::string& name, bool is_private) {
  json repository = {{"type", "model"}, {"organization", owner}, {"name", name}};
  if (is_private) repository["visibility"] = "private";
  return printed(repository);
}

std::string visibility_in(std::string_view text) {
  const json answer = parse_json(text);
  if (!answer.is_object() || !answer.contains("private") || !answer["private"].is_boolean()) return "";
  return answer["private"] ? "private" : "public";
}

std::string print_preupload(const std::vector<Announced>& files) {
  json listed = json::array();
  for (const Announced& file : files)
    listed.push_back({{"path", file.path}, {"size", file.size}, {"sample", base64(file.sample)}});
  return printed({{"files", listed}});
}

std::map<std::string, PreuploadReply> parse_preupload(std::string_view text, const std::string& origin) {
  const json answer = parse_json(text);
  std::map<std::string, PreuploadReply> replies;
  for (const json& item : list_in(answer, "files", origin)) {
    const std::string mode = member(item, "uploadMode");
    if (mode != "lfs" && mode != "regular") throw not_a_hub(origin, "uploadMode is neither lfs nor regular");
    replies[member(item, "path")] = {mode == "lfs", item.value("shouldIgnore", json()) == true,
                                     member(item, "oid")};
  }
  return replies;
}

std::string print_batch(const std::vector<LargeObject>& objects, const std::string& revision) {
  json listed = json::array();
  for (const LargeObject& object : objects) listed.push_back({{"oid", object.sha256}, {"size", object.size}});
  return printed({{"operation", "upload"},
                  {"transfers", {"basic", "multipart"}},
                  {"objects", listed},
                  {"hash_algo", "sha256"},
                  {"ref", {{"name", revision}}}});
}

UploadTargets parse_batch(std::string_view text, const std::vector<LargeObject>& objects,
                          const std::string& origin) {
  const json answer = parse_json(text);
  UploadTargets found;
  const json& answers = list_in(answer, "objects", origin);
  found.transfer = member(answer, "transfer");
  if (found.transfer.empty()) found.transfer = "basic";
  if (found.transfer != "basic" && found.transfer != "multipart") return found;
  for (const json& item : answers)
    for (const LargeObject& object : objects)
      if (object.sha256 == member(item, "oid"))
        found.targets[object.sha256] = target_of(item, object.size, origin);
  return found;
}

std::string print_completion(const std::string& sha256, const std::vector<std::string>& etags) {
  json parts = json::array();
  for (const std::string& etag : etags) parts.push_back({{"partNumber", parts.size() + 1}, {"etag", etag}});
  return printed({{"oid", sha256}, {"parts", parts}});
}

std::string print_verification(const LargeObject& object) {
  return printed({{"oid", object.sha256}, {"size", object.size}});
}

std::string print_commit(const std::string& summary, const std::string& parent,
                         const std::vector<CommitFile>& files, const std::vector<std::string>& removed) {
  std::string lines;
  const auto add = [&](const char* key, const json& value) {
    lines += printed({{"key", key}, {"value", value}}) + "\n";
  };
  add("header", {{"summary", summary}, {"description", ""}, {"parentCommit", parent}});
  for (const CommitFile& file : files)
    if (file.large.sha256.empty())
      add("file", {{"path", file.path}, {"content", base64(file.content)}, {"encoding", "base64"}});
    else
      add("lfsFile",
          {{"path", file.path}, {"algo", "sha256"}, {"oid", file.large.sha256}, {"size", file.large.size}});
  for (const std::string& path : removed) add("deletedFile", {{"path", path}});
  return lines;
}

Commit parse_new_commit(std::string_view text, const std::string& origin) {
  const json answer = parse_json(text);
  if (!answer.is_object() || !is_commit(member(answer, "commitOid"))) throw not_a_hub(origin, "no commit");
  return {member(answer, "commitOid"), member(answer, "commitUrl")};
}

Account parse_account(std::string_view text) {
  const json answer = parse_json(text);
  Account account;
  if (!answer.is_object()) return account;
  account.name = member(answer, "name");
  if (const auto role = json::json_pointer("/auth/accessToken/role"); answer.contains(role))
    account.role = answer[role].is_string() ? answer[role].get<std::string>() : "";
  if (const auto found = answer.find("orgs"); found != answer.end() && found->is_array())
    for (const json& organization : *found)
      if (organization.is_object()) account.organizations.push_back(member(organization, "name"));
  return account;
}

}  // namespace dpo::hub
