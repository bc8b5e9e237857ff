#include "serve/guard.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/utf8.h"

namespace dpo::serve {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// Returns "localhost" for "LOCALHOST:80", "::1" for "[::1]:80", and "" for other forms.
std::string name_of_host(std::string_view host) {
  std::string_view name, port;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == host.npos) return "";
    name = host.substr(1, end - 1), port = host.substr(end + 1);
  } else {
    const std::size_t colon = std::min(host.find(':'), host.size());
    name = host.substr(0, colon), port = host.substr(colon);
  }
  const bool has_port =
      port.empty() || (port.front() == ':' && std::ranges::all_of(port.substr(1), is_ascii_digit));
  return has_port ? lower(name) : "";
}

bool is_address(const std::string& name) {
  std::array<std::byte, sizeof(in6_addr)> bytes;
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

// Returns the first part of this machine's name, by which others on its network may address it.
std::string name_of_machine() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string whole = lower(name.data());
  return whole.substr(0, whole.find('.'));
}

// Returns the value of NAME in "a=b; NAME=value".
std::string_view cookie_value(std::string_view cookies, const std::string& name) {
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    std::string_view one = cookies.substr(0, end);
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

bool is_loopback(std::string_view address) {
  const std::string name = lower(address);
  in_addr bytes{};
  const bool is_v4 = ::inet_pton(AF_INET, name.c_str(), &bytes) == 1;
  return name == "localhost" || name == "::1" || (is_v4 && ntohl(bytes.s_addr) >> 24 == 127);
}

void check_token(const std::string& token, const std::string& given) {
  const bool plain = std::ranges::all_of(token, [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || c == '.';
  });
  if (plain && token.size() >= 16 && token.size() <= 200) return;
  throw UserError(
      fmt::format("{}: expected a token of 16 to 200 letters, digits, '-', '_' or '.'; --token generates one "
                  "and prints it",
                  given));
}

Guard::Guard(std::string address, int port, std::string token)
    : address_(lower(address)), token_(std::move(token)), cookie_name_(fmt::format("dpo_serve_{}", port)) {}

bool Guard::accepts_host(std::string_view host) const {
  const std::string name = name_of_host(host);
  if (is_loopback(name)) return true;
  if (token_.empty()) return false;
  const std::string machine = name_of_machine();
  return is_address(name) || name == address_ || name == machine || name.starts_with(machine + ".");
}

bool Guard::has_token(const Credentials& given) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = given.authorization;
  return is_same_secret(cookie_value(given.cookie, cookie_name_), token_) ||
         (header.starts_with(kBearer) && is_same_secret(header.substr(kBearer.size()), token_));
}

Verdict Guard::check(const Credentials& given, bool changes) const {
  if (!accepts_host(given.host)) return Verdict::wrong_host;
  if (changes && given.origin != "http://" + given.host) return Verdict::wrong_origin;
  if (token_.empty() || has_token(given)) return Verdict::allowed;
  return !given.token.empty() && is_same_secret(given.token, token_) ? Verdict::first_visit
                                                                     : Verdict::wrong_token;
}

std::string Guard::cookie() const {
  return fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name_, token_);
}

}  // namespace dpo::serve
