#include "checkpoint/formats/zip.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"

namespace dpo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string archive_of(int files) {
  const fs::path path = fs::path(testing::TempDir()) / "dpo_zip_test.zip";
  AtomicFile file(path);
  ZipWriter zip(file);
  for (int i = 0; i < files; ++i) zip.add("f" + std::to_string(i), "contents " + std::to_string(i));
  zip.finish();
  file.commit();
  std::string bytes = read_text_file(path, "test");
  fs::remove(path);
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Zip, IsReadAsWritten) {
  for (const int count : {0, 1, 3, 70'000}) {  // the last needs the 64-bit directory
    const std::string archive = archive_of(count);
    const auto files = read_stored_zip(std::as_bytes(std::span(archive)), "a.zip");
    ASSERT_EQ(files.size(), static_cast<std::size_t>(count));
    for (const int i : {0, count / 2, count - 1}) {
      if (count == 0) continue;
      EXPECT_EQ(text_of(files.at("f" + std::to_string(i))), "contents " + std::to_string(i));
    }
  }
}

TEST(Zip, EveryTruncationIsRefused) {
  const std::string archive = archive_of(2);
  for (std::size_t size = 0; size < archive.size(); ++size) {
    const std::string part = archive.substr(0, size);
    EXPECT_THROW(read_stored_zip(std::as_bytes(std::span(part)), "a.zip"), UserError) << size;
  }
}

}  // namespace
}  // namespace dpo::checkpoint
