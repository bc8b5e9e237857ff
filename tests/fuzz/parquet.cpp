// An input is a Parquet file. Arrow reads it and is not instrumented, so this finds wrong rows, crashes,
// leaks, and writes outside of Arrow's memory.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>

#include "rows.h"
#include "target.h"

namespace fuzz::parquet {
namespace {

using namespace std::string_literals;

// Arrow allocates with malloc, which the sanitizers watch.
[[maybe_unused]] const int kPool = setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);

bool try_input(std::string_view input) { return rows::try_reader(dpo::data::read_parquet, input); }

template <class Builder, class Value>
std::shared_ptr<arrow::Array> column(const std::vector<Value>& values) {
  Builder builder;
  for (const Value& value : values)
    if (!builder.Append(value).ok()) fail("Append");
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> lists() {
  auto texts = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), texts);
  for (int row = 0; row < 3; ++row) {
    if (!builder.Append().ok()) fail("Append");
    for (int i = 0; i < 2 + row; ++i)
      if (!texts->Append("r" + std::to_string(i)).ok()) fail("Append");
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> records() {
  return arrow::StructArray::Make({column<arrow::StringBuilder>(std::vector<std::string>{"user", "a", "b"}),
                                   column<arrow::DoubleBuilder>(std::vector<double>{1, 2, 3})},
                                  {"role"s, "content"s})
      .ValueOrDie();
}

// Returns unusual columns that are read as text and numbers: a dictionary, bytes, a decimal, a time and a
// map.
std::shared_ptr<arrow::Table> odd_columns(const std::shared_ptr<arrow::Array>& texts) {
  const auto cast_of = [](const std::shared_ptr<arrow::Array>& array, const auto& type) {
    return arrow::MakeArray(array->data()->Copy())->View(type).ValueOrDie();
  };
  const auto numbers = column<arrow::Int64Builder>(std::vector<std::int64_t>{1, -2, 3});
  const auto indices = column<arrow::Int32Builder>(std::vector<int>{0, 1, 0});
  const auto offsets = column<arrow::Int32Builder>(std::vector<int>{0, 1, 2, 3});
  const auto coded = arrow::DictionaryArray::FromArrays(indices, texts).ValueOrDie();
  const auto map = arrow::MapArray::FromArrays(offsets, texts, numbers).ValueOrDie();
  return arrow::Table::Make(
      arrow::schema({arrow::field("prompt", coded->type()), arrow::field("chosen", arrow::binary()),
                     arrow::field("rejected", arrow::timestamp(arrow::TimeUnit::MICRO)),
                     arrow::field("map", map->type())}),
      {coded, cast_of(texts, arrow::binary()), cast_of(numbers, arrow::timestamp(arrow::TimeUnit::MICRO)),
       map});
}

std::string file_of(const std::shared_ptr<arrow::Table>& table, arrow::Compression::type compression,
                    bool dictionary) {
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  ::parquet::WriterProperties::Builder properties;
  properties.compression(compression);
  if (!dictionary) properties.disable_dictionary();
  const auto stored = ::parquet::ArrowWriterProperties::Builder().store_schema()->build();
  if (!::parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 2, properties.build(), stored)
           .ok())
    fail("WriteTable");
  return sink->Finish().ValueOrDie()->ToString();
}

std::vector<std::string> seeds() {
  const auto texts = [](const std::string& word) {
    return column<arrow::StringBuilder>(std::vector<std::string>{word, word + " é", word});
  };
  const auto pairs = arrow::Table::Make(
      arrow::schema({arrow::field("prompt", arrow::utf8()), arrow::field("chosen", arrow::utf8()),
                     arrow::field("rejected", arrow::utf8()), arrow::field("n", arrow::int32())}),
      {texts("q"), texts("a"), texts("b"), column<arrow::Int32Builder>(std::vector<int>{1, 2, 3})});
  const auto nested = arrow::Table::Make(arrow::schema({arrow::field("prompt", arrow::utf8()),
                                                        arrow::field("responses", arrow::list(arrow::utf8())),
                                                        arrow::field("turns", records()->type())}),
                                         {texts("q"), lists(), records()});
  std::vector<std::string> files;
  for (const auto& table : {pairs, nested, odd_columns(texts("q"))})
    for (const bool dictionary : {false, true}) {
      files.push_back(file_of(table, arrow::Compression::UNCOMPRESSED, dictionary));
      files.push_back(file_of(table, arrow::Compression::ZSTD, dictionary));
    }
  return files;
}

const std::string kTokens[] = {"PAR1",
                               "\0"s,
                               "\1",
                               "\x15\x04",
                               "\x15\xff\xff\xff\xff\x0f",
                               "\x19\x1c",
                               "\x7f",
                               "\xff",
                               "\xff\xff\xff\xff",
                               "\0\0\0\0"s,
                               "\x80\x80\x80\x80\x08",
                               "\2\0\0\0"s};

std::string make(Mutator& mutator) {
  static const std::vector<std::string> kSeeds = seeds();
  std::string file = mutator.pick(kSeeds);
  if (mutator.below(2) == 0) {
    mutator.mutate(file, kTokens, 4);
    return file;
  }
  // Bytes are changed in place, so that the footer's offsets stay right.
  for (std::size_t rounds = mutator.below(5); rounds > 0; --rounds)
    file[mutator.below(file.size())] = static_cast<char>(mutator.below(256));
  return file;
}

const Registered kTarget({"parquet", make, try_input});

}  // namespace
}  // namespace fuzz::parquet
