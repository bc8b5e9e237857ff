#include "http/http.h"

#include <gtest/gtest.h>

namespace dpo::http {
namespace {

TEST(Request, UploadsAText) {
  const std::string body = "0123456789";
  const Upload upload = upload_of(body);
  EXPECT_EQ(upload.size, 10);
  std::string piece(4, ' ');
  EXPECT_EQ(upload.read(0, piece.data(), 4), 4u);
  EXPECT_EQ(piece, "0123");
  EXPECT_EQ(upload.read(8, piece.data(), 4), 2u);
  EXPECT_EQ(piece, "8923");
}

// No program listens on port 1 of this machine.
TEST(Request, SaysThatNothingAnswers) {
  Connection connection;
  try {
    connection.send({.url = "http://127.0.0.1:1/"});
    FAIL() << "an answer";
  } catch (const NetworkError& error) {
    EXPECT_EQ(error.kind, NetworkError::Kind::unreachable) << error.what();
  }
}

}  // namespace
}  // namespace dpo::http
