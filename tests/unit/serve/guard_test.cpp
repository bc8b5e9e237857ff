#include "serve/guard.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/secret.h"

namespace dpo::serve {
namespace {

const std::string kToken = "0123456789abcdef0123";

Verdict verdict(const Guard& guard, Credentials given, bool changes = false) {
  return guard.check(given, changes);
}

TEST(Guard, WithoutATokenOnlyNamesOfThisMachineAreAccepted) {
  const Guard guard("127.0.0.1", 8765, "");
  for (const char* host :
       {"127.0.0.1:8765", "localhost:8765", "LOCALHOST", "localhost:9000", "[::1]:8765", "127.1.2.3"})
    EXPECT_EQ(verdict(guard, {.host = host}), Verdict::allowed) << host;
  for (const char* host :
       {"", "evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.evil.example",
        "10.0.0.1", "localhost:8765:1", "localhost:x", "[::1", "localhost@evil.example", "127.0.0.1/"})
    EXPECT_EQ(verdict(guard, {.host = host}), Verdict::wrong_host) << host;
}

TEST(Guard, ATokenIsNeededOnceAndThenKept) {
  const Guard guard("0.0.0.0", 8765, kToken);
  const std::string host = "10.0.0.1:8765";
  EXPECT_EQ(verdict(guard, {.host = host}), Verdict::wrong_token);
  EXPECT_EQ(verdict(guard, {.host = host, .token = kToken}), Verdict::first_visit);
  EXPECT_EQ(verdict(guard, {.host = host, .token = kToken + "x"}), Verdict::wrong_token);
  const std::string kept = guard.cookie().substr(0, guard.cookie().find(';'));
  EXPECT_NE(guard.cookie().find("HttpOnly; SameSite=Strict"), std::string::npos);
  EXPECT_EQ(verdict(guard, {.host = host, .cookie = "a=b; " + kept + "; c=d"}), Verdict::allowed);
  EXPECT_EQ(verdict(guard, {.host = host, .cookie = "a=" + kToken}), Verdict::wrong_token);
  EXPECT_EQ(verdict(guard, {.host = host, .cookie = kept.substr(0, kept.size() - 1)}), Verdict::wrong_token);
  EXPECT_EQ(verdict(guard, {.host = host, .authorization = "Bearer " + kToken}), Verdict::allowed);
  EXPECT_EQ(verdict(guard, {.host = host, .authorization = "Bearer "}), Verdict::wrong_token);
  EXPECT_EQ(verdict(guard, {.host = "evil.example", .cookie = kept}), Verdict::wrong_host);
}

TEST(Guard, OnlyThePageItselfMayChangeSomething) {
  const Guard guard("127.0.0.1", 8765, "");
  const std::string host = "localhost:8765";
  EXPECT_EQ(verdict(guard, {.host = host, .origin = "http://localhost:8765"}, true), Verdict::allowed);
  for (const char* origin :
       {"", "null", "http://evil.example", "https://localhost:8765", "http://localhost:1"})
    EXPECT_EQ(verdict(guard, {.host = host, .origin = origin}, true), Verdict::wrong_origin) << origin;
}

TEST(Guard, Tokens) {
  check_token(make_token(), "x");
  for (const char* bad : {"short", "sixteen letters; x=1", "0123456789abcdef\r\nX: y", "0123456789abcdefé"})
    EXPECT_THROW(check_token(bad, "x"), UserError) << bad;
}

TEST(Guard, Loopback) {
  for (const char* address : {"127.0.0.1", "127.9.9.9", "localhost", "::1"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "localhost.x", "127"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

}  // namespace
}  // namespace dpo::serve
