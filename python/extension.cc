// lockstep._lockstep: the compiled part of the Python package. Its functions release Python's lock,
// because they wait for other ranks.
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include "comm/collective/wait_time.h"
#include "comm/device/device_backend.h"
#include "comm/flight/label.h"
#include "comm/group/group_ranks.h"
#include "comm/torch/backend_group.h"
#include "comm/torch/connect.h"
#include "comm/torch/launcher_environment.h"
#include "comm/torch/work.h"
#include "fusion.h"
#include "train.h"
#include "train/faults.h"
#include "train/measure/data_time.h"
#include "train/measure/flop_counter.h"
#include "train/measure/step_flops.h"

namespace lockstep::python {
namespace {

c10::intrusive_ptr<c10d::Backend> create_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int size,
                                                 std::chrono::milliseconds timeout,
                                                 std::string group, std::vector<int> global_ranks) {
  train::enable_fault_reports();
  // torch lists no ranks for the group of all.
  auto members = global_ranks.empty() ? comm::GroupRanks::world(size)
                                      : comm::GroupRanks{"", std::move(global_ranks)};
  auto backend = comm::connect_through_store(store, {.rank = rank,
                                                     .size = size,
                                                     .group = std::move(group),
                                                     .members = std::move(members),
                                                     .timeout = timeout});
  if (!backend) comm::raise(backend.error());
  return *std::move(backend);
}

// For torch's rendezvous, before it reads the environment.
std::map<std::string, std::string> meet_by_launcher(std::chrono::milliseconds timeout) {
  auto variables = comm::meet_by_launcher(timeout);
  if (!variables) comm::raise(variables.error());
  return *std::move(variables);
}

// create is called without Python's lock, by any thread, until the process ends.
void register_device_backend(const std::string& device_type, std::string name,
                             pybind11::object create) {
  auto* const kept = new pybind11::object(std::move(create));
  const auto call = [kept](const comm::DeviceBackendRequest& request) {
    const pybind11::gil_scoped_acquire lock;
    return (*kept)(request.store, request.rank, request.size, request.name, request.global_ranks,
                   request.timeout, request.recoverable)
        .cast<c10::intrusive_ptr<c10d::Backend>>();
  };
  comm::register_device_backend(c10::Device(device_type).type(), {std::move(name), call});
}

std::optional<double> take_data_seconds() {
  const auto waited = train::take_data_time();
  return waited ? std::optional(std::chrono::duration<double>(*waited).count()) : std::nullopt;
}

// Sets this thread's label, for lockstep.label; returns the label before.
pybind11::bytes set_label(const pybind11::bytes& label) {
  const auto before = comm::FlightLabel::exchange(comm::FlightLabel::encode(std::string(label)));
  const auto* const words = reinterpret_cast<const char*>(before.data());
  return pybind11::bytes(words, ::strnlen(words, comm::FlightLabel::kBytes));
}

}  // namespace
}  // namespace lockstep::python

PYBIND11_MODULE(_lockstep, module) {
  using GiveUpLock = pybind11::call_guard<pybind11::gil_scoped_release>;
  module.def("create_backend", &lockstep::python::create_backend, GiveUpLock());
  module.def("meet_by_launcher", &lockstep::python::meet_by_launcher, GiveUpLock());
  module.def("end_launcher_meeting", &lockstep::comm::end_launcher_meeting);
  module.def("register_device_backend", &lockstep::python::register_device_backend);
  module.def("take_wait_seconds", [] {
    return std::chrono::duration<double>(lockstep::comm::take_wait_time()).count();
  });
  module.def("take_data_seconds", &lockstep::python::take_data_seconds);
  module.def("begin_flop_count", &lockstep::train::begin_flop_count);
  module.def("end_flop_count", &lockstep::train::end_flop_count);
  pybind11::class_<lockstep::train::StepFlops>(module, "StepFlops")
      .def(pybind11::init())
      .def("end_step", [](lockstep::train::StepFlops& flops) {
        return flops.end_step(std::chrono::steady_clock::now());
      });
  module.def("set_label", &lockstep::python::set_label);
  lockstep::python::bind_fusion(module);
  module.def("shutdown_all", &lockstep::comm::BackendGroup::leave_all, GiveUpLock());
  // Once, before the first use of the training engine. Its classes take as long as all the rest of
  // the start of a group that only communicates.
  module.def("bind_training", [](pybind11::module_ extension) {
    lockstep::python::bind_train(extension);
    lockstep::python::bind_recovery(extension);
    lockstep::python::bind_checkpoints(extension);
  });
}
