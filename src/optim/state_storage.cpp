#include "optim/state_storage.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ops/transfers.h"

namespace dpo::optim {
namespace {

using Arrays = std::vector<StoredArray>;

std::vector<Arrays> make_blocks(const model::Weights& weights, const std::vector<StateFormat>& formats,
                                bool on_host) {
  std::vector<Arrays> blocks;
  for (const model::BlockWeights& block : weights.blocks) {
    blocks.emplace_back();
    for (const StateFormat& format : formats)
      blocks.back().push_back(make_state(block.flat.numel(), format, block.flat.device(), on_host));
  }
  return blocks;
}

class ResidentState : public StateStorage {
 public:
  ResidentState(const model::Weights& weights, const std::vector<StateFormat>& formats)
      : blocks_(make_blocks(weights, formats, /*on_host=*/false)) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) parts_.push_back({i, 0, weights.blocks[i].flat.numel()});
  }

  Arrays acquire(std::size_t part) override { return blocks_[part]; }
  void release(std::size_t) override {}
  const Arrays& block(std::size_t block) const override { return blocks_[block]; }

 private:
  std::vector<Arrays> blocks_;
};

// While a part is updated, the next one is copied to the device and the one before is copied back: three
// buffers on each device, whatever the size of the model.
class OffloadedState : public StateStorage {
 public:
  OffloadedState(const model::Weights& weights, const std::vector<StateFormat>& formats)
      : blocks_(make_blocks(weights, formats, /*on_host=*/true)) {
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const at::Tensor& flat = weights.blocks[i].flat;
      for (std::int64_t from = 0; from < flat.numel(); from += model::kOffloadedPart)
        add_part({i, from, std::min(model::kOffloadedPart, flat.numel() - from)}, flat.device());
    }
    for (auto& [device, lane] : lanes_) {
      for (Slot& slot : lane.slots)
        for (const StateFormat& format : formats)
          slot.arrays.push_back(make_state(lane.largest, format, device));
      lane.in.wait_for_current();  // until the slots are cleared
    }
  }
  OffloadedState(const OffloadedState&) = delete;
  OffloadedState& operator=(const OffloadedState&) = delete;
  ~OffloadedState() override {
    try {
      finish();
    } catch (...) {  // a failed device has been reported
    }
  }

  Arrays acquire(std::size_t part) override {
    if (part == 0) fetch(0);
    const Lane& lane = lane_of(part);
    lane.in.make_current_stream_wait(slot_of(part).fetched);
    if (part + 1 < parts_.size()) fetch(part + 1);
    return on_device(part);
  }

  void release(std::size_t part) override {
    Lane& lane = lane_of(part);
    lane.out.wait_for_current();
    copy(lane.out, on_host(part), on_device(part));
    slot_of(part).written = lane.out.record();
  }

  const Arrays& block(std::size_t block) const override {
    finish();
    return blocks_[block];
  }

 private:
  struct Slot {
    Arrays arrays{};
    ops::Event fetched{}, written{};
  };
  struct Lane {
    ops::CopyStream in, out;
    std::array<Slot, 3> slots{};
    std::int64_t largest = 0;
    std::size_t parts = 0;
  };
  struct Place {
    at::Device device;
    std::size_t slot = 0;
  };

  void add_part(const StatePart& part, at::Device device) {
    const auto added = lanes_.try_emplace(device, Lane{ops::CopyStream(device), ops::CopyStream(device)});
    Lane& lane = added.first->second;
    lane.largest = std::max(lane.largest, part.count);
    // A part always uses the same slot. So when the slot is free, the part's previous values are on the host.
    places_.push_back({device, lane.parts++ % lane.slots.size()});
    parts_.push_back(part);
  }

  void fetch(std::size_t part) {
    Lane& lane = lane_of(part);
    lane.in.wait_for(slot_of(part).written);
    copy(lane.in, on_device(part), on_host(part));
    slot_of(part).fetched = lane.in.record();
  }

  static void copy(ops::CopyStream& stream, const Arrays& to, const Arrays& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      stream.copy(to[i].values, from[i].values);
      if (to[i].absmax.defined()) stream.copy(to[i].absmax, from[i].absmax);
    }
  }

  Arrays on_device(std::size_t part) { return parts_of(slot_of(part).arrays, 0, parts_[part].count); }
  Arrays on_host(std::size_t part) {
    return parts_of(blocks_[parts_[part].block], parts_[part].from, parts_[part].count);
  }

  Lane& lane_of(std::size_t part) { return lanes_.at(places_[part].device); }
  Slot& slot_of(std::size_t part) { return lane_of(part).slots[places_[part].slot]; }

  void finish() const {
    for (const auto& [device, lane] : lanes_) {
      lane.in.finish();
      lane.out.finish();
    }
  }

  std::vector<Arrays> blocks_;  // on the host
  std::unordered_map<at::Device, Lane> lanes_;
  std::vector<Place> places_;  // of the parts
};

}  // namespace

std::unique_ptr<StateStorage> make_storage(const model::Weights& weights,
                                           const std::vector<StateFormat>& formats, bool offload) {
  if (offload) return std::make_unique<OffloadedState>(weights, formats);
  return std::make_unique<ResidentState>(weights, formats);
}

}  // namespace dpo::optim
