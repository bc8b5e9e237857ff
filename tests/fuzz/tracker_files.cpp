// One input is a record of a tracker's file, or such a file itself, which a resumed run reads again.
#include <sstream>
#include <vector>

#include "target.h"
#include "track/framing.h"
#include "track/protobuf.h"
#include "track/wandb_records.h"

namespace fuzz::tracker_files {
namespace {

using namespace dpo::track;

void check_inside(std::string_view part, std::string_view whole) {
  if (!part.empty() &&
      (part.data() < whole.data() || part.data() + part.size() > whole.data() + whole.size()))
    fail("a part outside of the input");
}

bool try_record(std::string_view input) {
  for (const Field& field : fields_of(input)) check_inside(field.bytes, input);
  is_our_header(input);
  read_run(input);
  const auto row = read_history(input);
  if (!row) return false;
  const std::string again = row_records(row->first, row->second).back();
  if (read_history(again) != row && !row->second.empty()) fail("read again, the row differs");
  return true;
}

template <class Reader>
std::vector<std::string> records_of(std::string_view file) {
  std::istringstream bytes{std::string(file)};
  Reader reader(bytes);
  std::vector<std::string> records;
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

bool try_file(std::string_view input) {
  const auto events = records_of<TfReader>(input);
  std::string file = wandb_header();
  const auto records = records_of<WandbReader>(input);
  for (const std::string& record : records) file += wandb_record(record, file.size());
  if (records_of<WandbReader>(file) != records) fail("written again, the records differ");
  return !events.empty() || !records.empty();
}

const std::string kRecords[] = {
    header_record(),
    run_record({"abcdefgh", 1.5e9}, {"name", "project", "team"}, R"({"lr": 0.5, "loss": {"beta": 0.1}})"),
    row_records(8, {{"loss/train", "0.5"}, {"samples", R"({"path": "media/table/a.json"})"}}).back(),
    exit_record(2, 100),
};
const std::string kTokens[] = {"\x08", "\x12", "\x8a\x01",      "\xff\xff\xff\xff\x0f",
                               "\x7f", ":W&B", "{\"path\": 1}", "{"};

std::string make_record(Mutator& mutator) {
  std::string record = mutator.pick(kRecords);
  mutator.mutate(record, kTokens, 4);
  return record;
}

std::string make_file(Mutator& mutator) {
  const bool wandb = mutator.below(2) == 0;
  std::string file = wandb ? wandb_header() : "";
  for (std::size_t i = mutator.below(4); i > 0; --i) {
    const std::string data = make_record(mutator) + std::string(mutator.below(40000), 'x');
    file += wandb ? wandb_record(data, file.size()) : tf_record(data);
  }
  if (mutator.below(2) == 0) mutator.mutate(file, kTokens, 2);
  return file;
}

const Registered kRecordTarget({"tracker_record", make_record, try_record});
const Registered kFileTarget({"tracker_file", make_file, try_file});

}  // namespace
}  // namespace fuzz::tracker_files
