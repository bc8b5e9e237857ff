// Creates a folder with files of a run.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace dpo::serve {

class RunFolder : public testing::Test {
 protected:
  RunFolder() { std::filesystem::create_directories(folder_); }
  ~RunFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    return put(name, text, std::ios::trunc);
  }
  std::filesystem::path add(const std::string& name, const std::string& text) const {
    return put(name, text, std::ios::app);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("dpo_serve_") + testing::UnitTest::GetInstance()->current_test_info()->name());

 private:
  std::filesystem::path put(const std::string& name, const std::string& text, std::ios::openmode mode) const {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | mode) << text;
    return file;
  }
};

}  // namespace dpo::serve
