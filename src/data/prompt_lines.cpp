#include "data/prompt_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/bytes.h"

namespace dpo::data {
namespace {

constexpr std::size_t kLongestLine = 64u << 20;

class StdinBytes : public ByteReader {
 public:
  std::size_t read(std::span<char> into) override {
    for (;;) {
      const ssize_t count = ::read(STDIN_FILENO, into.data(), into.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) throw UserError(fmt::format("stdin: {}", std::strerror(errno)));
    }
  }
};

std::string text_of(const nlohmann::json& object, const char* key, const std::string& origin) {
  const auto found = object.find(key);
  if (found == object.end()) throw UserError(fmt::format("{}: '{}' is missing", origin, key));
  if (!found->is_string())
    throw UserError(fmt::format("{}: '{}' is {}, expected a string", origin, key, found->type_name()));
  return found->get<std::string>();
}

nlohmann::json object_of(const std::string& line, const std::string& origin) {
  nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    throw UserError(fmt::format("{}: expected a JSON object with a 'prompt', got {}", origin,
                                object.is_discarded() ? "invalid JSON" : object.type_name()));
  return object;
}

std::vector<std::string> responses_of(const nlohmann::json& object, const std::string& origin) {
  const bool is_pair = object.contains("chosen") || object.contains("rejected");
  const auto list = object.find("responses");
  if (is_pair == (list != object.end()))
    throw UserError(fmt::format("{}: expected either 'responses' or 'chosen' and 'rejected'", origin));
  if (is_pair) return {text_of(object, "chosen", origin), text_of(object, "rejected", origin)};
  std::vector<std::string> responses;
  for (const nlohmann::json& response : list->is_array() ? *list : nlohmann::json::array())
    if (response.is_string()) responses.push_back(response.get<std::string>());
  if (!list->is_array() || responses.empty() || responses.size() != list->size())
    throw UserError(fmt::format("{}: 'responses' must be a non-empty list of strings", origin));
  return responses;
}

}  // namespace

void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& origin)>& visit) {
  const bool is_stdin = file == "-";
  CharReader reader(is_stdin ? std::make_unique<StdinBytes>() : open_bytes(file));
  std::string line;
  while (const std::int64_t number = reader.read_line(line, kLongestLine)) {
    const std::string origin = fmt::format("{}:{}", is_stdin ? "stdin" : file, number);
    if (line.size() > kLongestLine)
      throw UserError(fmt::format("{}: longer than {} MiB", origin, kLongestLine >> 20));
    visit(line, origin);
  }
}

std::vector<PromptLine> read_responses(const std::string& file) {
  std::vector<PromptLine> lines;
  for_each_line(file, [&](const std::string& line, const std::string& origin) {
    const nlohmann::json object = object_of(line, origin);
    lines.push_back({text_of(object, "prompt", origin), responses_of(object, origin), origin});
  });
  return lines;
}

std::vector<std::string> read_prompts(const std::string& file) {
  std::vector<std::string> prompts;
  std::optional<bool> is_json;
  for_each_line(file, [&](const std::string& line, const std::string& origin) {
    if (!is_json) is_json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false).is_object();
    prompts.push_back(*is_json ? text_of(object_of(line, origin), "prompt", origin) : line);
  });
  return prompts;
}

}  // namespace dpo::data
