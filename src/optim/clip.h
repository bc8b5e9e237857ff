#pragma once

#include "comm/group.h"
#include "model/tables/layout.h"
#include "model/weights.h"

namespace dpo::optim {

// The L2 norm of all gradients together. `gradients` are this rank's; `ranks` together hold the whole model,
// each as its layout says. What several of them hold counts once.
double gradient_norm(const model::Weights& gradients, const model::TensorTable& table,
                     const model::Layout& layout, comm::Group& ranks);

// What gradients are multiplied by so that their norm is at most `max_norm`, as in
// torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);

}  // namespace dpo::optim
