#include "config/choices.h"

namespace dpo::config {

// These switches have no `default`, so that the compiler reports a value without a name. A number beyond the
// last value returns "", which ends all_choices().

std::string name_of(Defaults defaults) {
  switch (defaults) {
    case Defaults::original: return "original";
    case Defaults::modern: return "modern";
  }
  return "";
}

std::string name_of(Trainer trainer) {
  switch (trainer) {
    case Trainer::Basic: return "BasicTrainer";
    case Trainer::Fsdp: return "FSDPTrainer";
    case Trainer::TensorParallel: return "TensorParallelTrainer";
  }
  return "";
}

std::string name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::RMSprop: return "RMSprop";
    case Optimizer::Adam: return "Adam";
    case Optimizer::AdamW: return "AdamW";
    case Optimizer::SGD: return "SGD";
    case Optimizer::Adafactor: return "Adafactor";
  }
  return "";
}

std::string name_of(OptimizerState state) {
  switch (state) {
    case OptimizerState::float32: return "float32";
    case OptimizerState::bfloat16: return "bfloat16";
    case OptimizerState::eight_bit: return "8bit";
  }
  return "";
}

std::string name_of(Offload offload) {
  switch (offload) {
    case Offload::none: return "none";
    case Offload::optimizer: return "optimizer";
    case Offload::reference: return "reference";
    case Offload::both: return "both";
  }
  return "";
}

std::string name_of(BaseDtype dtype) {
  switch (dtype) {
    case BaseDtype::nf4: return "nf4";
    case BaseDtype::int8: return "int8";
    case BaseDtype::fp8: return "fp8";
  }
  return "";
}

std::string name_of(Adapter adapter) {
  switch (adapter) {
    case Adapter::none: return "none";
    case Adapter::lora: return "lora";
  }
  return "";
}

std::string name_of(TrainOn train_on) {
  switch (train_on) {
    case TrainOn::assistant: return "assistant";
    case TrainOn::last: return "last";
  }
  return "";
}

std::string name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::constant: return "constant";
    case Schedule::linear: return "linear";
    case Schedule::cosine: return "cosine";
  }
  return "";
}

std::string name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32: return "float32";
    case Dtype::bfloat16: return "bfloat16";
    case Dtype::float16: return "float16";
    case Dtype::automatic: return "auto";
  }
  return "";
}

std::string name_of(ReferenceScoring scoring) {
  switch (scoring) {
    case ReferenceScoring::automatic: return "auto";
    case ReferenceScoring::live: return "live";
    case ReferenceScoring::cached: return "cached";
  }
  return "";
}

std::string name_of(Sampling sampling) {
  switch (sampling) {
    case Sampling::automatic: return "auto";
    case Sampling::whole: return "true";
    case Sampling::none: return "false";
  }
  return "";
}

std::string name_of(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::sharded: return "sharded";
    case Accumulation::whole: return "whole";
  }
  return "";
}

std::string name_of(Reshard reshard) {
  switch (reshard) {
    case Reshard::pass: return "pass";
    case Reshard::update: return "update";
    case Reshard::never: return "never";
  }
  return "";
}

std::string name_of(BestMetric metric) {
  switch (metric) {
    case BestMetric::loss: return "loss/eval";
    case BestMetric::accuracies: return "rewards_eval/accuracies";
    case BestMetric::margins: return "rewards_eval/margins";
    case BestMetric::chosen: return "rewards_eval/chosen";
  }
  return "";
}

std::string name_of(Divergence divergence) {
  switch (divergence) {
    case Divergence::reverse_kl: return "reverse_kl";
    case Divergence::forward_kl: return "forward_kl";
    case Divergence::js: return "js";
  }
  return "";
}

std::string name_of(BadRowPolicy policy) {
  switch (policy) {
    case BadRowPolicy::fail: return "fail";
    case BadRowPolicy::skip: return "skip";
  }
  return "";
}

std::string name_of(BadExamplePolicy policy) {
  switch (policy) {
    case BadExamplePolicy::keep: return "keep";
    case BadExamplePolicy::drop: return "drop";
    case BadExamplePolicy::fail: return "fail";
  }
  return "";
}

}  // namespace dpo::config
