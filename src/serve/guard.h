#pragma once

#include <string>
#include <string_view>

namespace dpo::serve {

// What a browser sent with a request that decides whether it is answered.
struct Credentials {
  std::string host = {};           // the header Host
  std::string origin = {};         // the header Origin; empty: none
  std::string authorization = {};  // the header Authorization
  std::string cookie = {};         // the header Cookie
  std::string token = {};          // the parameter "token", of the address that dpo serve prints
};

enum class Verdict { allowed, first_visit, wrong_host, wrong_token, wrong_origin };

// Decides whether a request is answered. Without a token, the server can only be reached from this machine;
// then only names of this machine's loopback address are accepted as Host, so that a web site cannot let a
// browser reach the server by a name of its own (DNS rebinding).
class Guard {
 public:
  // `token`: empty for none. `address`: what the server listens on.
  Guard(std::string address, int port, std::string token);

  // `changes`: the request does more than read, so it must come from the page itself. first_visit: the token
  // is right and should be kept as cookie().
  Verdict check(const Credentials& given, bool changes) const;

  // The value of Set-Cookie.
  std::string cookie() const;

 private:
  bool accepts_host(std::string_view host) const;
  bool has_token(const Credentials& given) const;

  std::string address_, token_, cookie_name_;
};

// Whether an address is this machine's own, which others cannot reach.
bool is_loopback(std::string_view address);

// Throws a UserError unless a token is long enough and has only characters that need no quoting in addresses
// and cookies. `given`: where it is from.
void check_token(const std::string& token, const std::string& given);

}  // namespace dpo::serve
