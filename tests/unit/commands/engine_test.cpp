#include "commands/engine.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::commands {
namespace {

TEST(Engine, AMissingEngineIsAUserErrorThatNamesARemedy) {
  try {
    run_engine({"devices"});
    FAIL() << "there is no engine next to this test";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("built without LibTorch"), std::string::npos) << message;
    EXPECT_NE(message.find("LIBTORCH=DIR ./run build"), std::string::npos) << message;
  }
}

TEST(Engine, OutputOfAMissingEngineIsTheError) {
  const EngineOutput output = output_of_engine({"devices"});
  EXPECT_FALSE(output.succeeded);
  EXPECT_NE(output.text.find("built without LibTorch"), std::string::npos) << output.text;
}

}  // namespace
}  // namespace dpo::commands
