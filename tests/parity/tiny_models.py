"""Makes tiny random models of every family with transformers, for the tests of models and weights.

    folder = make("llama", Path("somewhere"))                  # config.json and model.safetensors
    make("gpt2", folder, tie_word_embeddings=False, dtype="bfloat16", seed=3)

All sizes of a model differ from each other where the family lets them, so that no dimension can stand for another.
"""

from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LLAMA_LIKE = {"hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 6,
              "num_key_value_heads": 2, "vocab_size": 131, "max_position_embeddings": 96,
              "bos_token_id": 1, "eos_token_id": 2}
GPT2_LIKE = {"n_embd": 48, "n_inner": 176, "n_layer": 3, "n_head": 4, "vocab_size": 131, "n_positions": 96,
             "bos_token_id": 1, "eos_token_id": 2}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, "original_max_position_embeddings": 24,
             "beta_fast": 4.0, "beta_slow": 1.0}

SETTINGS = {
    "gpt2": GPT2_LIKE,
    "gpt_neox": {"hidden_size": 48, "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4,
                 "vocab_size": 131, "max_position_embeddings": 96, "rotary_pct": 0.5,
                 "bos_token_id": 1, "eos_token_id": 2},
    "gptj": {**GPT2_LIKE, "rotary_dim": 8},
    "llama": {**LLAMA_LIKE, "rope_parameters": LLAMA3_ROPE},
    "mistral": {**LLAMA_LIKE, "head_dim": 12, "sliding_window": None},
    "qwen2": {**LLAMA_LIKE, "tie_word_embeddings": True},
    "qwen3": {**LLAMA_LIKE, "head_dim": 16},
    "gemma2": {**LLAMA_LIKE, "head_dim": 16, "query_pre_attn_scalar": 20, "sliding_window": 9, "pad_token_id": 0,
               "attn_logit_softcapping": 2.0, "final_logit_softcapping": 8.0},
    "gemma3_text": {**LLAMA_LIKE, "head_dim": 16, "query_pre_attn_scalar": 20, "sliding_window": 9, "pad_token_id": 0,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                    "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "phi3": {**LLAMA_LIKE, "pad_token_id": 0, "sliding_window": 20, "original_max_position_embeddings": 80,
             "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
                                 "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.5, 3.0, 5.0]}},
    "olmo2": {**LLAMA_LIKE, "pad_token_id": 0},
    "olmo3": {**LLAMA_LIKE, "pad_token_id": 0, "num_hidden_layers": 4, "sliding_window": 9,
              "rope_parameters": {"full_attention": YARN_ROPE, "sliding_attention": {"rope_type": "default",
                                                                                     "rope_theta": 5e5}}},
    "smollm3": {**LLAMA_LIKE, "pad_token_id": 0, "no_rope_layer_interval": 2},
    "granite": {**LLAMA_LIKE, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.2,
                "logits_scaling": 8.0},
    "cohere": {**LLAMA_LIKE, "pad_token_id": 0, "logit_scale": 0.5},
    "mixtral": {**LLAMA_LIKE, "num_local_experts": 5, "num_experts_per_tok": 2},
    "qwen3_moe": {**LLAMA_LIKE, "head_dim": 16, "moe_intermediate_size": 40, "num_experts": 7, "num_experts_per_tok": 3,
                  "norm_topk_prob": True},
    "olmoe": {**LLAMA_LIKE, "pad_token_id": 0, "num_experts": 7, "num_experts_per_tok": 3},
}
EXPERTS = {"mixtral": 5, "qwen3_moe": 7, "olmoe": 7}  # number of experts of the families that have them
FAMILIES = list(SETTINGS)


def config(family: str, **changes):
    """Returns the configuration of a tiny model, with `changes` to keys of its config.json."""
    return AutoConfig.for_model(family, **{**SETTINGS[family], **changes})


def model(family: str, seed: int = 0, dtype: str = "float32", **changes):
    """Returns a model with random values everywhere, also where a new model has zeros or ones."""
    torch.manual_seed(seed)
    # Not every attention of transformers supports soft caps, but "eager" does.
    made = AutoModelForCausalLM.from_config(config(family, **changes), attn_implementation="eager")
    with torch.no_grad():
        for parameter in made.parameters():
            centre = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(centre + 0.1 * torch.randn(parameter.shape))
    return made.to(getattr(torch, dtype)).eval()


def make(family: str, folder: Path, seed: int = 0, dtype: str = "float32", max_shard_size: str = "5GB",
         **changes) -> Path:
    """Saves a tiny model as transformers does. `changes` are keys of its config.json."""
    model(family, seed, dtype, **changes).save_pretrained(folder, max_shard_size=max_shard_size)
    return Path(folder)
