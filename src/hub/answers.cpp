#include "hub/answers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_json.h"
#include "base/utf8.h"

namespace dpo::hub {
namespace {

using nlohmann::json;

bool is_hex(const std::string& text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::int64_t> size_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto size = found->get<std::uint64_t>();
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 50;
  return size <= kLargest ? std::optional(static_cast<std::int64_t>(size)) : std::nullopt;
}

bool is_sound(const HubFile& file) {
  return stays_in_folder(file.path) && is_hex(file.blob_id, 40) &&
         (file.sha256.empty() || is_hex(file.sha256, 64));
}

// Returns the file that an item of a tree describes, or nullopt for a folder.
std::optional<HubFile> file_of(const json& item, const std::string& origin) {
  const auto reject = [&](const char* what) -> UserError {
    return UserError(fmt::format("{}: a list of files was expected: {}", origin, what));
  };
  if (!item.is_object()) throw reject("an item is not an object");
  if (text_of(item, "type") != "file") return std::nullopt;
  HubFile file{text_of(item, "path"), 0, text_of(item, "oid"), "", text_of(item, "xetHash")};
  auto size = size_of(item, "size");
  if (const auto lfs = item.find("lfs"); lfs != item.end() && lfs->is_object()) {
    file.sha256 = text_of(*lfs, "oid");
    size = size_of(*lfs, "size");
    if (file.sha256.empty()) throw reject("a large file has no hash");
  }
  if (!size || !is_sound(file)) throw reject("a path, a size or a hash is invalid");
  file.size = *size;
  return file;
}

std::optional<int> number_after(const std::string& text, std::string_view name) {
  const std::size_t at = text.find(name);
  int value = 0;
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = text.data() + at + name.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end == begin || value < 0) return std::nullopt;
  return value;
}

// Returns the seconds that the hub asks to wait: Retry-After, or the rest of the rate limit's period.
std::optional<int> asked_to_wait(const http::Answer& answer) {
  if (const auto seconds = number_after(answer.header("retry-after"), "")) return seconds;
  const std::string limit = answer.header("ratelimit");  // "api";r=0;t=55
  return number_after(limit, ";r=") == 0 ? number_after(limit, ";t=") : std::nullopt;
}

}  // namespace

std::string parse_commit(std::string_view text, const std::string& origin) {
  const json answer = parse_json(text);
  const std::string commit = answer.is_object() ? text_of(answer, "sha") : "";
  if (!is_commit(commit))
    throw UserError(
        fmt::format("{}: not a response of a Hugging Face hub: no commit; check HF_ENDPOINT and "
                    "the proxy",
                    origin));
  return commit;
}

std::vector<HubFile> parse_tree(std::string_view text, const std::string& origin) {
  const json answer = parse_json(text);
  if (!answer.is_array())
    throw UserError(
        fmt::format("{}: not a response of a Hugging Face hub: no list of files; check "
                    "HF_ENDPOINT and the proxy",
                    origin));
  std::vector<HubFile> files;
  for (const json& item : answer)
    if (auto file = file_of(item, origin)) files.push_back(std::move(*file));
  return files;
}

std::optional<std::vector<HubFile>> parse_cached_tree(std::string_view text) {
  const json tree = parse_json(text);
  if (!tree.is_object() || tree.value("format_version", json()) != 1) return std::nullopt;
  const auto listed = tree.find("files");
  if (listed == tree.end() || !listed->is_object()) return std::nullopt;
  std::vector<HubFile> files;
  for (const auto& [path, item] : listed->items()) {
    if (!item.is_object()) return std::nullopt;
    HubFile file{path, 0, text_of(item, "blob_id"), text_of(item, "lfs_sha256"), text_of(item, "xet_hash")};
    const auto size = size_of(item, file.sha256.empty() ? "size" : "lfs_size");
    if (!size || !is_sound(file)) return std::nullopt;
    file.size = *size;
    files.push_back(std::move(file));
  }
  return files;
}

std::string print_cached_tree(const std::vector<HubFile>& files) {
  json listed = json::object();
  for (const HubFile& file : files) {
    json& item = listed[file.path] = {{"size", file.size}, {"blob_id", file.blob_id}};
    if (!file.sha256.empty()) {
      item["lfs_sha256"] = file.sha256;
      item["lfs_size"] = file.size;
    }
    if (is_hex(file.xet_hash, 64)) item["xet_hash"] = file.xet_hash;
  }
  return json{{"format_version", 1}, {"files", listed}}.dump(1, ' ', false, json::error_handler_t::replace);
}

std::string next_page(const std::string& link) {
  const std::size_t end = link.find(">; rel=\"next\"");
  if (end == std::string::npos) return "";
  const std::size_t begin = link.rfind('<', end);
  return begin == std::string::npos ? "" : link.substr(begin + 1, end - begin - 1);
}

std::string normalize_etag(const std::string& header) {
  std::string tag = header;
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  const auto allowed = [](char c) { return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_'; };
  constexpr std::size_t kLongest = 128;
  return tag.size() <= kLongest && std::all_of(tag.begin(), tag.end(), allowed) ? tag : "";
}

std::optional<double> seconds_before_retry(int failures, const http::Answer* answer) {
  constexpr int kMost = 5, kLongestWait = 300;
  constexpr double kFirst = 0.5, kLongest = 8;
  const int status = answer ? answer->status : 0;
  if (failures >= kMost || (answer && status != 408 && status != 429 && status < 500)) return std::nullopt;
  if (const auto asked = answer ? asked_to_wait(*answer) : std::nullopt)
    return *asked <= kLongestWait ? std::optional<double>(*asked) : std::nullopt;
  return std::min(kLongest, std::ldexp(kFirst, failures - 1));
}

std::string origin_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "";
  std::string origin = url.substr(0, url.find_first_of("/?#", scheme + 3));
  if (const std::size_t user = origin.find('@'); user != std::string::npos)
    origin.erase(scheme + 3, user - scheme - 2);
  std::transform(origin.begin(), origin.end(), origin.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return origin;
}

std::string shown_url(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t path = scheme == std::string::npos ? scheme : url.find('/', scheme + 3);
  if (path == std::string::npos) return origin_of(url);
  return origin_of(url) + url.substr(path, url.find_first_of("?#", path) - path);
}

std::string resolve_redirect(const std::string& url, const std::string& location) {
  const std::size_t scheme = location.find("://");
  if (scheme != std::string::npos && location.find_first_of("/?#") > scheme) return location;
  if (location.starts_with("//")) return url.substr(0, url.find("//")) + location;
  if (location.starts_with('/')) return origin_of(url) + location;
  return url.substr(0, url.rfind('/') + 1) + location;
}

std::string escape(std::string_view text, bool keep_slashes) {
  std::string escaped;
  for (const char c : text) {
    const bool plain =
        is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || (keep_slashes && c == '/'))
      escaped += c;
    else
      escaped += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return escaped;
}

}  // namespace dpo::hub
