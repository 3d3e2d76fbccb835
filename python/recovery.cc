// Recovery for lockstep.Training: the ranks' own connections, and the recovery after a rank
// failure.
#include "train/recovery/recovery.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bound_model.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"
#include "outcome.h"
#include "train.h"
#include "train/autograd_engine.h"
#include "train/data/batch.h"
#include "train/data/sampler.h"
#include "train/engine/first_error.h"
#include "train/optimizer/resumable_optimizer.h"

namespace lockstep::python {
namespace {

namespace py = pybind11;

using ReleaseGil = py::call_guard<py::gil_scoped_release>;

// An optimizer of torch's: the model has the decisions, and slots, an object of Python's
// lockstep._checkpoints, has the state. Called without Python's lock.
class PythonOptimizer : public train::ResumableOptimizer {
 public:
  // Both must outlive it.
  PythonOptimizer(train::AutogradEngine& engine, const py::object& slots)
      : engine_(engine), state_(slots) {}

  std::int64_t decided_steps() const override { return engine_.decided_steps(); }
  bool awaits_decision() const override { return engine_.awaits_decision(); }
  double last_norm() const override { return engine_.last_norm(); }
  Result<void> apply_missed_step(double norm) override {
    engine_.set_missed_decision(norm);
    return apply_decided_step();
  }
  void set_decided_steps(std::int64_t decided) override { engine_.set_decided_steps(decided); }
  // Takes a decision that this rank has.
  Result<void> apply_decided_step() {
    engine_.mark_local_step();
    return call_python([&] { state_.attr("step")(); });
  }

  std::string_view method() const override {
    note(call_python([&] { method_ = state_.attr("method").cast<std::string>(); }));
    return method_;
  }
  std::int64_t steps() const override {
    std::int64_t steps = 0;
    note(call_python([&] { steps = state_.attr("steps")().cast<std::int64_t>(); }));
    return steps;
  }
  void set_steps(std::int64_t steps) override {
    note(call_python([&] { state_.attr("set_steps")(steps); }));
  }
  Result<std::vector<train::NamedTensor>> flat_state() override {
    std::vector<train::NamedTensor> state;
    TRY(call_python([&] {
      for (auto& [name, parameter, tensor] :
           state_.attr("tensors")().cast<std::vector<StateTensor>>())
        state.push_back({name, tensor});
    }));
    return state;
  }
  Result<std::vector<train::OwnedTensor>> make_state(
      const std::vector<std::string>& names) override {
    std::vector<train::OwnedTensor> state;
    TRY(call_python([&] {
      for (auto& [name, parameter, tensor] :
           state_.attr("make_state")(names).cast<std::vector<StateTensor>>())
        state.push_back(engine_.owned_like(name, parameter, tensor.view(-1)));
    }));
    return state;
  }
  Result<void> rebuild() override {
    return call_python([&] { state_.attr("rebuild")(); });
  }
  void scale_learning_rate(double factor) override {
    note(call_python([&] { state_.attr("scale_learning_rate")(factor); }));
  }

  // An error in Python where no Result could be returned.
  Result<void> status() const { return error_.outcome(); }

 private:
  using StateTensor = std::tuple<std::string, std::size_t, at::Tensor>;

  template <class Question>
  Result<void> call_python(Question&& question) const {
    const py::gil_scoped_acquire lock;
    try {
      question();
      return {};
    } catch (const std::exception& exception) {  // from Python, among others
      return Error{Code::invalid, exception.what()};
    }
  }
  void note(const Result<void>& outcome) const { error_.note(outcome); }

  train::AutogradEngine& engine_;
  const py::object& state_;
  mutable std::string method_;
  mutable train::FirstError error_;
};

std::unique_ptr<BoundRecovery> start() {
  auto bound = std::make_unique<BoundRecovery>();
  bound->recovery =
      value_of(train::Recovery::start(value_of(train::recovery_options_from_environment())));
  return bound;
}

void configure(BoundRecovery& bound, const std::string& checkpoints, bool rescale) {
  auto& options = bound.recovery->options();
  options.checkpoint_folder = checkpoints;
  options.batch_scaling = rescale ? BatchScaling::rescaled : BatchScaling::fixed;
}

void begin_step(BoundRecovery& bound, std::int64_t step, BoundModel& model, train::Sampler& sampler,
                const py::object& slots) {
  PythonOptimizer stepper(*model.engine, slots);
  value_of(bound.recovery->begin_step(step, {model.engine->model(), stepper, sampler}));
}

train::RecoveryOutcome complete(BoundRecovery& bound, BoundModel& model, train::Sampler& sampler,
                                const py::object& slots) {
  PythonOptimizer stepper(*model.engine, slots);
  auto done =
      value_of(bound.recovery->complete_replacement({model.engine->model(), stepper, sampler}));
  value_of(stepper.status());
  return done;
}

// The engine's error is more precise than the exception.
Error cause_of(const train::AutogradEngine& engine, const std::string& message) {
  const auto status = engine.model().status();
  return status ? Error{Code::peer_lost, message} : status.error();
}

train::RecoveryOutcome recover(BoundRecovery& bound, BoundModel& model, train::Sampler& sampler,
                               const py::object& slots, const std::string& message) {
  auto& engine = *model.engine;
  const auto cause = cause_of(engine, message);
  PythonOptimizer stepper(engine, slots);
  // A decided step can be taken without the other ranks.
  if (engine.has_untaken_decision()) value_of(stepper.apply_decided_step());
  auto recovered = value_of(bound.recovery->recover(cause, {engine.model(), stepper, sampler}));
  value_of(stepper.status());
  engine.discard_step();
  return recovered;
}

// This rank's parts of the next batch, with the weight of each one's mean loss in a sum over them.
std::vector<std::pair<std::vector<std::int64_t>, double>> share_of_sampler(
    const train::Sampler& sampler, std::int64_t at_once, BoundModel& model) {
  const auto* worker = model.engine->model().parameter_worker();
  const int share = worker ? worker->task().share : model.mesh().rank();
  const int shares = worker ? worker->shares() : model.mesh().world_size();
  const auto parts =
      value_of(train::micro_batches_of({sampler.global_batch(), at_once}, share, shares));
  std::vector<std::pair<std::vector<std::int64_t>, double>> batches;
  for (const auto& [begin, end, weight] : parts)
    batches.emplace_back(sampler.peek(begin, end), weight / static_cast<double>(parts.size()));
  return batches;
}

// The server that an agent runs for its attempt: for tests, and for launchers without an agent.
std::unique_ptr<comm::RendezvousServer> meeting_place(const std::string& host,
                                                      const std::string& secret) {
  return value_of(comm::RendezvousServer::start(host, 0, value_of(net::Secret::from_hex(secret))));
}

}  // namespace

void bind_recovery(py::module& module) {
  const py::class_<train::Comm> comm(module, "Comm");
  py::class_<train::RecoveryOutcome>(module, "RecoveryOutcome")
      .def_readonly("leaves", &train::RecoveryOutcome::leaves)
      .def_readonly("step", &train::RecoveryOutcome::step)
      .def_readonly("description", &train::RecoveryOutcome::description)
      .def_readonly("reports", &train::RecoveryOutcome::reports);
  py::class_<BoundRecovery>(module, "Recovery")
      .def(py::init(&start), ReleaseGil())
      .def_property_readonly(
          "is_replacement",
          [](const BoundRecovery& bound) { return bound.recovery->is_replacement(); })
      .def_property_readonly(
          "generation", [](const BoundRecovery& bound) { return bound.recovery->generation(); })
      .def("configure", &configure)
      .def(
          "new_group",
          [](BoundRecovery& bound, double seconds) {
            const auto bound_time = std::chrono::duration<double>(seconds);
            return value_of(
                bound.recovery->new_group(std::chrono::duration_cast<Duration>(bound_time)));
          },
          ReleaseGil())
      .def("begin_step", &begin_step, ReleaseGil())
      .def("complete_replacement", &complete, ReleaseGil())
      .def("recover", &recover, ReleaseGil());
  py::class_<comm::RendezvousServer>(module, "RendezvousServer")
      .def(py::init(&meeting_place), ReleaseGil())
      .def_property_readonly("port", &comm::RendezvousServer::port);
  module.def("micro_batches_of", &share_of_sampler);
}

}  // namespace lockstep::python
