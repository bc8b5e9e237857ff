#pragma once

#include <string>
#include <string_view>

namespace dpo::serve {

// The parts of a request that decide whether it is answered.
struct Credentials {
  std::string host = {};           // the header Host
  std::string origin = {};         // the header Origin; empty if absent
  std::string authorization = {};  // the header Authorization
  std::string cookie = {};         // the header Cookie
  std::string token = {};          // the parameter "token" of the address that dpo serve prints
};

enum class Verdict { allowed, first_visit, wrong_host, wrong_token, wrong_origin };

// Decides whether a request is answered. Without a token, the server can only be reached from this machine.
// Then only names of the loopback address are accepted as Host, so that a web site cannot make a browser
// reach the server under the site's own name (DNS rebinding).
class Guard {
 public:
  // `token` may be empty for none. `address` is the one that the server listens on.
  Guard(std::string address, int port, std::string token);

  // `changes`: the request does more than read, so it must come from the page itself. Returns first_visit if
  // the token is right and should be kept as cookie().
  Verdict check(const Credentials& given, bool changes) const;

  // Returns the value of Set-Cookie.
  std::string cookie() const;

 private:
  bool accepts_host(std::string_view host) const;
  bool has_token(const Credentials& given) const;

  std::string address_, token_, cookie_name_;
};

// Returns true for a loopback address, which other machines cannot reach.
bool is_loopback(std::string_view address);

// Throws UserError unless a token is long enough and needs no quoting in addresses and cookies. `given` names
// its source in the message.
void check_token(const std::string& token, const std::string& given);

}  // namespace dpo::serve
