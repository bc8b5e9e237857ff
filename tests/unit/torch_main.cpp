// The main function of the unit tests that use LibTorch.
#include <gtest/gtest.h>

#include "ops/leave.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  dpo::ops::leave_process(RUN_ALL_TESTS());
}
