#include "train/layout.h"

#include <functional>
#include <numeric>
#include <utility>

#include <c10/core/ScalarType.h>

namespace lockstep {
namespace {

// Vector instructions and DMA engines like 64 bytes.
constexpr std::int64_t kAlignment = 64;

Bytes padded_size(const ParameterSpec& spec) {
  const auto bytes = spec.elements() * static_cast<std::int64_t>(c10::elementSize(spec.type));
  return Bytes((bytes + kAlignment - 1) / kAlignment * kAlignment);
}

Bytes size(const UnitPlace& unit) {
  return Bytes(unit.elements * static_cast<std::int64_t>(c10::elementSize(unit.type)));
}

// The open unit of this type, or a new one where there is none or it is full. Types have their
// units side by side, so that a model which alternates between types is not cut into crumbs.
int unit_for(const ParameterSpec& spec, std::vector<UnitPlace>& units, const Policy& policy) {
  for (std::size_t i = units.size(); i-- > 0;) {
    if (units[i].type != spec.type) continue;
    const auto limit = i == 0 ? policy.first_bucket : policy.bucket;
    if (size(units[i]) + padded_size(spec) <= limit) return static_cast<int>(i);
    break;
  }
  units.push_back({.type = spec.type, .elements = 0, .parameters = {}});
  return static_cast<int>(units.size() - 1);
}

}  // namespace

std::int64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Layout Layout::build(std::vector<ParameterSpec> parameters, const Policy& policy) {
  Layout layout;
  layout.parameters.resize(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    auto& spec = parameters[i];
    auto& place = layout.parameters[i];
    place.unit = unit_for(spec, layout.units, policy);
    auto& unit = layout.units[static_cast<std::size_t>(place.unit)];
    unit.parameters.push_back(static_cast<int>(i));
    place.offset = unit.elements;
    place.owned = {0, spec.elements()};
    unit.elements +=
        padded_size(spec).count() / static_cast<std::int64_t>(c10::elementSize(spec.type));
    place.spec = std::move(spec);
  }
  return layout;
}

}  // namespace lockstep
