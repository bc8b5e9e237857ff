"""Adds attn_implementation="packed" to transformers' models: PyTorch's flash attention over packed sequences, without
padding."""

import transformers
from torch.nn.attention.varlen import varlen_attn

current = None  # (int32 sequence starts followed by the end of the last one, longest length)


def attention(module, query, key, value, attention_mask, scaling=None, **more):
    """Attends within each sequence; query, key and value are [1, heads, tokens, size] of all sequences."""
    del attention_mask, more
    q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))  # autocast leaves rotary float32
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    starts, longest = current
    out = varlen_attn(q, k, v, starts, starts, longest, longest, scale=scaling, window_size=(-1, 0))
    return out[None], None


transformers.AttentionInterface.register("packed", attention)
transformers.AttentionMaskInterface.register("packed", lambda *_, **__: None)
