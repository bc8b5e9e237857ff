"""Code shared by the Python peers of compare/cpu.py and compare/gpu.py: the loss, padded batches, and float32 master
weights."""

import torch
import torch.nn.functional as F

BETA, LR = 0.1, 1e-8


def dpo_loss(policy, reference):
    """Returns the sum over pairs. The arguments are log-probabilities of all chosen responses, then of all rejected
    ones."""
    (c, r), (c0, r0) = policy.chunk(2), reference.chunk(2)
    return -F.logsigmoid(BETA * ((c - r) - (c0 - r0))).sum()


def padded(rows, width=0):
    """Pads (prompt, response) token lists at their ends. Returns ids, attention mask, and a mask of the response
    tokens."""
    width = max(width, max(len(prompt) + len(response) for prompt, response in rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask, is_response = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for i, (prompt, response) in enumerate(rows):
        end = len(prompt) + len(response)
        ids[i, :end] = torch.tensor(prompt + response)
        mask[i, :end] = 1
        is_response[i, len(prompt):end] = True
    return ids, mask, is_response


def padded_log_probs(model, ids, mask, is_response):
    """Computes them as the original does: logits of all positions, log-softmax in float32."""
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].float()
    by_token = torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(2)
    return (by_token * is_response[:, 1:]).sum(-1)


def fused_adamw(weights, lr):
    return torch.optim.AdamW(weights, lr=lr, fused=True)


class MasterWeights:
    """Keeps float32 copies of a bfloat16 model's trained weights. AdamW updates them, and gradients of microbatches are
    summed there."""

    def __init__(self, model, optimizer=fused_adamw):
        self.computed = [p for p in model.parameters() if p.requires_grad]
        self.master = [p.detach().float() for p in self.computed]
        for p, m in zip(self.computed, self.master, strict=True):
            m.grad = torch.zeros_like(m)
            p.register_post_accumulate_grad_hook(self.summing_into(m.grad))
        self.optimizer = optimizer(self.master, lr=LR)

    @staticmethod
    def summing_into(total):
        def hook(parameter):
            total.add_(parameter.grad)
            parameter.grad = None
        return hook

    def update(self):
        torch.nn.utils.clip_grad_norm_(self.master, 10.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.computed, self.master)
            torch._foreach_zero_([m.grad for m in self.master])
