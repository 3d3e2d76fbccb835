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

#include "base/units.h"
#include "bound_model.h"
#include "comm/torch/connect.h"
#include "outcome.h"
#include "train/autograd_engine.h"
#include "train/group/mesh.h"
#include "train/parameter_server/meeting.h"
#include "train/parameter_server/serve.h"
#include "train/policy.h"

namespace lockstep::python {
namespace {

namespace py = pybind11;

using ReleaseGil = py::call_guard<py::gil_scoped_release>;

// A tree of C++ modules that hold a Python module's own tensors: the engine uses it as the module.
// A module that occurs twice is one module here too.
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
    // A tensor that the module does not save is no state.
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

constexpr Duration kMeetingBound = std::chrono::minutes(10);

// Made from a group of torch's, or from our own connections; apart: for parameter servers.
train::Mesh mesh_of(const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group,
                    BoundRecovery* own, bool apart) {
  if (apart) return train::Mesh::apart(value_of(train::Meeting::from_environment(kMeetingBound)));
  if (own != nullptr) return value_of(own->recovery->mesh());
  if (!group) return train::Mesh::single();
  return value_of(train::Mesh::replicas(*group));
}

std::unique_ptr<BoundModel> create(
    const py::object& module, const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group,
    BoundRecovery* own, const std::string& policy, const std::vector<py::object>& blocks,
    bool values_to_come, bool apart) {
  Mirror mirror;
  auto root = mirror.of(module);
  std::vector<torch::nn::Module*> parts;
  // A block that is not part of the module gets a mirror of its own, and the engine refuses it.
  std::vector<std::shared_ptr<torch::nn::Module>> kept;
  for (const auto& block : blocks) {
    kept.push_back(mirror.of(block));
    parts.push_back(kept.back().get());
  }
  const py::gil_scoped_release give_up_lock;
  auto mesh = mesh_of(group, own, apart);
  const auto parsed = value_of(train::parse_policy(policy, mesh.world_size()));
  auto bound = std::make_unique<BoundModel>();
  bound->engine = value_of(
      train::AutogradEngine::create(std::move(root), std::move(mesh), parsed, std::move(parts),
                                    values_to_come ? train::InitialValues::deferred
                                                   : train::InitialValues::broadcast_from_rank_0));
  return bound;
}

std::string policy_text(BoundModel& bound) {
  return text(bound.engine->model().policy(), bound.mesh().world_size());
}

using PythonOwned =
    std::tuple<std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t, at::Tensor>;

std::vector<PythonOwned> owned_state(const BoundModel& bound) {
  std::vector<PythonOwned> state;
  for (const auto& one : bound.engine->model().state())
    state.emplace_back(one.name, one.shape, one.owned.begin, one.owned.end, one.tensor);
  return state;
}

std::vector<std::string> parameter_names(const BoundModel& bound) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : bound.engine->model().parameters()) names.push_back(name);
  return names;
}

// The number of elements of each parameter that this rank owns.
std::vector<std::int64_t> owned_sizes(const BoundModel& bound) {
  std::vector<std::int64_t> sizes;
  for (const auto& parameter_layout : bound.engine->model().layout().parameters)
    sizes.push_back(parameter_layout.owned.size());
  return sizes;
}

std::pair<bool, double> agree_on_step(BoundModel& bound, std::optional<double> clip_norm) {
  const auto step = value_of(bound.engine->begin_step(clip_norm));
  return {step.taken, step.gradient_norm};
}

using PythonModel = py::class_<BoundModel>;

void bind_facts(PythonModel& model) {
  model.def_property_readonly("policy", &policy_text)
      .def_property_readonly(
          "recomputes",
          [](const BoundModel& bound) { return bound.engine->model().policy().recompute; })
      .def_property_readonly(
          "divides_parameters",
          [](const BoundModel& bound) { return bound.engine->model().policy().parameters > 1; })
      .def_property_readonly("rank", [](BoundModel& bound) { return bound.mesh().rank(); })
      .def_property_readonly("world_size",
                             [](BoundModel& bound) { return bound.mesh().world_size(); })
      .def("parameter_names", &parameter_names)
      .def("owned_sizes", &owned_sizes)
      .def("slices_are_whole",
           [](const BoundModel& bound) { return bound.engine->slices_are_whole(); })
      .def_property_readonly("optimizer_device",
                             [](const BoundModel& bound) {
                               return bound.engine->model().units().front().master().device();
                             })
      .def("own_slice",  // the index
           [](const BoundModel& bound) {
             const auto& slice = bound.engine->model().layout().units.front().slice;
             return slice.begin / slice.size();
           })
      .def("slices",  // of a parameter, at most
           [](const BoundModel& bound) { return bound.engine->model().policy().optimizer; })
      .def("state", &owned_state)
      .def("check", [](const BoundModel& bound) { value_of(bound.engine->check()); });
}

void bind_step(PythonModel& model) {
  model
      .def(
          "pre_forward",
          [](BoundModel& bound, int block, const std::vector<at::Tensor>& inputs) {
            value_of(bound.engine->pre_forward(block, inputs));
          },
          ReleaseGil())
      .def(
          "post_forward",
          [](BoundModel& bound, int block, const std::vector<at::Tensor>& outputs) {
            value_of(bound.engine->post_forward(block, outputs));
          },
          ReleaseGil())
      .def("set_sync",
           [](BoundModel& bound, bool sync) {
             const bool before = bound.engine->sync() == Sync::now;
             bound.engine->set_sync(sync ? Sync::now : Sync::later);
             return before;
           })
      .def("take_wait_time",
           [](BoundModel& bound) {
             const auto waited = bound.engine->model().snapshot_copies()->take_wait_time();
             return std::chrono::duration<double>(waited).count();
           })
      .def("begin_step", &agree_on_step, py::arg("clip_norm") = py::none(), ReleaseGil())
      .def("non_finite",
           [](const BoundModel& bound) {
             const auto& first = bound.engine->agreed_step().non_finite;
             return first ? first->describe() : std::string();
           })
      .def("swap_in_slice",
           [](BoundModel& bound, std::size_t parameter) { bound.engine->swap_in_slice(parameter); })
      .def(
          "fetch_gradients", [](BoundModel& bound) { bound.engine->model().fetch_gradients(); },
          ReleaseGil())
      .def("drop_gradients", [](BoundModel& bound) { bound.engine->drop_gradients(); })
      .def(
          "end_step", [](BoundModel& bound) { value_of(bound.engine->end_step()); }, ReleaseGil())
      // True if a transfer has failed since sharding or the last recovery.
      .def("has_failed", [](BoundModel& bound) { return !bound.engine->model().status(); });
}

void bind_gradients(PythonModel& model) {
  model
      .def("set_hidden_gradients",
           [](BoundModel& bound, std::vector<at::Tensor> hidden) {
             bound.engine->set_hidden_gradients(std::move(hidden));
           })
      .def(
          "unscale_gradients",
          [](BoundModel& bound, const std::vector<std::size_t>& parameters,
             const at::Tensor& found_inf, const at::Tensor& inverse_scale) {
            value_of(bound.engine->unscale_gradients(parameters, found_inf, inverse_scale));
          },
          ReleaseGil())
      // parameters: their indices; owners: of each, the index of a slice.
      .def(
          "swap_in_whole",
          [](BoundModel& bound, const std::vector<std::size_t>& parameters,
             const std::vector<int>& owners) {
            std::vector<train::OwnedParameter> owned;
            for (std::size_t i = 0; i < parameters.size(); ++i)
              owned.push_back({parameters[i], owners[i]});
            value_of(bound.engine->swap_in_whole(std::move(owned)));
          },
          ReleaseGil());
}

void bind_communication(PythonModel& model) {
  model
      .def(
          "mean",
          [](BoundModel& bound, double value) {
            auto& world = bound.mesh().world();
            return value_of(world.all_reduce(value, ReduceOp::sum, "a mean")) / world.size();
          },
          ReleaseGil())
      .def(
          "broadcast_from_rank_0",
          [](BoundModel& bound, std::int64_t value) {
            return value_of(bound.mesh().world().all_gather(value, "what rank 0 has")).front();
          },
          ReleaseGil())
      .def(
          "average_buffers",
          [](BoundModel& bound) { value_of(bound.engine->model().average_buffers()); },
          ReleaseGil())
      .def(
          "wait_parameter_sync",
          [](BoundModel& bound) { value_of(bound.engine->model().wait_parameter_sync()); },
          ReleaseGil())
      .def(
          "sync_parameters",
          [](BoundModel& bound) { value_of(bound.engine->model().sync_parameters()); },
          ReleaseGil());
}

train::ParameterServer& server_of(BoundModel& bound) {
  auto* server = bound.engine->model().parameter_server();
  if (server == nullptr) throw py::value_error("this rank is no parameter server");
  return *server;
}

// A worker's share of a step: the number of the step, of the share, and of the shares.
std::optional<std::tuple<std::int64_t, int, int>> task_of(const BoundModel& bound) {
  const auto* worker = bound.engine->model().parameter_worker();
  if (worker == nullptr) return std::nullopt;
  return std::tuple{worker->task().step, worker->task().share, worker->shares()};
}

// The number of the update that the optimizer steps next, whether it has gradients, and the
// learning rates; none: all workers have left.
std::optional<std::tuple<std::int64_t, bool, std::vector<double>>> wait_update(BoundModel& bound) {
  auto update = value_of(server_of(bound).wait_update());
  if (!update) return std::nullopt;
  bound.engine->begin_update(update->has_gradients);
  return std::tuple{update->step, update->has_gradients, std::move(update->learning_rates)};
}

void bind_parameter_servers(PythonModel& model) {
  model
      .def_property_readonly("is_server",
                             [](const BoundModel& bound) {
                               return bound.engine->model().parameter_server() != nullptr;
                             })
      .def_property_readonly("task", &task_of)
      // Its number in the run, if the ranks are apart; else that in the mesh.
      .def_property_readonly("run_rank",
                             [](BoundModel& bound) {
                               const auto* meeting = bound.engine->model().meeting();
                               return meeting ? meeting->rank() : bound.mesh().rank();
                             })
      // The group of all servers.
      .def_property_readonly("servers", [](BoundModel& bound) { return bound.mesh().world(); })
      .def("set_learning_rates",
           [](BoundModel& bound, std::vector<double> rates) {
             bound.engine->set_learning_rates(std::move(rates));
           })
      .def(
          "start_server",
          [](BoundModel& bound, std::int64_t first_step) {
            value_of(train::start_serving(bound.engine->model(), first_step));
          },
          ReleaseGil())
      .def("wait_update", &wait_update, ReleaseGil())
      .def(
          "publish", [](BoundModel& bound) { server_of(bound).publish(); }, ReleaseGil())
      // On a worker: it ends, and computes no further step. On a server: it accepts no worker.
      .def(
          "leave_servers", [](BoundModel& bound) { bound.engine->model().leave_servers(); },
          ReleaseGil());
}

}  // namespace

void bind_train(py::module& module) {
  module.def("shard", &create, py::arg("module"), py::arg("group"), py::arg("own"),
             py::arg("policy"), py::arg("blocks"), py::arg("values_to_come"), py::arg("apart"));
  PythonModel model(module, "ShardedModel");
  bind_facts(model);
  bind_step(model);
  bind_gradients(model);
  bind_communication(model);
  bind_parameter_servers(model);
}

}  // namespace lockstep::python
