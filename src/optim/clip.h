#pragma once

#include <vector>

#include "comm/group.h"
#include "model/spec/layout.h"
#include "model/weights.h"

namespace dpo::optim {

// Returns the L2 norm of all gradients together. `gradients` are this rank's; `ranks` together hold the whole
// model, each as its layout says. An element that several ranks hold counts once.
double gradient_norm(const model::Weights& gradients, const model::TensorTable& table,
                     const model::Layout& layout, comm::Group& ranks);

// Return the norm of one block's gradients, on their device, and the norm of all blocks from theirs.
at::Tensor block_norm(const at::Tensor& gradients);
double norm_of_all(const std::vector<at::Tensor>& norms);

// Returns the factor that reduces gradients of this norm to at most `max_norm`, as in
// torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);

}  // namespace dpo::optim
