#pragma once

namespace dpo::ops {

// Ends the process with what was printed written, but without the destructors of global objects: LibTorch's,
// run beside some CUDA libraries, abort after all work is done.
[[noreturn]] void leave_process(int exit_code);

}  // namespace dpo::ops
