#include "train.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>

#include "bound_model.h"
#include "comm/torch/connect.h"
#include "outcome.h"
#include "train/hooked.h"
#include "train/mesh.h"
#include "train/policy.h"

namespace lockstep {
namespace {

namespace py = pybind11;

using GiveUpLock = py::call_guard<py::gil_scoped_release>;

// A tree of C++ modules that hold a Python module's own tensors: what the engine takes for the
// module. A module that stands in two places is one here too.
class Mirror {
 public:
  std::shared_ptr<torch::nn::Module> of(const py::handle& module) {
    auto& made = made_[module.ptr()];
    if (made) return made;
    auto copy = std::make_shared<torch::nn::Module>();
    made = copy;
    for (const auto& [name, parameter] : dict_of(module, "_parameters"))
      if (!parameter.is_none()) {
        auto tensor = parameter.cast<at::Tensor>();
        copy->register_parameter(name.cast<std::string>(), tensor, tensor.requires_grad());
      }
    // What the module does not save is no state.
    const auto passing = module.attr("_non_persistent_buffers_set");
    for (const auto& [name, buffer] : dict_of(module, "_buffers"))
      if (!buffer.is_none() && !passing.contains(name))
        copy->register_buffer(name.cast<std::string>(), buffer.cast<at::Tensor>());
    for (const auto& [name, child] : dict_of(module, "_modules"))
      if (!child.is_none()) copy->register_module(name.cast<std::string>(), of(child));
    return copy;
  }

 private:
  static py::dict dict_of(const py::handle& module, const char* name) {
    return py::dict(module.attr(name));
  }

  std::map<PyObject*, std::shared_ptr<torch::nn::Module>> made_;
};

// Of a group of torch's, or of connections of our own.
Mesh mesh_of(const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group,
             BoundRecovery* own) {
  if (own != nullptr) return value_of(own->recovery->mesh());
  if (!group) return Mesh::single();
  return value_of(Mesh::replicas(*group));
}

std::unique_ptr<BoundModel> create(
    const py::object& module, const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group,
    BoundRecovery* own, const std::string& policy, const std::vector<py::object>& blocks,
    bool values_to_come) {
  Mirror mirror;
  auto root = mirror.of(module);
  std::vector<torch::nn::Module*> parts;
  // What is no part of the module gets a mirror of its own, and is refused by the engine.
  std::vector<std::shared_ptr<torch::nn::Module>> kept;
  for (const auto& block : blocks) {
    kept.push_back(mirror.of(block));
    parts.push_back(kept.back().get());
  }
  const py::gil_scoped_release give_up_lock;
  auto mesh = mesh_of(group, own);
  const auto parsed = value_of(parse_policy(policy, mesh.world_size()));
  auto bound = std::make_unique<BoundModel>();
  bound->hooked =
      value_of(HookedModel::create(std::move(root), std::move(mesh), parsed, std::move(parts),
                                   values_to_come ? Values::to_come : Values::of_rank_0));
  return bound;
}

std::string policy_words(BoundModel& bound) {
  return text(bound.hooked->model().policy(), bound.mesh().world_size());
}

using PythonOwned =
    std::tuple<std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t, at::Tensor>;

std::vector<PythonOwned> owned_state(const BoundModel& bound) {
  std::vector<PythonOwned> state;
  for (const auto& one : bound.hooked->model().state())
    state.emplace_back(one.name, one.shape, one.owned.begin, one.owned.end, one.tensor);
  return state;
}

std::vector<std::string> parameter_names(const BoundModel& bound) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : bound.hooked->model().parameters()) names.push_back(name);
  return names;
}

// How much of each parameter is this rank's.
std::vector<std::int64_t> owned_sizes(const BoundModel& bound) {
  std::vector<std::int64_t> sizes;
  for (const auto& place : bound.hooked->model().layout().parameters)
    sizes.push_back(place.owned.size());
  return sizes;
}

std::pair<bool, double> agree_on_step(BoundModel& bound, std::optional<double> clip_norm) {
  const auto step = value_of(bound.hooked->begin_step(clip_norm));
  return {step.taken, step.gradient_norm};
}

}  // namespace

void bind_train(py::module& module) {
  module.def("shard", &create, py::arg("module"), py::arg("group"), py::arg("own"),
             py::arg("policy"), py::arg("blocks"), py::arg("values_to_come"));
  py::class_<BoundModel>(module, "ShardedModel")
      .def_property_readonly("policy", &policy_words)
      .def_property_readonly(
          "recomputes",
          [](const BoundModel& bound) { return bound.hooked->model().policy().recompute; })
      .def_property_readonly("rank", [](BoundModel& bound) { return bound.mesh().rank(); })
      .def_property_readonly("world_size",
                             [](BoundModel& bound) { return bound.mesh().world_size(); })
      .def("parameter_names", &parameter_names)
      .def("owned_sizes", &owned_sizes)
      .def("slices_are_whole",
           [](const BoundModel& bound) { return bound.hooked->slices_are_whole(); })
      .def("state", &owned_state)
      .def("check", [](const BoundModel& bound) { value_of(bound.hooked->check()); })
      .def(
          "enter",
          [](BoundModel& bound, int block, const std::vector<at::Tensor>& inputs) {
            value_of(bound.hooked->enter(block, inputs));
          },
          GiveUpLock())
      .def(
          "leave",
          [](BoundModel& bound, int block, const std::vector<at::Tensor>& outputs) {
            value_of(bound.hooked->leave(block, outputs));
          },
          GiveUpLock())
      .def("set_sync",
           [](BoundModel& bound, bool sync) {
             const bool before = bound.hooked->sync() == Sync::now;
             bound.hooked->set_sync(sync ? Sync::now : Sync::later);
             return before;
           })
      .def("take_waited",
           [](BoundModel& bound) {
             const auto waited = bound.hooked->model().readers()->take_waited();
             return std::chrono::duration<double>(waited).count();
           })
      .def("begin_step", &agree_on_step, py::arg("clip_norm") = py::none(), GiveUpLock())
      .def("not_finite",
           [](const BoundModel& bound) {
             const auto& first = bound.hooked->agreed().not_finite;
             return first ? first->words() : std::string();
           })
      .def("lend", [](BoundModel& bound, std::size_t parameter) { bound.hooked->lend(parameter); })
      .def("drop_gradients", [](BoundModel& bound) { bound.hooked->drop_gradients(); })
      .def(
          "end_step", [](BoundModel& bound) { value_of(bound.hooked->end_step()); }, GiveUpLock())
      // Whether a transfer has failed since it was sharded, or recovered.
      .def("broken", [](BoundModel& bound) { return !bound.hooked->model().status(); })
      .def(
          "mean",
          [](BoundModel& bound, double value) {
            auto& world = bound.mesh().world();
            return value_of(world.reduce(value, Reduction::sum, "a mean")) / world.size();
          },
          GiveUpLock())
      .def(
          "of_rank_0",
          [](BoundModel& bound, std::int64_t value) {
            return value_of(bound.mesh().world().gather(value, "what rank 0 has")).front();
          },
          GiveUpLock())
      .def(
          "average_buffers",
          [](BoundModel& bound) { value_of(bound.hooked->model().average_buffers()); },
          GiveUpLock())
      .def(
          "settle", [](BoundModel& bound) { value_of(bound.hooked->model().settle()); },
          GiveUpLock())
      .def(
          "spread", [](BoundModel& bound) { value_of(bound.hooked->model().spread()); },
          GiveUpLock());
}

}  // namespace lockstep
