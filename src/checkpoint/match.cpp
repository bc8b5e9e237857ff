#include "checkpoint/match.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"

namespace dpo::checkpoint {
namespace {

using model::TensorTable;

bool is_float(Dtype dtype) {
  return dtype == Dtype::F64 || dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16;
}

bool is_same_storage(const StoredTensor& a, const StoredTensor& b) {
  return a.file == b.file && a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape &&
         a.strides == b.strides;
}

class Matcher {
 public:
  Matcher(const TensorTable& table, const std::vector<StoredTensor>& stored, const std::string& origin)
      : table_(table), stored_(stored), origin_(origin) {
    for (const model::Block& block : table.blocks)
      for (const model::TensorInfo& tensor : block.tensors) wanted_.emplace(tensor.name, &tensor);
    tied_ = !wanted_.contains(table.head_name);
    if (tied_) {
      head_ = *wanted_.at(table.embedding_name);
      head_.name = table.head_name;
      wanted_.emplace(table.head_name, &head_);
    }
  }

  Match run() {
    for (std::size_t i = 0; i < stored_.size(); ++i) assign(i);
    Match match;
    if (tied_) settle_tied_head(match);
    for (const model::Block& block : table_.blocks) {
      std::vector<std::size_t>& sources = match.sources.emplace_back();
      for (const model::TensorInfo& tensor : block.tensors) sources.push_back(source_of(tensor));
    }
    report();
    return match;
  }

 private:
  // Returns the table's name for a stored tensor, if it has one.
  std::optional<std::string> canonical(const std::string& stored_name) const {
    std::string name = without_wrappers(stored_name);
    for (const auto& [old, current] : table_.old_prefixes)
      if (name.starts_with(old)) {
        name.replace(0, old.size(), current);
        break;
      }
    for (const std::string& candidate : {name, table_.base_prefix + name}) {
      if (wanted_.contains(candidate)) return candidate;
      for (const auto& [old, current] : table_.old_names)
        if (candidate == old) return current;
    }
    return std::nullopt;
  }

  bool is_buffer(const std::string& name) const {
    return std::any_of(table_.buffers.begin(), table_.buffers.end(), [&](const std::string& ending) {
      return name.ends_with(ending) || "." + name == ending;
    });
  }

  bool is_of_another_part(const std::string& name) const {
    return std::any_of(table_.other_parts.begin(), table_.other_parts.end(),
                       [&](const std::string& beginning) { return name.starts_with(beginning); });
  }

  void assign(std::size_t number) {
    const StoredTensor& tensor = stored_[number];
    const auto name = canonical(tensor.name);
    if (!name) {
      if (!is_buffer(tensor.name) && !is_of_another_part(tensor.name)) unknown_.push_back(tensor.name);
      return;
    }
    const auto [at, is_new] = found_.emplace(*name, number);
    if (!is_new && !is_same_storage(stored_[at->second], tensor))
      problem(fmt::format("'{}' and '{}' are both the model's tensor '{}'", stored_[at->second].name,
                          tensor.name, *name));
    check_kind(tensor, *wanted_.at(*name));
  }

  void check_kind(const StoredTensor& tensor, const model::TensorInfo& wanted) {
    if (tensor.shape != wanted.shape)
      problem(fmt::format("tensor '{}' has the shape [{}], expected [{}] (from config.json)", tensor.name,
                          fmt::join(tensor.shape, ", "), fmt::join(wanted.shape, ", ")));
    if (!is_float(tensor.dtype))
      problem(
          fmt::format("tensor '{}' has the dtype {}, expected F64, F32, F16 or BF16: of quantized weights "
                      "only bitsandbytes' nf4 and int8 are supported",
                      tensor.name, name_of(tensor.dtype)));
  }

  void settle_tied_head(Match& match) {
    const auto head = found_.find(table_.head_name);
    if (head == found_.end()) return;
    const auto [embedding, absent] = found_.emplace(table_.embedding_name, head->second);
    if (!absent && !is_same_storage(stored_[embedding->second], stored_[head->second]))
      match.second_head = head->second;
  }

  std::size_t source_of(const model::TensorInfo& tensor) {
    const auto at = found_.find(tensor.name);
    if (at != found_.end()) return at->second;
    missing_.push_back(tensor.name);
    return 0;
  }

  void problem(const std::string& what) { problems_.push_back(fmt::format("{}: {}", origin_, what)); }

  void report() {
    // Each suggestion searches all names of the other side, so the number of suggestions is limited.
    constexpr std::size_t kSuggestions = 100;
    for (std::size_t i = 0; i < missing_.size(); ++i)
      problem(fmt::format(
          "the model's tensor '{}' is missing{}", missing_[i],
          i < kSuggestions ? nearest_of(missing_[i], unknown_, "; is it '{}' in the file?") : ""));
    for (std::size_t i = 0; i < unknown_.size(); ++i)
      problem(fmt::format("the model has no tensor '{}'{}", unknown_[i],
                          i < kSuggestions ? nearest_of(unknown_[i], missing_, "; did you mean '{}'?") : ""));
    if (!problems_.empty()) throw UserError(problems_);
  }

  static std::string nearest_of(const std::string& name, const std::vector<std::string>& others,
                                fmt::format_string<const std::string&> text) {
    const auto near = nearest_name(name, others);
    return near ? fmt::format(text, *near) : "";
  }

  const TensorTable& table_;
  const std::vector<StoredTensor>& stored_;
  const std::string& origin_;
  bool tied_ = false;
  model::TensorInfo head_;
  std::unordered_map<std::string, const model::TensorInfo*> wanted_;
  std::unordered_map<std::string, std::size_t> found_;
  std::vector<std::string> missing_, unknown_, problems_;
};

}  // namespace

std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : {"module.", "_orig_mod.", "_fsdp_wrapped_module."}) {
    std::size_t at = 0;
    while ((at = name.find(wrapper, at)) != std::string::npos) {
      const bool whole_word = at == 0 || name[at - 1] == '.';
      if (whole_word)
        name.erase(at, wrapper.size());
      else
        ++at;
    }
  }
  return name;
}

Match match_tensors(const TensorTable& table, const std::vector<StoredTensor>& stored,
                    const std::string& origin) {
  return Matcher(table, stored, origin).run();
}

}  // namespace dpo::checkpoint
