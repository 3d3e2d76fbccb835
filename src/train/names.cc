#include "train/names.h"

#include <cstddef>

#include "base/format.h"

namespace lockstep::train {
namespace {

std::string unit_name(const Layout& layout, const Blocks& blocks, std::size_t unit) {
  const auto& unit_layout = layout.units[unit];
  if (unit_layout.block != ParameterSpec::kRoot)
    return format("unit {} ({})", unit, blocks.name(unit_layout.block));
  const auto name = [&](int parameter) -> const std::string& {
    return layout.parameters[static_cast<std::size_t>(parameter)].spec.name;
  };
  const auto& first = name(unit_layout.parameters.front());
  const auto& last = name(unit_layout.parameters.back());
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

std::string checked_value_name(const Layout& layout, const Blocks& blocks,
                               const NonFiniteDetector::CheckedValue& value) {
  const auto when = format("in micro-step {}", value.micro_step);
  switch (value.kind) {
    case NonFiniteDetector::Kind::output:
      return format("the output of {} {}", blocks.name(value.index), when);
    case NonFiniteDetector::Kind::loss:
      return format("the loss {}", when);
    case NonFiniteDetector::Kind::gradients:
      break;
  }
  return format("the gradients of {}",
                unit_name(layout, blocks, static_cast<std::size_t>(value.index)));
}

}  // namespace lockstep::train
