#include "comm/messages.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/exit_status.h"
#include "base/stop.h"

namespace dpo::comm {
namespace {

using nlohmann::json;

struct KindName {
  Message::Kind kind;
  const char* name;
};
constexpr std::array<KindName, 8> kKinds = {{{Message::Kind::heartbeat, "heartbeat"},
                                             {Message::Kind::hello, "hello"},
                                             {Message::Kind::challenge, "challenge"},
                                             {Message::Kind::answer, "answer"},
                                             {Message::Kind::welcome, "welcome"},
                                             {Message::Kind::goodbye, "goodbye"},
                                             {Message::Kind::failed, "failed"},
                                             {Message::Kind::abort, "abort"}}};

// Reads the members of a message. The message is invalid if one is missing or has the wrong type.
class Members {
 public:
  explicit Members(const json& message) : message_(message) {}

  std::string text(const char* name) {
    const auto found = find(name, &json::is_string);
    return found ? found->get<std::string>() : "";
  }
  bool flag(const char* name) {
    const auto found = find(name, &json::is_boolean);
    return found && found->get<bool>();
  }
  template <class Number>
  Number number(const char* name) {
    const auto found = find(name, &json::is_number_integer);
    if (!found) return 0;
    const bool fits = found->is_number_unsigned() ? std::in_range<Number>(found->get<std::uint64_t>())
                                                  : std::in_range<Number>(found->get<std::int64_t>());
    good_ = good_ && fits;
    return fits ? found->get<Number>() : 0;
  }

  bool good() const { return good_; }

 private:
  const json* find(const char* name, bool (json::*is_right)() const noexcept) {
    const auto found = message_.find(name);
    if (found != message_.end() && ((*found).*is_right)()) return &*found;
    good_ = false;
    return nullptr;
  }

  const json& message_;
  bool good_ = true;
};

RankFailure failure_of(Members& members) {
  RankFailure failure;
  failure.rank = members.number<int>("rank");
  failure.host = members.text("host");
  failure.pid = members.number<std::int64_t>("pid");
  failure.what = members.text("what");
  failure.reported = members.flag("reported");
  failure.status = members.number<int>("status");
  return failure;
}

std::optional<Message::Kind> kind_of(const std::string& name) {
  for (const KindName& kind : kKinds)
    if (name == kind.name) return kind.kind;
  return std::nullopt;
}

}  // namespace

std::string describe(const RankFailure& failure) {
  const char* verb = !failure.reported ? "" : failure.status == kStopped ? "was " : "failed: ";
  return fmt::format("rank {} (host {}, pid {}) {}{}", failure.rank, failure.host, failure.pid, verb,
                     failure.what);
}

std::string text_of(const Endpoint& endpoint) {
  return json{{"addresses", endpoint.addresses}, {"port", endpoint.port}, {"token", endpoint.token}}.dump();
}

Endpoint parse_endpoint(const std::string& text) {
  const json object = json::parse(text);
  return {object.at("addresses"), object.at("port"), object.at("token")};
}

std::string line_of(const Message& message) {
  json line = {{"kind", kKinds[static_cast<std::size_t>(message.kind)].name}};
  switch (message.kind) {
    case Message::Kind::hello: line.update({{"rank", message.rank}, {"nonce", message.nonce}}); break;
    case Message::Kind::challenge: line.update({{"nonce", message.nonce}, {"proof", message.proof}}); break;
    case Message::Kind::answer: line["proof"] = message.proof; break;
    case Message::Kind::heartbeat:
      line.update({{"parts", message.progress.parts}, {"collectives", message.progress.collectives}});
      break;
    case Message::Kind::failed:
    case Message::Kind::abort: {
      const RankFailure& failure = message.failure;
      line.update({{"rank", failure.rank},
                   {"host", failure.host},
                   {"pid", failure.pid},
                   {"what", failure.what},
                   {"reported", failure.reported},
                   {"status", failure.status}});
      break;
    }
    case Message::Kind::welcome:
    case Message::Kind::goodbye: break;
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

std::optional<Message> parse_message(std::string_view line) {
  const json object = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  Members members(object);
  const auto kind = kind_of(members.text("kind"));
  if (!kind) return std::nullopt;
  Message message{.kind = *kind};
  switch (*kind) {
    case Message::Kind::hello:
      message.rank = members.number<int>("rank");
      message.nonce = members.text("nonce");
      break;
    case Message::Kind::challenge: message.nonce = members.text("nonce"); [[fallthrough]];
    case Message::Kind::answer: message.proof = members.text("proof"); break;
    case Message::Kind::heartbeat:
      message.progress = {members.number<std::uint64_t>("parts"),
                          members.number<std::uint64_t>("collectives")};
      break;
    case Message::Kind::failed:
    case Message::Kind::abort: message.failure = failure_of(members); break;
    case Message::Kind::welcome:
    case Message::Kind::goodbye: break;
  }
  return members.good() ? std::optional(message) : std::nullopt;
}

std::vector<Message> MessageReader::add(std::string_view bytes) {
  std::vector<Message> messages;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    rest_ += bytes.substr(0, end);
    if (rest_.size() > kLongestLine) rest_.clear();
    if (end == bytes.npos) break;
    if (auto message = parse_message(rest_)) messages.push_back(std::move(*message));
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
  return messages;
}

}  // namespace dpo::comm
