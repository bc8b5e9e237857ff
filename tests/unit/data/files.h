// Creates files and configurations for the tests of data.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "config/run_config.h"

namespace dpo::data {

// A test with its own temporary folder.
class WithFolder : public testing::Test {
 protected:
  WithFolder()
      : folder_(std::filesystem::path(testing::TempDir()) / ("dpo_data_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~WithFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path folder_;
};

inline std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns the message of the UserError that `work` throws, or "" if it throws none.
inline std::string problem_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

inline config::RunConfig make_config() {
  config::RunConfig config;
  config.batch_size = 1;
  config.eval_batch_size = 1;
  config.n_eval_examples = 1;
  config.n_epochs = 1;
  config.max_length = 512;
  config.max_prompt_length = 256;
  config.loss.name = config::Loss::dpo;
  config.data.test_share = 0;
  return config;
}

}  // namespace dpo::data
