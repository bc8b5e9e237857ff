#include "hub/settings.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <regex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/user_path.h"
#include "base/utf8.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// Returns a folder given by a variable, with ~, $NAME and ${NAME} expanded, because job files often contain
// these unexpanded.
std::string expanded(const std::string& text) {
  static const std::regex name(R"(\$(?:(\w+)|\{(\w+)\}))");
  std::string path;
  std::sregex_iterator at(text.begin(), text.end(), name), end;
  auto rest = text.begin();
  for (; at != end; ++at) {
    path.append(rest, (*at)[0].first);
    rest = (*at)[0].second;
    const char* const value = std::getenv(((*at)[1].str() + (*at)[2].str()).c_str());
    path += value ? value : (*at)[0].str();
  }
  return expand_home(path.append(rest, text.end()));
}

fs::path home_of_hugging_face() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expanded(home);
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(expanded(cache)) / "huggingface";
  const std::string home = variable("HOME");
  return fs::path(home.empty() ? "." : home) / ".cache" / "huggingface";
}

}  // namespace

std::string endpoint() {
  std::string url = variable("HF_ENDPOINT");
  if (url.empty()) url = "https://huggingface.co";
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    throw UserError(
        fmt::format("HF_ENDPOINT={}: expected an address that begins with https:// or http://", url));
  while (url.ends_with('/')) url.pop_back();
  return url;
}

std::string token() {
  if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (const std::string value = trimmed(variable(name)); !value.empty()) return value;
  const std::string named = variable("HF_TOKEN_PATH");
  const fs::path file = named.empty() ? home_of_hugging_face() / "token" : fs::path(expanded(named));
  std::error_code none;
  return fs::exists(file, none) ? trimmed(read_text_file(file, "the Hugging Face token", 1u << 16)) : "";
}

bool is_offline() {
  const std::string hub = variable("HF_HUB_OFFLINE");
  return is_true(hub.empty() ? variable("TRANSFORMERS_OFFLINE") : hub);
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = variable(name); !folder.empty()) return expanded(folder);
  return home_of_hugging_face() / "hub";
}

long download_timeout() {
  constexpr long kUsual = 10;
  const std::string text = variable("HF_HUB_DOWNLOAD_TIMEOUT");
  const bool number =
      !text.empty() && text.size() < 6 && std::all_of(text.begin(), text.end(), is_ascii_digit);
  const long seconds = number ? std::stol(text) : 0;
  return seconds > 0 ? seconds : kUsual;
}

}  // namespace dpo::hub
