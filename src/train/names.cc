#include "train/names.h"

#include <cstddef>

#include "base/format.h"

namespace lockstep {
namespace {

std::string unit_name(const Layout& layout, const Blocks& blocks, std::size_t unit) {
  const auto& place = layout.units[unit];
  if (place.block != ParameterSpec::kRoot)
    return format("unit {} ({})", unit, blocks.name(place.block));
  const auto name = [&](int parameter) -> const std::string& {
    return layout.parameters[static_cast<std::size_t>(parameter)].spec.name;
  };
  const auto& first = name(place.parameters.front());
  const auto& last = name(place.parameters.back());
  return format("unit {} ({})", unit, first == last ? first : format("{} to {}", first, last));
}

}  // namespace

std::vector<std::string> unit_names(const Layout& layout, const Blocks& blocks) {
  std::vector<std::string> names;
  for (std::size_t unit = 0; unit < layout.units.size(); ++unit) {
    const int block = layout.units[unit].block;
    names.push_back(format("unit {} ({})", unit,
                           block == ParameterSpec::kRoot ? "of the root" : blocks.name(block)));
  }
  return names;
}

std::string place_name(const Layout& layout, const Blocks& blocks,
                       const FiniteLooks::Place& place) {
  const auto when = format("in micro-step {}", place.micro_step);
  switch (place.kind) {
    case FiniteLooks::Kind::output:
      return format("the output of {} {}", blocks.name(place.index), when);
    case FiniteLooks::Kind::loss:
      return format("the loss {}", when);
    case FiniteLooks::Kind::gradients:
      break;
  }
  return format("the gradients of {}",
                unit_name(layout, blocks, static_cast<std::size_t>(place.index)));
}

}  // namespace lockstep
