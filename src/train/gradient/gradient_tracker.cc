#include "train/gradient/gradient_tracker.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::train {

GradientTracker::GradientTracker(std::vector<Unit>& units, const Layout& layout,
                                 const Blocks& blocks, const std::vector<NamedTensor>& parameters,
                                 bool recompute, Sinks sinks)
    : units_(units),
      blocks_(blocks),
      parameters_(parameters),
      recompute_(recompute),
      sinks_(sinks),
      locations_(parameters.size()),
      members_(static_cast<std::size_t>(blocks.count())),
      ready_(parameters.size()),
      pending_input_gradients_(members_.size()),
      pending_recomputes_(members_.size()) {
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const auto& unit = layout.units[i];
    if (!unit.trainable) continue;
    for (std::size_t member = 0; member < unit.parameters.size(); ++member) {
      const auto parameter = static_cast<std::size_t>(unit.parameters[member]);
      locations_[parameter] = {static_cast<int>(i), member};
      if (unit.block != ParameterSpec::kRoot)
        members_[static_cast<std::size_t>(unit.block)].push_back(parameter);
    }
  }
}

void GradientTracker::begin(bool counting) {
  counting_ = counting;
  in_backward_ = true;
  std::fill(ready_.begin(), ready_.end(), false);
  completed_twice_.clear();
}

void GradientTracker::on_gradient(std::size_t parameter) {
  if (!may_get_more_gradients(parameter)) complete_parameter(parameter);
}

bool GradientTracker::may_get_more_gradients(std::size_t parameter) const {
  if (!recompute_) return false;
  const auto& tensor = parameters_[parameter].tensor;
  const int block = blocks_.block_of(tensor);
  return block == ParameterSpec::kRoot ? blocks_.is_shared(tensor)
                                       : pending_recomputes_[static_cast<std::size_t>(block)] > 1;
}

void GradientTracker::complete_parameter(std::size_t parameter) {
  if (!in_backward_) return;
  if (ready_[parameter]) {
    if (counting_) completed_twice_ = parameters_[parameter].name;
    return;
  }
  ready_[parameter] = true;
  auto& unit = units_[static_cast<std::size_t>(locations_[parameter].unit)];
  sinks_.reducer.on_gradient(unit, locations_[parameter].member);
  if (unit.complete()) sinks_.gatherer.release(unit);
}

Result<void> GradientTracker::end() {
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (!ready_[i]) complete_parameter(i);
  counting_ = false;
  in_backward_ = false;
  std::fill(pending_input_gradients_.begin(), pending_input_gradients_.end(), 0);
  if (completed_twice_.empty()) return {};
  return Error{Code::invalid, format("the gradient of {} arrived twice in one backward: is its "
                                     "layer recomputed by a nested backward?",
                                     completed_twice_)};
}

void GradientTracker::on_input_gradient(int block) {
  if (--pending_input_gradients_[static_cast<std::size_t>(block)] == 0) complete_block(block);
}

void GradientTracker::on_recompute_end(int block, bool ran) {
  if (--pending_recomputes_[static_cast<std::size_t>(block)] == 0 && ran) complete_block(block);
}

void GradientTracker::complete_block(int block) {
  for (auto parameter : members_[static_cast<std::size_t>(block)])
    if (!ready_[parameter]) complete_parameter(parameter);
  sinks_.gatherer.release(block);
}

}  // namespace lockstep::train
