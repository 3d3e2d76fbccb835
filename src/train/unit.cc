#include "train/unit.h"

#include <utility>

#include <ATen/core/grad_mode.h>

namespace lockstep {
namespace {

at::Tensor view(const at::Tensor& flat, const ParameterPlace& place) {
  return flat.narrow(0, place.offset, place.spec.elements()).view(place.spec.shape);
}

}  // namespace

Result<Unit> Unit::create(const Layout& layout, int index,
                          const std::vector<at::Tensor>& parameters, Comm& comm) {
  const auto& place = layout.units[static_cast<std::size_t>(index)];
  const auto device = parameters[static_cast<std::size_t>(place.parameters.front())].device();
  Unit unit;
  unit.index_ = index;
  unit.flat_parameters_ = TRY(comm.allocate(place.elements, place.type, device));
  unit.flat_gradients_ = TRY(comm.allocate(place.elements, place.type, device));

  const at::NoGradGuard no_grad;
  for (int number : place.parameters) {
    const auto i = static_cast<std::size_t>(number);
    auto parameter = parameters[i];
    auto home = view(unit.flat_parameters_, layout.parameters[i]);
    home.copy_(parameter);
    // The data, not the tensor: version counters stay still, and the module keeps its tensor.
    parameter.set_data(home);
    unit.members_.push_back({parameter, view(unit.flat_gradients_, layout.parameters[i])});
    parameter.mutable_grad() = unit.members_.back().gradient;
  }
  return unit;
}

void Unit::zero_gradients() { flat_gradients_.zero_(); }

void Unit::attach_gradients() {
  const at::NoGradGuard no_grad;
  for (auto& [parameter, gradient] : members_) {
    auto& current = parameter.mutable_grad();
    if (current.is_same(gradient)) continue;
    if (current.defined()) {
      gradient.copy_(current);
    } else {
      gradient.zero_();
    }
    current = gradient;
  }
}

}  // namespace lockstep
