#include "checkpoint/formats/index.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"

namespace dpo::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kWeightMap = "weight_map";

// Parses the JSON event by event. Everything except the weight map is skipped and never built, at any depth.
class IndexReader : public nlohmann::json_sax<json> {
 public:
  const std::string& problem() const { return problem_; }
  bool has_map() const { return has_map_; }
  WeightMap take() { return std::move(map_); }

  bool key(std::string& text) override {
    if (depth_ == 1) {
      in_map_ = text == kWeightMap;
      if (in_map_ && has_map_) return refuse(fmt::format("'{}' occurs twice", kWeightMap));
    }
    if (in_map_ && depth_ == 2) tensor_ = text;
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 0) return other();
    if (!in_map_) return true;
    if (depth_ != 2) return other();
    if (!stays_in_folder(text))
      return refuse(fmt::format("tensor '{}' is in '{}', which is not a file in this folder", tensor_, text));
    return map_.emplace(tensor_, text).second || refuse(fmt::format("tensor '{}' occurs twice", tensor_));
  }

  bool start_object(std::size_t) override {
    if (in_map_ && depth_ >= 2) return other();
    if (in_map_ && depth_ == 1) has_map_ = true;
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_map_ || depth_ == 0) return other();
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }

  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_float(number_float_t, const std::string&) override { return other(); }
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool binary(json::binary_t&) override { return other(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("it is not valid JSON at byte {}", at));
  }

 private:
  bool refuse(const std::string& why) {
    problem_ = why;
    return false;
  }

  // Rejects a value in the map that is neither an object nor a file name.
  bool other() {
    if (depth_ == 0) return refuse("it is not a JSON object");
    return !in_map_ || refuse(fmt::format("'{}' must map names of tensors to names of files", kWeightMap));
  }

  std::string problem_;
  std::size_t depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
  std::string tensor_;
  WeightMap map_;
};

}  // namespace

WeightMap parse_weight_index(std::string_view text, const std::string& origin) {
  IndexReader reader;
  const bool good = json::sax_parse(text.begin(), text.end(), &reader);
  if (!good) throw UserError(fmt::format("{}: not a weight index: {}", origin, reader.problem()));
  if (!reader.has_map())
    throw UserError(fmt::format("{}: not a weight index: '{}' is missing", origin, kWeightMap));
  return reader.take();
}

}  // namespace dpo::checkpoint
