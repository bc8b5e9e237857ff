// Decodes the Arrow arrays of Parquet files into values.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <filesystem>

#include "data/rows.h"

namespace dpo::data {

// Decodes the rows of one file. A dictionary of one long text and a run of a billion rows fit into a few
// bytes, so the size of all decoded values is limited in proportion to the size of the file.
class ParquetDecoder {
 public:
  // Returns the limit for a file of this size, in bytes. It applies to all values together and to those
  // decoded at once.
  static std::int64_t most_bytes(std::uintmax_t file_size);

  ParquetDecoder(const std::filesystem::path& file, std::int64_t most_bytes)
      : file_(file), most_bytes_(most_bytes) {}

  // Returns a Map of all columns. A value that cannot be part of an example becomes an Other. Throws BadRow
  // for text that is not UTF-8, and a UserError if the file exceeds its limit.
  Value row_of(const arrow::RecordBatch& batch, std::int64_t row);

  [[noreturn]] void refuse_size() const;

 private:
  Value column_at(const arrow::Array& array, std::int64_t row);
  Value value_at(const arrow::Array& array, std::int64_t row);
  Value text_value(std::string_view view);
  Value bytes_value(const arrow::Array& array, std::string_view view);
  template <class Array>
  Value number_at(const arrow::Array& array, std::int64_t row);
  template <class Array>
  Value decimal_at(const arrow::Array& array, std::int64_t row);
  template <class ListArray>
  Value list_at(const arrow::Array& array, std::int64_t row);
  Value struct_at(const arrow::Array& array, std::int64_t row);
  Value map_at(const arrow::Array& array, std::int64_t row);
  Value item_of_dictionary(const arrow::Array& array, std::int64_t row);
  void charge(std::size_t bytes);

  std::filesystem::path file_;
  std::int64_t most_bytes_, bytes_ = 0;
  std::size_t column_bytes_ = 0;
};

}  // namespace dpo::data
