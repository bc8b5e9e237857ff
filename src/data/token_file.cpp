#include "data/token_file.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo::data {
namespace {

constexpr std::size_t kHeader = 512;
constexpr std::size_t kPieceOfTokens = 1u << 20;

// Sizes of all tables. They are at the end of the file because they are not known before.
struct Footer {
  std::uint64_t tokens = 0;
  std::uint64_t texts = 0;
  std::uint64_t prompts = 0;
  std::uint64_t pairs = 0;
  std::uint64_t rankings = 0;
  std::uint64_t ranked = 0;
  std::uint64_t labels = 0;
  std::uint64_t ranges = 0;
  std::uint64_t notes = 0;  // bytes
  std::int64_t rows = 0;
  std::int64_t bad_rows = 0;
  Sha256::Sum sum{};
};

// Returns the first line of a file. A cache file with another format number is replaced. Format 7 added the
// hashes of the texts.
std::string first_line(const std::string& key) { return "dpo tokens 7 " + key + "\n"; }

constexpr std::uint64_t padding(std::uint64_t bytes) { return (8 - bytes % 8) % 8; }

std::span<const std::byte> bytes_of(const Footer& footer) { return std::as_bytes(std::span(&footer, 1)); }

// Reads tables from the front of some bytes, as long as there are enough.
class TableReader {
 public:
  explicit TableReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  std::span<const T> take(std::uint64_t count) {
    if (count > bytes_.size() / sizeof(T)) {
      short_ = true;
      return {};
    }
    const std::span<const T> table(reinterpret_cast<const T*>(bytes_.data()), count);
    bytes_ = bytes_.subspan(count * sizeof(T));
    return table;
  }
  bool complete() const { return !short_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool short_ = false;
};

template <class T>
bool ascends(std::span<const T> starts, std::uint64_t last) {
  return starts.front() == 0 && starts.back() == last && std::is_sorted(starts.begin(), starts.end());
}

// Returns whether ranges ascend without overlapping, and end within a text.
bool are_within(std::span<const TokenRange> ranges, std::size_t tokens) {
  std::uint32_t end = 0;
  for (const TokenRange& range : ranges) {
    if (range.begin < end || range.end < range.begin) return false;
    end = range.end;
  }
  return end <= tokens;
}

}  // namespace

std::optional<TokenFile> TokenFile::open(const std::filesystem::path& path, const std::string& key,
                                         std::string& why) {
  std::error_code none;
  why.clear();
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  TokenFile file(path);
  const std::span<const std::byte> bytes = file.file_.bytes();
  const std::string expected = first_line(key);
  if (bytes.size() < kHeader + sizeof(Footer))
    why = "too short";
  else if (std::memcmp(bytes.data(), expected.data(), expected.size()) != 0)
    why = "in another format or for another key";
  else if (file.read_tables(why))
    return file;
  return std::nullopt;
}

bool TokenFile::read_tables(std::string& why) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::span<const std::byte> body = bytes.first(bytes.size() - sizeof(Footer));
  Footer footer;
  std::memcpy(&footer, bytes.data() + body.size(), sizeof footer);
  TableReader reader(body.subspan(kHeader));
  // Rejects implausible sizes, so that the sums below do not overflow.
  if (std::max({footer.tokens, footer.texts, footer.prompts, footer.pairs, footer.rankings, footer.ranked,
                footer.labels, footer.ranges, footer.notes}) > body.size())
    return why = "damaged", false;
  tokens_ = reader.take<Token>(footer.tokens);
  reader.take<std::byte>(padding(footer.tokens * sizeof(Token)));
  starts_ = reader.take<std::uint64_t>(footer.texts + 1);
  text_hashes_ = reader.take<std::uint64_t>(footer.prompts);
  first_texts_ = reader.take<std::uint32_t>(footer.prompts + 1);
  first_pairs_ = reader.take<std::uint32_t>(footer.prompts + 1);
  targets_ = reader.take<std::uint32_t>(footer.prompts);
  pairs_ = reader.take<Pair>(footer.pairs);
  first_rankings_ = reader.take<std::uint32_t>(footer.prompts + 1);
  ranked_starts_ = reader.take<std::uint32_t>(footer.rankings + 1);
  ranking_weights_ = reader.take<float>(footer.rankings);
  ranked_ = reader.take<std::uint32_t>(footer.ranked);
  first_labels_ = reader.take<std::uint32_t>(footer.prompts + 1);
  for (const StoredLabel& label : reader.take<StoredLabel>(footer.labels))
    labels_.push_back({label.response, label.desirable != 0, label.weight});
  first_ranges_ = reader.take<std::uint32_t>(footer.texts + 1);
  ranges_ = reader.take<TokenRange>(footer.ranges);
  flags_ = reader.take<std::uint8_t>(footer.texts);
  notes_ = reader.take<char>(footer.notes);
  rows_ = footer.rows;
  bad_rows_ = footer.bad_rows;
  Sha256 hash;
  hash.add(body);
  const Sha256::Sum sum = std::exchange(footer.sum, {});
  hash.add(bytes_of(footer));
  if (!reader.complete() || hash.finish() != sum || !tables_agree()) return why = "damaged", false;
  return true;
}

std::vector<std::string> TokenFile::notes() const {
  std::vector<std::string> lines;
  std::istringstream in(std::string(notes_.begin(), notes_.end()));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool TokenFile::tables_agree() const {
  if (!ascends(starts_, tokens_.size()) || !ascends(first_texts_, flags_.size()) ||
      !ascends(first_pairs_, pairs_.size()) || !ascends(first_rankings_, ranking_weights_.size()) ||
      !ascends(ranked_starts_, ranked_.size()) || !ascends(first_labels_, labels_.size()) ||
      !ascends(first_ranges_, ranges_.size()))
    return false;
  for (std::uint32_t i = 0; i < flags_.size(); ++i)
    if (!are_within(ranges(i), text(i).size())) return false;
  for (std::uint32_t p = 0; p < prompts(); ++p) {
    if (first_texts_[p + 1] < first_texts_[p] + 2 || targets_[p] >= responses(p)) return false;
    for (const Pair& pair : pairs(p))
      if (std::max(pair.chosen, pair.rejected) >= responses(p)) return false;
    for (const Label& label : labels(p))
      if (label.response >= responses(p)) return false;
    for (std::uint32_t i = 0; i < rankings(p); ++i) {
      const Ranking ranking = this->ranking(p, i);
      if (ranking.responses.size() < 2 || std::ranges::max(ranking.responses) >= responses(p)) return false;
    }
  }
  return true;
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const std::string& key,
                                 const std::string& about)
    : file_(path) {
  std::string header = first_line(key) + about;
  header.resize(kHeader, '\n');
  write(std::as_bytes(std::span(header)));
}

void TokenFileWriter::begin_prompt(const PromptText& prompt) {
  std::string texts = fmt::format("{:x}", split_hash_of(prompt.prompt));
  for (const std::string& response : prompt.responses) texts += fmt::format(" {:x}", split_hash_of(response));
  text_hashes_.push_back(split_hash_of(texts));
  first_texts_.push_back(static_cast<std::uint32_t>(flags_.size()));
  first_pairs_.push_back(static_cast<std::uint32_t>(pairs_.size()));
  first_rankings_.push_back(static_cast<std::uint32_t>(ranking_weights_.size()));
  pairs_.insert(pairs_.end(), prompt.pairs.begin(), prompt.pairs.end());
  for (const Ranking& ranking : prompt.rankings) {
    ranked_.insert(ranked_.end(), ranking.responses.begin(), ranking.responses.end());
    ranked_starts_.push_back(static_cast<std::uint32_t>(ranked_.size()));
    ranking_weights_.push_back(ranking.weight);
  }
  first_labels_.push_back(static_cast<std::uint32_t>(labels_.size()));
  for (const Label& label : prompt.labels) labels_.push_back({label.response, label.desirable, label.weight});
  targets_.push_back(prompt.sft_target);
}

void TokenFileWriter::add_text(std::span<const Token> tokens, std::uint8_t flags,
                               std::span<const TokenRange> unscored) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  token_count_ += tokens.size();
  starts_.push_back(token_count_);
  ranges_.insert(ranges_.end(), unscored.begin(), unscored.end());
  first_ranges_.push_back(static_cast<std::uint32_t>(ranges_.size()));
  flags_.push_back(flags);
  if (tokens_.size() < kPieceOfTokens) return;
  write_table(tokens_);
  tokens_.clear();
}

void TokenFileWriter::finish(const SourceTexts& read) {
  write_table(tokens_);
  write_table(std::vector<std::byte>(padding(token_count_ * sizeof(Token))));
  first_texts_.push_back(static_cast<std::uint32_t>(flags_.size()));
  first_pairs_.push_back(static_cast<std::uint32_t>(pairs_.size()));
  first_rankings_.push_back(static_cast<std::uint32_t>(ranking_weights_.size()));
  first_labels_.push_back(static_cast<std::uint32_t>(labels_.size()));
  write_table(starts_);
  write_table(text_hashes_);
  write_table(first_texts_);
  write_table(first_pairs_);
  write_table(targets_);
  write_table(pairs_);
  write_table(first_rankings_);
  write_table(ranked_starts_);
  write_table(ranking_weights_);
  write_table(ranked_);
  write_table(first_labels_);
  write_table(labels_);
  write_table(first_ranges_);
  write_table(ranges_);
  write_table(flags_);
  std::string notes;
  for (const std::string& note : read.notes) notes += note + "\n";
  write(std::as_bytes(std::span(notes)));
  Footer footer{
      token_count_,   flags_.size(),  targets_.size(), pairs_.size(), ranking_weights_.size(), ranked_.size(),
      labels_.size(), ranges_.size(), notes.size(),    read.rows,     read.bad_rows,           {}};
  hash_.add(bytes_of(footer));
  footer.sum = hash_.finish();
  file_.write(bytes_of(footer));
  file_.commit();
}

void TokenFileWriter::write(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  file_.write(bytes);
}

}  // namespace dpo::data
