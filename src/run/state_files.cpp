#include "run/state_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "config/text.h"

namespace dpo::run {
namespace {

using nlohmann::json;

// A JSON object whose members are read by name and type.
class Object {
 public:
  Object(const json& value, const std::string& origin) : value_(value), origin_(origin) {
    if (!value.is_object()) throw UserError(fmt::format("{}: not a JSON object", origin));
  }

  std::int64_t count(const char* name, std::int64_t least) const {
    const json& found = at(name);
    // An unsigned number that is too large for the type becomes negative.
    if (!found.is_number_integer() || found.get<std::int64_t>() < least)
      refuse(name, fmt::format("a whole number of at least {}", least));
    return found.get<std::int64_t>();
  }
  double number(const char* name) const {
    if (!at(name).is_number()) refuse(name, "a number");
    return at(name).get<double>();
  }
  std::string text(const char* name) const {
    if (!at(name).is_string()) refuse(name, "a string");
    return at(name).get<std::string>();
  }
  Object object(const std::string& name) const {
    if (!at(name).is_object()) refuse(name, "an object");
    return {at(name), origin_};
  }

  bool has(const char* name) const { return value_.contains(name) && !value_[name].is_null(); }
  const json& value() const { return value_; }

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const {
    throw UserError(
        fmt::format("{}: '{}' is missing or wrong, expected {}", origin_, config::shown(name), expected));
  }

 private:
  const json& at(const std::string& name) const {
    const auto found = value_.find(name);
    if (found == value_.end()) refuse(name, "a value");
    return *found;
  }

  const json& value_;
  const std::string& origin_;
};

std::string digest_of(const json& files) {
  Sha256 sum;
  sum.add(files.dump());
  return to_hex(sum.finish());
}

bool is_sha256(const std::string& digits) {
  return digits.size() == 64 && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

}  // namespace

std::string text_of(const RunState& run_state) {
  const json value = {{"updates", run_state.updates},
                      {"examples", run_state.examples},
                      {"reward_sum", run_state.reward_sum},
                      {"rewards", run_state.rewards},
                      {"best", run_state.best ? json(*run_state.best) : json()},
                      {"best_metric", run_state.comparison.metric},
                      {"best_set", run_state.comparison.set},
                      {"best_examples", run_state.best_examples ? json(*run_state.best_examples) : json()},
                      {"evaluated", run_state.evaluated},
                      {"identity", run_state.identity}};
  return value.dump(2) + "\n";
}

RunState parse_run_state(std::string_view text, const std::string& origin) {
  const json value = parse_json(text);
  const Object object(value, origin);
  RunState run_state;
  run_state.updates = object.count("updates", 0);
  run_state.examples = object.count("examples", 0);
  run_state.reward_sum = object.number("reward_sum");
  run_state.rewards = object.count("rewards", 0);
  if (object.has("best")) run_state.best = object.number("best");
  if (object.has("best_metric")) run_state.comparison.metric = object.text("best_metric");
  if (object.has("best_set")) run_state.comparison.set = object.text("best_set");
  if (object.has("best_examples")) run_state.best_examples = object.count("best_examples", 0);
  if (object.has("evaluated")) run_state.evaluated = object.count("evaluated", -1);
  const Object identity = object.object("identity");
  for (const auto& [name, _] : identity.value().items())
    run_state.identity[name] = identity.text(name.c_str());
  return run_state;
}

std::string text_of(const Marker& marker) {
  json files = json::object();
  for (const auto& [name, file] : marker) files[name] = {{"size", file.size}, {"sha256", file.sha256}};
  return json{{"files", files}, {"sha256", digest_of(files)}}.dump(2) + "\n";
}

Marker parse_marker(std::string_view text, const std::string& origin) {
  const json value = parse_json(text);
  const Object object(value, origin);
  const Object files = object.object("files");
  Marker marker;
  for (const auto& [name, _] : files.value().items()) {
    if (!stays_in_folder(name)) files.refuse(name, "a path in the checkpoint's folder");
    const Object file = files.object(name);
    marker[name] = {static_cast<std::uint64_t>(file.count("size", 0)), file.text("sha256")};
    if (!is_sha256(marker[name].sha256)) file.refuse("sha256", "64 hexadecimal digits");
  }
  if (object.has("sha256") && object.text("sha256") != digest_of(files.value()))
    throw UserError(fmt::format("{} is damaged: its content does not match its SHA-256", origin));
  return marker;
}

}  // namespace dpo::run
