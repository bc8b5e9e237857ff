#include "base/error.h"
#include "comm/bodies.h"

namespace dpo::comm {
namespace {

[[noreturn]] void refuse() {
  throw UserError("this dpo was built without NCCL, over which processes with a GPU each talk");
}

}  // namespace

bool has_nccl() { return false; }

std::shared_ptr<Group> nccl_group(const Meeting&, int, int, int) { refuse(); }

std::shared_ptr<Group> nccl_group(const World&, int) { refuse(); }

std::string gpu_identity(int) { refuse(); }

}  // namespace dpo::comm
