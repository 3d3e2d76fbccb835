#include "train/engine/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include <c10/core/ScalarType.h>

namespace lockstep::train {
namespace {

// 64 bytes suit vector instructions and DMA engines.
constexpr std::int64_t kAlignment = 64;

std::int64_t width(at::ScalarType type) {
  return static_cast<std::int64_t>(c10::elementSize(type));
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Bytes padded_size(const ParameterSpec& spec) {
  return Bytes(round_up(spec.elements() * width(spec.type), kAlignment));
}

Bytes size(const UnitLayout& unit) { return Bytes(unit.elements * width(unit.type)); }

// The parameter that is declared last comes first, as in backward; blocks in their own order before
// the root; frozen ones last.
std::vector<std::size_t> order_of_backward(const std::vector<ParameterSpec>& parameters,
                                           bool blocks) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  if (blocks)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return parameters[a].block > parameters[b].block;
    });
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return parameters[i].trainable; });
  return order;
}

// A module's parameters get their gradients together, so that a unit with only the first of them
// would wait for all.
struct ModulePosition {
  bool first = true;  // in the order of backward
  Bytes rest;         // of it and those after it
};

std::vector<ModulePosition> module_positions(const std::vector<ParameterSpec>& parameters,
                                             const std::vector<std::size_t>& order) {
  const auto module_of = [&](std::size_t i) {
    const auto& name = parameters[i].name;
    return std::string_view(name).substr(0, name.rfind('.'));
  };
  std::vector<ModulePosition> within(parameters.size());
  for (std::size_t k = order.size(); k-- > 0;) {
    auto& position = within[order[k]];
    position.rest += padded_size(parameters[order[k]]);
    position.first = k == 0 || module_of(order[k - 1]) != module_of(order[k]);
    if (!position.first) within[order[k - 1]].rest = position.rest;
  }
  return within;
}

class UnitBuilder {
 public:
  UnitBuilder(std::vector<UnitLayout>& units, const Policy& policy)
      : units_(units), policy_(policy) {}

  // The open unit of this block and type, or a new one if there is none or it is full. Each type
  // has an open unit of its own, so that a model which alternates between types is not cut into
  // tiny units.
  int unit_for(const ParameterSpec& spec, const ModulePosition& within) {
    const int block = policy_.parameters > 1 ? spec.block : ParameterSpec::kRoot;
    for (std::size_t i = units_.size(); i-- > 0;) {
      const auto& unit = units_[i];
      if (unit.type != spec.type || unit.block != block || unit.trainable != spec.trainable)
        continue;
      if (block != ParameterSpec::kRoot || fits(i, spec, within)) return static_cast<int>(i);
      break;
    }
    units_.push_back({.type = spec.type,
                      .block = block,
                      .elements = 0,
                      .slice = {},
                      .parameters = {},
                      .trainable = spec.trainable});
    return static_cast<int>(units_.size() - 1);
  }

 private:
  // A module starts in a unit that fits all of it, and continues there.
  bool fits(std::size_t unit, const ParameterSpec& spec, const ModulePosition& within) const {
    const auto limit = unit == 0 && within.first ? policy_.first_bucket : policy_.bucket;
    return size(units_[unit]) + (within.first ? within.rest : padded_size(spec)) <= limit;
  }

  std::vector<UnitLayout>& units_;
  const Policy& policy_;
};

// The part of [offset, offset + elements) in the slice, counted from offset.
Interval owned_part(const Interval& slice, std::int64_t offset, std::int64_t elements) {
  const auto begin = std::clamp<std::int64_t>(slice.begin - offset, 0, elements);
  const auto end = std::clamp<std::int64_t>(slice.end - offset, 0, elements);
  return begin < end ? Interval{begin, end} : Interval{};
}

}  // namespace

std::int64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Interval Layout::part_in_slice(std::size_t parameter, int slice) const {
  const auto& place = parameters[parameter];
  const auto size = units[static_cast<std::size_t>(place.unit)].slice.size();
  return owned_part({slice * size, (slice + 1) * size}, place.offset, place.spec.elements());
}

at::ScalarType accumulation_type(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

Layout Layout::build(std::vector<ParameterSpec> parameters, const Policy& policy,
                     SliceIndex slice) {
  Layout layout;
  layout.parameters.resize(parameters.size());
  UnitBuilder units(layout.units, policy);
  const auto order = order_of_backward(parameters, policy.parameters > 1);
  const auto within = module_positions(parameters, order);
  for (const auto i : order) {
    auto& parameter_layout = layout.parameters[i];
    parameter_layout.unit = units.unit_for(parameters[i], within[i]);
    auto& unit = layout.units[static_cast<std::size_t>(parameter_layout.unit)];
    unit.parameters.push_back(static_cast<int>(i));
    parameter_layout.offset = unit.elements;
    unit.elements += padded_size(parameters[i]).count() / width(parameters[i].type);
    parameter_layout.spec = std::move(parameters[i]);
  }
  for (auto& unit : layout.units) {
    // At least one, also if all parameters are empty: empty transfers are not allowed.
    unit.elements = round_up(std::max<std::int64_t>(unit.elements, 1),
                             slice.count * (kAlignment / width(unit.type)));
    // A unit that no optimizer steps is not divided over replicas, which would have to gather it
    // again.
    if (slice.index == SliceIndex::kNone) continue;
    const int in_shard = unit.trainable ? 1 : policy.optimizer / policy.gradients;
    const auto share = unit.elements / slice.count * in_shard;
    const auto begin = slice.index / in_shard * share;
    unit.slice = {begin, begin + share};
  }
  for (auto& parameter_layout : layout.parameters)
    parameter_layout.owned =
        owned_part(layout.units[static_cast<std::size_t>(parameter_layout.unit)].slice,
                   parameter_layout.offset, parameter_layout.spec.elements());
  return layout;
}

}  // namespace lockstep::train
