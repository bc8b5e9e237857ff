#include "base/error.h"
#include "comm/backends.h"

namespace dpo::comm {
namespace {

[[noreturn]] void refuse() {
  throw UserError(
      "several processes with a GPU each need NCCL, and this dpo was built without it; "
      "install NCCL's headers (libnccl-dev), then ./run build ('dpo doctor' shows what is missing)");
}

}  // namespace

bool has_nccl() { return false; }

std::shared_ptr<Group> nccl_group(const Rendezvous&, int, int, const NcclSettings&) { refuse(); }

std::shared_ptr<Group> nccl_group(const World&, const NcclSettings&) { refuse(); }

std::string gpu_identity(int) { refuse(); }

}  // namespace dpo::comm
