#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/normalizer.h"

namespace dpo::text {

// A step of decoding, which changes the list of tokens before it becomes a text. It is immutable.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using DecoderSteps = std::vector<std::unique_ptr<const DecoderStep>>;

std::unique_ptr<const DecoderStep> byte_level_decoder();
std::unique_ptr<const DecoderStep> byte_fallback_decoder();
std::unique_ptr<const DecoderStep> fuse_decoder();
std::unique_ptr<const DecoderStep> metaspace_decoder(std::string replacement, bool drops_first);
std::unique_ptr<const DecoderStep> replace_decoder(TextPattern pattern, std::string content);
std::unique_ptr<const DecoderStep> strip_decoder(std::string content, std::size_t start, std::size_t stop);

class Decoder {
 public:
  // Joins tokens by spaces, as for a file without a decoder.
  Decoder() : separator_(" ") {}
  explicit Decoder(DecoderSteps steps) : steps_(std::move(steps)) {}

  std::string apply(std::vector<std::string> tokens) const;

 private:
  DecoderSteps steps_;
  std::string separator_;
};

}  // namespace dpo::text
