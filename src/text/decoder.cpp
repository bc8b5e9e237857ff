#include "text/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "text/byte_level.h"

namespace dpo::text {
namespace {

std::size_t size_of(const std::vector<std::string>& tokens) {
  std::size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

class ByteLevelDecoder : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_level(token).value_or(token);
    tokens = {is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes)};
  }
};

// Decodes a run of tokens <0x00> to <0xFF> as the bytes of a text. If they are not valid UTF-8, each becomes
// U+FFFD.
class ByteFallbackDecoder : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto put_bytes = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes))
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = byte_of(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
      } else {
        put_bytes();
        out.push_back(std::move(token));
      }
    }
    put_bytes();
    tokens = std::move(out);
  }

 private:
  // Returns the byte that a token names, or -1. Like Rust's parser, accepts a plus sign before one digit.
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
    const auto digit = [](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      return -1;
    };
    const int high = token[3] == '+' ? 0 : digit(token[3]);
    const int low = digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }
};

class FuseDecoder : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    tokens = {fmt::format("{}", fmt::join(tokens, ""))};
  }
};

class MetaspaceDecoder : public DecoderStep {
 public:
  MetaspaceDecoder(std::string replacement, bool drops_first)
      : replacement_{std::move(replacement), std::nullopt}, drops_first_(drops_first) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] =
          replace_matches(replacement_, i == 0 && drops_first_ ? "" : " ", tokens[i], tokens[i].size());
  }

 private:
  TextPattern replacement_;
  bool drops_first_;
};

class ReplaceDecoder : public DecoderStep {
 public:
  ReplaceDecoder(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = replace_matches(pattern_, content_, token, token.size());
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class StripDecoder : public DecoderStep {
 public:
  StripDecoder(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (std::size_t i = 0; i < start_ && left.starts_with(content_); ++i)
        left.remove_prefix(content_.size());
      for (std::size_t i = 0; i < stop_ && left.ends_with(content_); ++i) left.remove_suffix(content_.size());
      token = std::string(left);
    }
  }

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

}  // namespace

std::unique_ptr<const DecoderStep> byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
std::unique_ptr<const DecoderStep> byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
std::unique_ptr<const DecoderStep> fuse_decoder() { return std::make_unique<FuseDecoder>(); }

std::unique_ptr<const DecoderStep> metaspace_decoder(std::string replacement, bool drops_first) {
  return std::make_unique<MetaspaceDecoder>(std::move(replacement), drops_first);
}

std::unique_ptr<const DecoderStep> replace_decoder(TextPattern pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}

std::unique_ptr<const DecoderStep> strip_decoder(std::string content, std::size_t start, std::size_t stop) {
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
  const std::size_t given = size_of(tokens);
  for (const auto& step : steps_) {
    step->apply(tokens);
    check_growth(given, size_of(tokens));
  }
  return fmt::format("{}", fmt::join(tokens, separator_));
}

}  // namespace dpo::text
