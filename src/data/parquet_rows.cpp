#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include "base/error.h"
#include "config/text.h"
#include "data/parquet_values.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

// A file and its readers. The memory that Arrow may allocate is limited too, because it decodes whole pages
// and many rows at once.
class ParquetFile {
 public:
  explicit ParquetFile(const fs::path& file)
      : file_(file),
        most_bytes_(ParquetDecoder::most_bytes(fs::file_size(file))),
        decoder_(file, most_bytes_),
        pool_(&counted_, most_bytes_) {
    constexpr std::int64_t kRowsAtOnce = 1024;
    parquet::ArrowReaderProperties properties;
    properties.set_pre_buffer(false);  // reader threads would use buffers that outlive the pool
    properties.set_batch_size(kRowsAtOnce);
    parquet::arrow::FileReaderBuilder builder;
    builder.memory_pool(&pool_)->properties(properties);
    check(builder.Open(checked(arrow::io::ReadableFile::Open(file.string())),
                       parquet::ReaderProperties(&pool_)));
    reader_ = checked(builder.Build());
    batches_ = checked(reader_->GetRecordBatchReader());
  }

  std::shared_ptr<arrow::RecordBatch> next() { return checked(batches_->Next()); }
  ParquetDecoder& decoder() { return decoder_; }

 private:
  void check(const arrow::Status& status) const {
    if (status.ok()) return;
    if (status.IsOutOfMemory()) decoder_.refuse_size();
    throw UserError(
        fmt::format("{}: cannot be read as Parquet: {}", file_.string(), config::shown(status.ToString())));
  }

  template <class T>
  T checked(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  fs::path file_;
  std::int64_t most_bytes_;
  ParquetDecoder decoder_;
  arrow::ProxyMemoryPool counted_{arrow::default_memory_pool()};
  arrow::CappedMemoryPool pool_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

}  // namespace

void read_parquet(const fs::path& file, const TakeRows& take) {
  ParquetFile parquet(file);
  std::int64_t number = 0;  // row number from 1, used as the line number
  read_by_block(take, [&](RowBlock& block) {
    while (const std::shared_ptr<arrow::RecordBatch> batch = parquet.next())
      for (std::int64_t row = 0; row < batch->num_rows(); ++row)
        if (!block.add(++number, [&] { return parquet.decoder().row_of(*batch, row); })) return;
  });
}

}  // namespace dpo::data
