#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>

#include "base/error.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/rows.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

void check(const arrow::Status& status, const fs::path& file) {
  if (!status.ok())
    throw UserError(
        fmt::format("{}: cannot be read as Parquet: {}", file.string(), config::shown(status.ToString())));
}

template <class T>
T checked(arrow::Result<T> result, const fs::path& file) {
  check(result.status(), file);
  return std::move(result).ValueUnsafe();
}

Value text_value(std::string_view view) {
  if (!is_valid_utf8(view)) throw BadRow("invalid UTF-8");
  return Value::of(std::string(view));
}

Value value_at(const arrow::Array& array, std::int64_t row);

template <class ListArray>
Value list_at(const arrow::Array& array, std::int64_t row) {
  const auto& list = static_cast<const ListArray&>(array);
  Value value;
  value.kind = Value::Kind::List;
  for (std::int64_t i = list.value_offset(row); i < list.value_offset(row) + list.value_length(row); ++i)
    value.items.push_back(value_at(*list.values(), i));
  return value;
}

Value struct_at(const arrow::Array& array, std::int64_t row) {
  const auto& record = static_cast<const arrow::StructArray&>(array);
  Value value;
  value.kind = Value::Kind::Map;
  for (int i = 0; i < record.num_fields(); ++i) {
    const std::string& name = record.struct_type()->field(i)->name();
    if (record.field(i)->IsNull(row) && name != "content") continue;  // of messages with different keys
    value.names.push_back(name);
    value.items.push_back(value_at(*record.field(i), row));
  }
  return value;
}

template <class Array>
Value number_at(const arrow::Array& array, std::int64_t row) {
  const auto number = static_cast<const Array&>(array).Value(row);
  if constexpr (std::is_integral_v<decltype(number)>)
    return Value::of(static_cast<double>(number), std::to_string(number));
  else
    return Value::of(static_cast<double>(number));
}

Value value_at(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) return {};
  switch (array.type_id()) {
    case arrow::Type::STRING: return text_value(static_cast<const arrow::StringArray&>(array).GetView(row));
    case arrow::Type::LARGE_STRING:
      return text_value(static_cast<const arrow::LargeStringArray&>(array).GetView(row));
    case arrow::Type::BOOL: return Value::of_flag(static_cast<const arrow::BooleanArray&>(array).Value(row));
    case arrow::Type::INT8: return number_at<arrow::Int8Array>(array, row);
    case arrow::Type::INT16: return number_at<arrow::Int16Array>(array, row);
    case arrow::Type::INT32: return number_at<arrow::Int32Array>(array, row);
    case arrow::Type::INT64: return number_at<arrow::Int64Array>(array, row);
    case arrow::Type::UINT8: return number_at<arrow::UInt8Array>(array, row);
    case arrow::Type::UINT16: return number_at<arrow::UInt16Array>(array, row);
    case arrow::Type::UINT32: return number_at<arrow::UInt32Array>(array, row);
    case arrow::Type::UINT64: return number_at<arrow::UInt64Array>(array, row);
    case arrow::Type::FLOAT: return number_at<arrow::FloatArray>(array, row);
    case arrow::Type::DOUBLE: return number_at<arrow::DoubleArray>(array, row);
    case arrow::Type::LIST: return list_at<arrow::ListArray>(array, row);
    case arrow::Type::LARGE_LIST: return list_at<arrow::LargeListArray>(array, row);
    case arrow::Type::STRUCT: return struct_at(array, row);
    default: return {};  // a date or an image: not part of an example
  }
}

Value row_of(const arrow::RecordBatch& batch, std::int64_t row) {
  Value value;
  value.kind = Value::Kind::Map;
  for (int i = 0; i < batch.num_columns(); ++i) {
    value.names.push_back(batch.schema()->field(i)->name());
    value.items.push_back(value_at(*batch.column(i), row));
  }
  return value;
}

}  // namespace

void read_parquet(const fs::path& file, const TakeRows& take) {
  constexpr std::int64_t kRowsAtOnce = 1024;
  const auto input = checked(arrow::io::ReadableFile::Open(file.string()), file);
  auto reader = checked(parquet::arrow::OpenFile(input, arrow::default_memory_pool()), file);
  reader->set_batch_size(kRowsAtOnce);
  const auto batches = checked(reader->GetRecordBatchReader(), file);
  std::int64_t number = 0;  // in place of a line number, from 1
  read_by_block(take, [&](RowBlock& block) {
    while (const std::shared_ptr<arrow::RecordBatch> batch = checked(batches->Next(), file))
      for (std::int64_t row = 0; row < batch->num_rows(); ++row)
        if (!block.add(++number, [&] { return row_of(*batch, row); })) return;
  });
}

}  // namespace dpo::data
