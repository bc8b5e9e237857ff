#pragma once

#include <vector>

#include "comm/group.h"
#include "model/tables/layout.h"
#include "model/weights.h"

namespace dpo::optim {

// The L2 norm of all gradients together. `gradients` are this rank's; `ranks` together hold the whole model,
// each as its layout says. What several of them hold counts once.
double gradient_norm(const model::Weights& gradients, const model::TensorTable& table,
                     const model::Layout& layout, comm::Group& ranks);

// The same of blocks one after the other: the norm of each, where it is, and of all of them.
at::Tensor block_norm(const at::Tensor& gradients);
double norm_of_all(const std::vector<at::Tensor>& norms);

// What gradients are multiplied by so that their norm is at most `max_norm`, as in
// torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);

}  // namespace dpo::optim
