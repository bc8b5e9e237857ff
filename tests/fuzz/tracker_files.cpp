// One input is an event of TensorBoard, or a file of events, which a resumed run reads again.
#include <sstream>
#include <vector>

#include "target.h"
#include "track/framing.h"
#include "track/protobuf.h"

namespace fuzz::tracker_files {
namespace {

using namespace dpo::track;

void check_inside(std::string_view part, std::string_view whole) {
  if (!part.empty() &&
      (part.data() < whole.data() || part.data() + part.size() > whole.data() + whole.size()))
    fail("a part outside of the input");
}

bool try_record(std::string_view input) {
  const std::vector<Field> fields = fields_of(input);
  for (const Field& field : fields) check_inside(field.bytes, input);
  return !fields.empty();
}

bool try_file(std::string_view input) {
  std::istringstream bytes{std::string(input)};
  TfReader reader(bytes);
  std::string again, record;
  while (reader.next(record)) again += tf_record(record);
  if (!input.starts_with(again)) fail("written again, the records differ");
  return !again.empty();
}

const std::string kRecords[] = {
    Message().real(1, 1.5e9).number(2, 8).text(5, "values").bytes(),
    Message().text(3, "brain.Event:2").bytes(),
    Message().text(1, Message().text(1, "loss/train").real32(2, 0.5f).bytes()).bytes(),
};
const std::string kTokens[] = {"\x08", "\x12", "\x8a\x01", "\xff\xff\xff\xff\x0f", "\x7f"};

std::string make_record(Mutator& mutator) {
  std::string record = mutator.pick(kRecords);
  mutator.mutate(record, kTokens, 4);
  return record;
}

std::string make_file(Mutator& mutator) {
  std::string file;
  for (std::size_t i = mutator.below(4); i > 0; --i)
    file += tf_record(make_record(mutator) + std::string(mutator.below(40000), 'x'));
  if (mutator.below(2) == 0) mutator.mutate(file, kTokens, 2);
  return file;
}

const Registered kRecordTarget({"tracker_record", make_record, try_record});
const Registered kFileTarget({"tracker_file", make_file, try_file});

}  // namespace
}  // namespace fuzz::tracker_files
