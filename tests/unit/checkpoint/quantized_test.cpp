#include "checkpoint/quantized.h"

#include <functional>
#include <map>

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "model/quantized_block.h"
#include "ops/quantized_formats.h"
#include "unit/checkpoint/tiny.h"

namespace dpo::checkpoint {
namespace {

using namespace tiny;
using ops::QuantizedDtype, ops::QuantizedMatrix;

const std::string kNf4 =
    R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true})";
const std::string kInt8 = R"({"quant_method": "bitsandbytes", "load_in_8bit": true})";

std::string config_with(const std::string& quantization) {
  const std::string member = quantization.empty() ? "" : R"(, "quantization_config": )" + quantization;
  return R"({"model_type": "llama", "hidden_size": 40, "intermediate_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 13, "max_position_embeddings": 16,
      "initializer_range": 0.5)" +
         member + "}";
}

at::Tensor bytes_of_text(const std::string& text) {
  const at::Tensor bytes = at::zeros({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
  return bytes;
}

template <class Numbers>
at::Tensor floats(const Numbers& numbers) {
  return at::tensor(at::ArrayRef<float>(numbers), at::kFloat);
}

// A model in bitsandbytes' format, written from the format's definition. A test may change its tensors before
// they are written.
class Quantized : public FolderTest {
 protected:
  enum class Form { nested, plain, other_map, int8 };

  void make(Form form) {
    write("config.json", config_with(""));
    made_ = new_model(folder_, at::kBFloat16, at::kCPU, 7);
    write("config.json", config_with(form == Form::int8 ? kInt8 : kNf4));
    for (std::size_t i = 0; i < made_.table.blocks.size(); ++i)
      for (std::size_t j = 0; j < made_.table.blocks[i].tensors.size(); ++j)
        add(form, made_.table.blocks[i], made_.table.blocks[i].tensors[j],
            made_.weights.blocks[i].tensors[j].tensor);
  }

  // Returns true for the matrices of the model, except one that stays unquantized.
  static bool is_quantized(const model::Block& block, const model::TensorInfo& tensor) {
    return model::is_quantizable(block, tensor) && tensor.name != "model.layers.1.mlp.up_proj.weight";
  }

  void save() {
    std::vector<TensorToWrite> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back(source_of(name, tensor.scalar_type() == at::kChar ? tensor.view(at::kByte) : tensor));
      if (tensor.scalar_type() == at::kChar) sources.back().dtype = Dtype::I8;
    }
    write_safetensors(folder_ / "model.safetensors", sources);
  }

  // Returns the message with which a changed model is rejected.
  template <class Change>
  std::string refusal(Form form, const Change& change) {
    tensors_.clear();
    make(form);
    change(tensors_);
    save();
    return message_of([&] { load_model(folder_, at::kFloat, at::kCPU); });
  }

  // Returns the values by their definition.
  at::Tensor value_of(const std::string& name, const at::Tensor& unquantized, at::ScalarType type) const {
    const auto found = small_.find(name);
    if (found == small_.end()) return unquantized.to(type);
    at::Tensor values = at::zeros_like(unquantized, type);
    ops::dequantize(found->second, values);
    return values;
  }

  LoadedModel made_;
  std::map<std::string, at::Tensor> tensors_;  // in the file
  std::map<std::string, QuantizedMatrix> small_;

 private:
  void add(Form form, const model::Block& block, const model::TensorInfo& info, const at::Tensor& tensor) {
    if (!is_quantized(block, info)) {
      tensors_[info.name] = tensor;
      return;
    }
    const QuantizedMatrix matrix =
        ops::quantize(tensor, form == Form::int8 ? QuantizedDtype::int8 : QuantizedDtype::nf4);
    form == Form::int8 ? add_int8(info.name, matrix, tensor) : add_nf4(form, info.name, matrix, tensor);
  }

  void add_int8(const std::string& name, const QuantizedMatrix& matrix, const at::Tensor& like) {
    const std::string module = name.substr(0, name.rfind('.') + 1);
    tensors_[name] = matrix.codes.view(at::kChar).view(like.sizes());
    tensors_[module + "SCB"] = matrix.scales * 127;
    tensors_[module + "weight_format"] = at::zeros({}, at::kByte);
    small_[name] = {QuantizedDtype::int8, matrix.codes, matrix.scales * 127 * (1 / 127.0F)};
  }

  void add_nf4(Form form, const std::string& name, QuantizedMatrix matrix, const at::Tensor& like) {
    tensors_[name] = matrix.codes.view({-1, 1});
    tensors_[name + ".quant_map"] = floats(ops::Nf4Levels().values);
    std::string state =
        fmt::format(R"({{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [{}, {}])",
                    like.size(0), like.size(1));
    tensors_[name + ".absmax"] = matrix.scales;
    if (form == Form::plain) {
      matrix = {QuantizedDtype::nf4, matrix.codes, matrix.scales.to(at::kFloat) + 0.1F};
      tensors_[name + ".absmax"] = matrix.scales;
    } else {
      tensors_[name + ".nested_absmax"] = matrix.nested;
      tensors_[name + ".nested_quant_map"] = map_of(form);
      state += fmt::format(R"(, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": {})",
                           static_cast<double>(matrix.offset));
    }
    tensors_[name + ".quant_state.bitsandbytes__nf4"] = bytes_of_text(state + "}");
    if (form == Form::other_map) {
      const at::Tensor relative = map_of(form).index_select(0, matrix.scales.to(at::kInt));
      matrix = {QuantizedDtype::nf4, matrix.codes, relative * matrix.nested[0] + matrix.offset};
    }
    small_[name] = matrix;
  }

  static at::Tensor map_of(Form form) {
    const at::Tensor map = floats(ops::DynamicMap().values);
    return form == Form::other_map ? map * 1.5F : map;
  }
};

TEST_F(Quantized, HasTheValuesOfItsCodes) {
  for (const Form form : {Form::nested, Form::plain, Form::other_map, Form::int8}) {
    tensors_.clear(), small_.clear();
    make(form);
    save();
    ASSERT_EQ(small_.size(), 13u);
    EXPECT_EQ(stored_dtype(folder_), at::kBFloat16);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      std::int64_t done = 0, all = 0;
      const auto progress = [&](std::int64_t now, std::int64_t of) { done = now, all = of; };
      const LoadedModel loaded = load_model(folder_, type, at::kCPU, std::nullopt, progress);
      EXPECT_EQ(done, all);
      EXPECT_GT(all, 0);
      ASSERT_EQ(loaded.notes.size(), 1u);
      EXPECT_NE(loaded.notes[0].find("13 matrices are quantized by bitsandbytes"), std::string::npos);
      const auto got = tensors_of(loaded), given = tensors_of(made_);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(at::equal(got[i].second, value_of(got[i].first, given[i].second, type)))
            << static_cast<int>(form) << " " << got[i].first;
    }
  }
}

TEST_F(Quantized, ARankGetsItsPart) {
  make(Form::nested);
  save();
  const LoadedModel whole = load_model(folder_, at::kFloat, at::kCPU);
  for (std::int64_t tensors : {1, 2})
    for (std::int64_t shards : {1, 2, 3})
      for (std::int64_t rank = 0; rank < tensors * shards; ++rank) {
        const model::Layout layout{rank % tensors, tensors, rank / tensors, shards};
        const LoadedModel part = load_model(folder_, at::kFloat, at::kCPU, std::nullopt, {}, layout);
        for (std::size_t i = 0; i < part.table.blocks.size(); ++i) {
          const model::Block& block = part.table.blocks[i];
          at::Tensor wanted = at::zeros({model::local_block(block, layout).shard_size});
          for (const model::Piece& piece : model::pieces_of(block, layout))
            wanted.narrow(0, piece.to, piece.count)
                .copy_(whole.weights.blocks[i].tensors[piece.tensor].tensor.view({-1}).narrow(0, piece.from,
                                                                                              piece.count));
          EXPECT_TRUE(at::equal(part.weights.blocks[i].flat, wanted)) << i;
        }
      }
}

// The codes and scales in memory are those of the file, and unquantized tensors stay unchanged.
TEST_F(Quantized, StaysAsItIs) {
  for (const Form form : {Form::nested, Form::plain, Form::int8}) {
    tensors_.clear(), small_.clear();
    make(form);
    save();
    const LoadedModel values = load_model(folder_, at::kFloat, at::kCPU);
    const auto keep = [&](const model::Block& block, const model::BlockWeights& weights,
                          const model::StoredMatrices& stored) {
      EXPECT_EQ(stored.size(), block.tensors.size());
      for (std::size_t i = 0; i < stored.size(); ++i) {
        const auto found = small_.find(block.tensors[i].name);
        EXPECT_EQ(stored[i].has_value(), found != small_.end()) << block.tensors[i].name;
        if (!stored[i]) continue;
        EXPECT_TRUE(at::equal(stored[i]->codes, found->second.codes));
        EXPECT_TRUE(at::equal(stored[i]->scales, found->second.scales));
        EXPECT_EQ(stored[i]->nested.defined(), form == Form::nested);
        EXPECT_EQ(stored[i]->offset, found->second.offset);
      }
      return model::quantize(weights, block, QuantizedDtype::nf4, {}, stored);
    };
    const LoadedModel loaded = load_model(folder_, at::kFloat, at::kCPU, std::nullopt, {}, {}, keep);
    for (std::size_t i = 0; i < loaded.table.blocks.size(); ++i) {
      const model::BlockWeights& block = loaded.weights.blocks[i];
      EXPECT_EQ(block.quantized != nullptr, loaded.table.blocks[i].kind == model::BlockKind::layer);
      at::Tensor flat = at::zeros_like(values.weights.blocks[i].flat);
      block.quantized ? model::dequantize(block, flat) : void(flat.copy_(block.flat));
      EXPECT_TRUE(at::equal(flat, values.weights.blocks[i].flat)) << i;
      if (block.quantized) {
        EXPECT_EQ(block.quantized->matrices.size(), i == 1 ? 7u : 6u);
      }
    }
  }
}

TEST_F(Quantized, SaysWhatItCannotRead) {
  const std::string q = "model.layers.0.self_attn.q_proj.", weight = q + "weight";
  using Tensors = std::map<std::string, at::Tensor>;
  const auto expect = [&](Form form, const std::string& part, const std::function<void(Tensors&)>& change) {
    const std::string message = refusal(form, change);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with((folder_ / "model.safetensors").string() + ": ")) << message;
  };
  const std::string state = weight + ".quant_state.bitsandbytes__nf4";
  expect(Form::nested, "'blocksize' is 128, expected 64", [&](Tensors& t) {
    t[state] = bytes_of_text(R"({"quant_type": "nf4", "blocksize": 128, "shape": [40, 40]})");
  });
  expect(Form::nested, "'quant_type' is \"fp4\", expected \"nf4\"", [&](Tensors& t) {
    t[weight + ".quant_state.bitsandbytes__fp4"] =
        bytes_of_text(R"({"quant_type": "fp4", "blocksize": 64, "shape": [40, 40]})");
    t.erase(state);
  });
  expect(Form::nested, "tensor '" + weight + ".absmax' is missing",
         [&](Tensors& t) { t.erase(weight + ".absmax"); });
  expect(Form::nested, ".absmax' is F32 [25], expected 25 elements of U8",
         [&](Tensors& t) { t[weight + ".absmax"] = at::zeros({25}); });
  expect(Form::nested, ".nested_absmax' is F32 [2], expected 1 elements of F32",
         [&](Tensors& t) { t[weight + ".nested_absmax"] = at::zeros({2}); });
  expect(Form::nested, "has 799 bytes, expected 800 of codes",
         [&](Tensors& t) { t[weight] = at::zeros({799}, at::kByte); });
  expect(Form::nested, "is missing: the files have its scales", [&](Tensors& t) { t.erase(weight); });
  expect(Form::nested, ".quant_map' has other levels than nf4",
         [&](Tensors& t) { t[weight + ".quant_map"] = at::zeros({16}); });
  expect(Form::nested, "has 65537 bytes, expected a few",
         [&](Tensors& t) { t[state] = at::zeros({65537}, at::kByte); });
  expect(Form::nested, "has the shape [20, 80], expected [40, 40]", [&](Tensors& t) {
    t[state] = bytes_of_text(
        R"({"quant_type": "nf4", "blocksize": 64, "shape": [20, 80], "nested_blocksize": 256, "nested_offset": 1})");
  });
  expect(Form::int8, "SCB' is F32 [39], expected 40 elements of F32",
         [&](Tensors& t) { t[q + "SCB"] = at::zeros({39}); });
  expect(Form::int8, "SCB' has scales for '" + weight + "', which is not a matrix of I8", [&](Tensors& t) {
    t[weight] = at::zeros({40, 40});
  });
  expect(Form::int8, "weight_format' is 2, expected 0",
         [&](Tensors& t) { t[q + "weight_format"] = at::tensor({2}).to(at::kByte).view({}); });
  expect(Form::int8, "has the dtype I8", [&](Tensors& t) {
    t.erase(q + "SCB");
    t.erase(q + "weight_format");
  });
}

TEST_F(Quantized, MustBeWhatConfigJsonSays) {
  const auto with = [&](const std::string& quantization) {
    write("config.json", config_with(quantization));
    return message_of([&] { open_model(folder_); });
  };
  make(Form::int8);
  save();
  EXPECT_NE(
      with("").find(
          "is quantized by bitsandbytes (int8), but 'quantization_config' in config.json does not say so"),
      std::string::npos);
  EXPECT_NE(with(kNf4).find("in config.json says nf4"), std::string::npos);
  EXPECT_EQ(with(kInt8), "accepted");
  tensors_.clear();
  for (const auto& [name, tensor] : tensors_of(made_)) tensors_[name] = tensor;
  save();
  EXPECT_NE(with(kInt8).find("no tensor is quantized, but 'quantization_config' in config.json says int8"),
            std::string::npos);
}

}  // namespace
}  // namespace dpo::checkpoint
