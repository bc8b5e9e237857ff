// An input is data that another process sends to the watchdog of a rank, or the variables of a launcher.
#include "comm/launch.h"
#include "comm/messages.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::ranks {
namespace {

using namespace dpo::comm;

// Messages are equal whether they arrive in pieces or whole, and are read back as they are written.
bool try_messages(std::string_view input) {
  MessageReader whole, by_pieces;
  std::string lines, lines_of_pieces;
  for (const Message& message : whole.add(input)) lines += line_of(message);
  const std::size_t piece = 1 + input.size() % 7;
  for (std::size_t at = 0; at < input.size(); at += piece)
    for (const Message& message : by_pieces.add(input.substr(at, piece))) lines_of_pieces += line_of(message);
  if (lines != lines_of_pieces) fail("pieces give different messages", lines + lines_of_pieces);
  std::string again;
  for (const Message& message : MessageReader().add(lines)) again += line_of(message);
  if (again != lines) fail("messages differ after being written and read again", lines + again);
  return !lines.empty();
}

bool try_launch(std::string_view input) {
  Environment environment;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size()), equals = std::min(input.find('='), end);
    environment.emplace(input.substr(0, equals),
                        input.substr(std::min(equals + 1, end), end - std::min(equals + 1, end)));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  Launch launch;
  if (!accepts([&] { launch = read_launch(environment); }, check_some_message)) return false;
  if (launch.rank < 0 || launch.rank >= launch.size) fail("rank out of range");
  return true;
}

const std::string kLines[] = {
    line_of({.kind = Message::Kind::heartbeat, .progress = {1234567, 89}}),
    line_of({.kind = Message::Kind::hello, .rank = 3, .nonce = "1234"}),
    line_of({.kind = Message::Kind::challenge, .nonce = "1234", .proof = "abcd"}),
    line_of({.kind = Message::Kind::answer, .proof = "abcd"}),
    line_of({.kind = Message::Kind::welcome}),
    line_of({.kind = Message::Kind::goodbye}),
    line_of({.kind = Message::Kind::failed, .failure = {2, "host", 77, "out of \"memory\"\n", true, 2}}),
    line_of({.kind = Message::Kind::abort, .failure = {0, "é", 1, "exited", false, 143}}),
};
const std::string kVariables[] = {
    "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=29500\n",
    "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\nPMIX_RANK=0\n",
    "SLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=2\nSLURM_LOCALID=1\n",
    "TORCHELASTIC_RUN_ID=x\nTORCHELASTIC_RESTART_COUNT=1\nTORCHELASTIC_USE_AGENT_STORE=True\n",
};
const Tokens kTokens = json_tokens(
    {"4294967297", "\"kind\": ", "\"rank\": ", "\"token\": ", "\"what\": ", "=", "0x1", "+1", "2147483648"});

template <const auto& kSeeds>
std::string make(Mutator& mutator) {
  std::string text;
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n) text += mutator.pick(kSeeds);
  if (mutator.below(3) == 0) mutator.change_number(text);
  mutator.mutate(text, kTokens, 4);
  if (mutator.below(500) == 0) text.insert(mutator.below(text.size() + 1), std::string(300'000, 'x'));
  return text;
}

const Registered kMessages({"messages", make<kLines>, try_messages});
const Registered kLaunch({"launch", make<kVariables>, try_launch});

}  // namespace
}  // namespace fuzz::ranks
