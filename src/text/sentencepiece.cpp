#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "base/error.h"
#include "text/codec.h"

namespace dpo::text {
namespace {

class SentencePieceCodec : public Codec {
 public:
  SentencePieceCodec(TokenizerFolder& folder, const SpecialTokenFiles& specials) {
    const std::string file = folder.path_of("tokenizer.model");
    const auto status = processor_.LoadFromSerializedProto(folder.read("tokenizer.model"));
    if (!status.ok())
      throw UserError(fmt::format("{}: not a sentencepiece model; is the file complete?", file));
    Vocabulary vocabulary;
    for (Token id = 0; id < processor_.GetPieceSize(); ++id)
      vocabulary.emplace_back(processor_.IdToPiece(id), id);
    AddedTokens added(vocabulary);
    for (const auto& [piece, id] : vocabulary)
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) added.add(special_token(piece), std::nullopt);
    specials.add_to(added);
    for (const char* role : {"bos_token", "eos_token", "pad_token", "unk_token"})
      if (const auto token = specials.find(role)) added.add(token->token, std::nullopt);
    tokens_ = added.tokens();
    for (const AddedToken& token : tokens_) finder_.add(token.content, token);
    if (specials.flag("add_bos_token", true)) before_ = id_for(specials, "bos_token", processor_.bos_id());
    if (specials.flag("add_eos_token", false)) after_ = id_for(specials, "eos_token", processor_.eos_id());
  }

  void encode(std::string_view text, bool special, std::vector<Token>& out) const override {
    if (special && before_) out.push_back(*before_);
    std::vector<Segment> segments;
    split(text, segments);
    for (const Segment& segment : segments) encode_segment(text, segment, out);
    if (special && after_) out.push_back(*after_);
  }

  void split(std::string_view text, std::vector<Segment>& segments) const override {
    finder_.find(text, segments);
  }

  void split_alike(std::string_view other, const std::vector<Segment>& known, std::string_view text,
                   std::vector<Segment>& segments) const override {
    finder_.find_alike(other, known, text, segments);
  }

  void encode_segments(std::string_view text, std::span<const Segment> segments, std::vector<Token>& out,
                       std::vector<std::size_t>& ends) const override {
    for (const Segment& segment : segments) {
      encode_segment(text, segment, out);
      ends.push_back(out.size());
    }
  }

  void encode_segment(std::string_view text, const Segment& segment, std::vector<Token>& out) const {
    if (segment.token) {
      out.push_back(*segment.token);
      return;
    }
    const std::string_view part = text.substr(segment.start, segment.end - segment.start);
    std::vector<int> ids;
    const auto status = processor_.Encode({part.data(), part.size()}, &ids);
    if (!status.ok())
      throw UserError(fmt::format("sentencepiece could not encode a text: {}", status.ToString()));
    out.insert(out.end(), ids.begin(), ids.end());
  }

  std::string decode(std::span<const Token> ids, bool skip_special) const override {
    std::string out;
    std::vector<int> run;
    const auto put_run = [&] {
      std::string text;
      const auto status = processor_.Decode(run, &text);
      if (!status.ok())
        throw UserError(fmt::format("sentencepiece could not decode ids: {}", status.ToString()));
      out += text;
      run.clear();
    };
    for (const Token id : ids) {
      if (const AddedToken* token = added(id)) {
        put_run();
        if (!(skip_special && token->special)) out += token->content;
      } else if (id >= 0 && id < processor_.GetPieceSize()) {
        run.push_back(id);
      }
    }
    put_run();
    return out;
  }

  std::optional<Token> id_of(std::string_view token) const override {
    for (const AddedToken& candidate : tokens_)
      if (candidate.content == token) return candidate.id;
    const Token id = processor_.PieceToId({token.data(), token.size()});
    if (id == processor_.unk_id() && processor_.IdToPiece(id) != token) return std::nullopt;
    return id;
  }

  std::string token_of(Token id) const override {
    if (const AddedToken* token = added(id)) return token->content;
    return id >= 0 && id < processor_.GetPieceSize() ? processor_.IdToPiece(id) : std::string();
  }

  bool is_special(Token id) const override {
    const AddedToken* const token = added(id);
    return token && token->special;
  }

  std::int64_t size() const override {
    std::int64_t size = processor_.GetPieceSize();
    for (const AddedToken& token : tokens_) size = std::max<std::int64_t>(size, token.id + 1);
    return size;
  }

 private:
  static AddedToken special_token(const std::string& piece) {
    AddedToken token;
    token.content = piece;
    token.special = true;
    token.normalized = false;
    return token;
  }

  std::optional<Token> id_for(const SpecialTokenFiles& specials, const std::string& role,
                              int of_model) const {
    if (const auto named = specials.find(role)) return id_of(named->token.content);
    return of_model >= 0 ? std::optional<Token>(of_model) : std::nullopt;
  }

  const AddedToken* added(Token id) const {
    for (const AddedToken& token : tokens_)
      if (token.id == id) return &token;
    return nullptr;
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<AddedToken> tokens_;
  AddedTokenFinder finder_;
  std::optional<Token> before_;
  std::optional<Token> after_;
};

}  // namespace

std::unique_ptr<const Codec> load_sentencepiece(TokenizerFolder& folder, const SpecialTokenFiles& specials) {
  return std::make_unique<SentencePieceCodec>(folder, specials);
}

}  // namespace dpo::text
