#include "train/arrivals.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep {

Arrivals::Arrivals(std::vector<Unit>& units, const Layout& layout, const Blocks& blocks,
                   const std::vector<NamedTensor>& parameters, bool recompute, Sinks sinks)
    : units_(units),
      blocks_(blocks),
      parameters_(parameters),
      recompute_(recompute),
      sinks_(sinks),
      homes_(parameters.size()),
      members_(static_cast<std::size_t>(blocks.count())),
      ready_(parameters.size()),
      open_(members_.size()),
      again_(members_.size()) {
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const auto& unit = layout.units[i];
    if (!unit.trainable) continue;
    for (std::size_t member = 0; member < unit.parameters.size(); ++member) {
      const auto parameter = static_cast<std::size_t>(unit.parameters[member]);
      homes_[parameter] = {static_cast<int>(i), member};
      if (unit.block != ParameterSpec::kRoot)
        members_[static_cast<std::size_t>(unit.block)].push_back(parameter);
    }
  }
}

void Arrivals::begin(bool counting) {
  counting_ = counting;
  in_backward_ = true;
  std::fill(ready_.begin(), ready_.end(), false);
  arrived_twice_.clear();
}

void Arrivals::arrived(std::size_t parameter) {
  if (!may_come_again(parameter)) complete(parameter);
}

bool Arrivals::may_come_again(std::size_t parameter) const {
  if (!recompute_) return false;
  const auto& tensor = parameters_[parameter].tensor;
  const int block = blocks_.owner_of(tensor);
  return block == ParameterSpec::kRoot ? blocks_.of_several(tensor)
                                       : again_[static_cast<std::size_t>(block)] > 1;
}

void Arrivals::complete(std::size_t parameter) {
  if (!in_backward_) return;
  if (ready_[parameter]) {
    if (counting_) arrived_twice_ = parameters_[parameter].name;
    return;
  }
  ready_[parameter] = true;
  auto& unit = units_[static_cast<std::size_t>(homes_[parameter].unit)];
  sinks_.reductions.arrived(unit, homes_[parameter].member);
  if (unit.complete()) sinks_.gathers.release(unit);
}

Result<void> Arrivals::end() {
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (!ready_[i]) complete(i);
  counting_ = false;
  in_backward_ = false;
  std::fill(open_.begin(), open_.end(), 0);
  if (arrived_twice_.empty()) return {};
  return Error{Code::invalid, format("the gradient of {} arrived twice in one backward: is its "
                                     "layer recomputed by a nested backward?",
                                     arrived_twice_)};
}

void Arrivals::close(int block) {
  if (--open_[static_cast<std::size_t>(block)] == 0) complete_block(block);
}

void Arrivals::close_again(int block, bool ran) {
  if (--again_[static_cast<std::size_t>(block)] == 0 && ran) complete_block(block);
}

void Arrivals::complete_block(int block) {
  for (auto parameter : members_[static_cast<std::size_t>(block)])
    if (!ready_[parameter]) complete(parameter);
  sinks_.gathers.release(block);
}

}  // namespace lockstep
