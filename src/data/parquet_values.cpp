#include "data/parquet_values.h"

#include <arrow/api.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "config/text.h"

namespace dpo::data {
namespace {

constexpr std::size_t kBytesOfValue = 16;  // [bytes] counted for each value, however short it is

// Thrown for a value of one column that exceeds the longest row.
struct TooLong {};

Value other_of_type(const arrow::Array& array, std::string_view what) {
  return Value::of_other(fmt::format("{} (type {})", what, config::shown(array.type()->ToString())));
}

// Formats a date or a time: 2024-01-02, 03:04:05, 2024-01-02 03:04:05. A fraction of zeros is left out.
std::string time_text(const arrow::Array& array, std::int64_t row) {
  const auto scalar = array.GetScalar(row);
  if (!scalar.ok()) throw BadRow(config::shown(scalar.status().ToString()));
  std::string text = (*scalar)->ToString();
  const std::size_t point = text.find('.');
  if (point == text.npos) return text;
  const std::size_t end = std::min(text.find_first_not_of('0', point + 1), text.size());
  const bool is_digit = end < text.size() && text[end] >= '1' && text[end] <= '9';
  return is_digit ? text : text.erase(point, end - point);
}

}  // namespace

std::int64_t ParquetDecoder::most_bytes(std::uintmax_t file_size) {
  // Texts are usually compressed to a tenth of their size, and repeated ones to a few hundredths.
  constexpr std::uintmax_t kMostExpansion = 1000, kAlways = 256u << 20;
  constexpr std::uintmax_t kLargestFile = std::numeric_limits<std::int64_t>::max() / kMostExpansion;
  return static_cast<std::int64_t>(std::max(kAlways, kMostExpansion * std::min(file_size, kLargestFile)));
}

void ParquetDecoder::refuse_size() const {
  throw UserError(fmt::format(
      "{}: decodes to more than {}, which is far more than its size explains: a few values are repeated very "
      "often, or the file is damaged; if this is what you want, write it as JSON lines",
      file_.string(), memory_size(static_cast<double>(most_bytes_))));
}

void ParquetDecoder::charge(std::size_t bytes) {
  bytes_ += static_cast<std::int64_t>(bytes);
  if (bytes_ > most_bytes_) refuse_size();
  column_bytes_ += bytes;
  if (column_bytes_ > kLongestRow) throw TooLong();
}

Value ParquetDecoder::text_value(std::string_view view) {
  charge(view.size());
  if (!is_valid_utf8(view)) throw BadRow("invalid UTF-8");
  return Value::of(std::string(view));
}

// Decodes bytes as text, because some programs write texts as bytes. Bytes that are not UTF-8, such as an
// image, become an Other.
Value ParquetDecoder::bytes_value(const arrow::Array& array, std::string_view view) {
  if (!is_valid_utf8(view)) return other_of_type(array, "bytes that are not UTF-8 text");
  return text_value(view);
}

template <class Array>
Value ParquetDecoder::number_at(const arrow::Array& array, std::int64_t row) {
  const auto number = static_cast<const Array&>(array).Value(row);
  if constexpr (std::is_same_v<Array, arrow::HalfFloatArray>)
    return Value::of(static_cast<double>(arrow::util::Float16::FromBits(number).ToFloat()));
  else if constexpr (std::is_integral_v<decltype(number)>)
    return Value::of(static_cast<double>(number), std::to_string(number));
  else
    return Value::of(static_cast<double>(number));
}

template <class Array>
Value ParquetDecoder::decimal_at(const arrow::Array& array, std::int64_t row) {
  const std::string digits = static_cast<const Array&>(array).FormatValue(row);
  double number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return Value::of(number, digits);
}

template <class ListArray>
Value ParquetDecoder::list_at(const arrow::Array& array, std::int64_t row) {
  const auto& list = static_cast<const ListArray&>(array);
  Value value;
  value.kind = Value::Kind::List;
  const std::int64_t begin = list.value_offset(row), end = begin + list.value_length(row);
  for (std::int64_t i = begin; i < end; ++i) value.items.push_back(value_at(*list.values(), i));
  return value;
}

Value ParquetDecoder::struct_at(const arrow::Array& array, std::int64_t row) {
  const auto& record = static_cast<const arrow::StructArray&>(array);
  Value value;
  value.kind = Value::Kind::Map;
  for (int i = 0; i < record.num_fields(); ++i) {
    const std::string& name = record.struct_type()->field(i)->name();
    if (record.field(i)->IsNull(row) && name != "content") continue;  // in messages with different keys
    value.names.push_back(name);
    value.items.push_back(value_at(*record.field(i), row));
  }
  return value;
}

// Decodes a map with text keys as an object, as in JSON.
Value ParquetDecoder::map_at(const arrow::Array& array, std::int64_t row) {
  const auto& map = static_cast<const arrow::MapArray&>(array);
  Value value;
  value.kind = Value::Kind::Map;
  const std::int64_t begin = map.value_offset(row), end = begin + map.value_length(row);
  for (std::int64_t i = begin; i < end; ++i) {
    Value key = value_at(*map.keys(), i);
    if (key.kind != Value::Kind::Text) return other_of_type(array, "a map whose keys are not texts");
    value.names.push_back(std::move(key.text));
    value.items.push_back(value_at(*map.items(), i));
  }
  return value;
}

Value ParquetDecoder::item_of_dictionary(const arrow::Array& array, std::int64_t row) {
  const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
  const std::int64_t index = coded.GetValueIndex(row);
  if (index < 0 || index >= coded.dictionary()->length())
    throw BadRow(fmt::format("value {} of a dictionary of {}", index, coded.dictionary()->length()));
  return value_at(*coded.dictionary(), index);
}

Value ParquetDecoder::value_at(const arrow::Array& array, std::int64_t row) {
  using arrow::Type;
  charge(kBytesOfValue);
  if (array.IsNull(row)) return {};
  switch (array.type_id()) {
    case Type::STRING: return text_value(static_cast<const arrow::StringArray&>(array).GetView(row));
    case Type::LARGE_STRING:
      return text_value(static_cast<const arrow::LargeStringArray&>(array).GetView(row));
    case Type::STRING_VIEW: return text_value(static_cast<const arrow::StringViewArray&>(array).GetView(row));
    case Type::BINARY: return bytes_value(array, static_cast<const arrow::BinaryArray&>(array).GetView(row));
    case Type::LARGE_BINARY:
      return bytes_value(array, static_cast<const arrow::LargeBinaryArray&>(array).GetView(row));
    case Type::BINARY_VIEW:
      return bytes_value(array, static_cast<const arrow::BinaryViewArray&>(array).GetView(row));
    case Type::FIXED_SIZE_BINARY:
      return bytes_value(array, static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(row));
    case Type::BOOL: return Value::of_flag(static_cast<const arrow::BooleanArray&>(array).Value(row));
    case Type::INT8: return number_at<arrow::Int8Array>(array, row);
    case Type::INT16: return number_at<arrow::Int16Array>(array, row);
    case Type::INT32: return number_at<arrow::Int32Array>(array, row);
    case Type::INT64: return number_at<arrow::Int64Array>(array, row);
    case Type::UINT8: return number_at<arrow::UInt8Array>(array, row);
    case Type::UINT16: return number_at<arrow::UInt16Array>(array, row);
    case Type::UINT32: return number_at<arrow::UInt32Array>(array, row);
    case Type::UINT64: return number_at<arrow::UInt64Array>(array, row);
    case Type::HALF_FLOAT: return number_at<arrow::HalfFloatArray>(array, row);
    case Type::FLOAT: return number_at<arrow::FloatArray>(array, row);
    case Type::DOUBLE: return number_at<arrow::DoubleArray>(array, row);
    case Type::DECIMAL32: return decimal_at<arrow::Decimal32Array>(array, row);
    case Type::DECIMAL64: return decimal_at<arrow::Decimal64Array>(array, row);
    case Type::DECIMAL128: return decimal_at<arrow::Decimal128Array>(array, row);
    case Type::DECIMAL256: return decimal_at<arrow::Decimal256Array>(array, row);
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIME32:
    case Type::TIME64:
    case Type::TIMESTAMP: return Value::of(time_text(array, row));
    case Type::LIST: return list_at<arrow::ListArray>(array, row);
    case Type::LARGE_LIST: return list_at<arrow::LargeListArray>(array, row);
    case Type::FIXED_SIZE_LIST: return list_at<arrow::FixedSizeListArray>(array, row);
    case Type::LIST_VIEW: return list_at<arrow::ListViewArray>(array, row);
    case Type::LARGE_LIST_VIEW: return list_at<arrow::LargeListViewArray>(array, row);
    case Type::STRUCT: return struct_at(array, row);
    case Type::MAP: return map_at(array, row);
    case Type::DICTIONARY: return item_of_dictionary(array, row);
    case Type::EXTENSION: return value_at(*static_cast<const arrow::ExtensionArray&>(array).storage(), row);
    default: return other_of_type(array, "a value that is not text, a number, a list or an object");
  }
}

// Decodes a column. A value that is too long becomes an Other, since the column may not be used by an
// example.
Value ParquetDecoder::column_at(const arrow::Array& array, std::int64_t row) {
  column_bytes_ = 0;
  try {
    return value_at(array, row);
  } catch (const TooLong&) {
    return other_of_type(array, fmt::format("a value of more than {} bytes", kLongestRow));
  }
}

Value ParquetDecoder::row_of(const arrow::RecordBatch& batch, std::int64_t row) {
  Value value;
  value.kind = Value::Kind::Map;
  for (int i = 0; i < batch.num_columns(); ++i) {
    value.names.push_back(batch.schema()->field(i)->name());
    value.items.push_back(column_at(*batch.column(i), row));
  }
  return value;
}

}  // namespace dpo::data
