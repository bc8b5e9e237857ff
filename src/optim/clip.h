#pragma once

#include "model/weights.h"

namespace dpo::optim {

// The Euclidean norm of all gradients together.
double gradient_norm(const model::Weights& gradients);

// Scales the gradients down so that their norm is at most `longest`, as torch.nn.utils.clip_grad_norm_ does.
void clip(model::Weights& gradients, double norm, double longest);

}  // namespace dpo::optim
