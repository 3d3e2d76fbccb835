// Checkpoints in the engine's own format, the data's order, and the headers of safetensors files.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/environment.h"
#include "base/units.h"
#include "bound_model.h"
#include "outcome.h"
#include "train.h"
#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/format/safetensors.h"
#include "train/checkpoint/resume.h"
#include "train/sampler.h"

namespace lockstep {
namespace {

namespace py = pybind11;

using GiveUpLock = py::call_guard<py::gil_scoped_release>;
// Of the optimizer: what the checkpoint calls it, of which parameter, this rank's elements of it.
using Slot = std::tuple<std::string, std::size_t, at::Tensor>;

constexpr Duration kSavingBound = std::chrono::minutes(30);

std::vector<OwnedTensor> owned(const BoundModel& model, const std::vector<Slot>& slots) {
  std::vector<OwnedTensor> tensors;
  for (const auto& [name, parameter, tensor] : slots)
    tensors.push_back(model.hooked->owned_like(name, parameter, tensor.view(-1)));
  return tensors;
}

// The thread that saves may need Python's lock: nobody waits for it with that.
struct BoundCheckpointer {
  explicit BoundCheckpointer(std::unique_ptr<Checkpointer> opened)
      : checkpointer(std::move(opened)) {}
  BoundCheckpointer(const BoundCheckpointer&) = delete;
  BoundCheckpointer& operator=(const BoundCheckpointer&) = delete;
  std::unique_ptr<Checkpointer> checkpointer;

  ~BoundCheckpointer() {
    const py::gil_scoped_release give_up_lock;
    checkpointer.reset();
  }
};

using Saved = std::function<void(std::int64_t, const std::string&)>;
using KeptOutOf = std::function<void(const std::string& fault, const std::string& why)>;

std::unique_ptr<BoundCheckpointer> open(const std::string& folder, Claiming claiming,
                                        std::int64_t recoveries, int keep, Comm group,
                                        const Saved& saved, const KeptOutOf& kept_out) {
  const py::gil_scoped_release give_up_lock;
  CheckpointOptions options;
  options.folder = folder;
  options.writer = writer_from_environment(own_environment(), recoveries);
  options.claiming = claiming;
  options.keep = keep;
  options.kept_out = [kept_out](Fault fault, const std::string& why) {
    kept_out(std::string(name_of(fault)), why);
  };
  options.saved = [saved](std::int64_t step, const std::filesystem::path& path) {
    saved(step, path.string());
  };
  auto checkpointer = value_of(Checkpointer::open(std::move(options), std::move(group)));
  // Not before: it could not end without Python's lock.
  return std::make_unique<BoundCheckpointer>(std::move(checkpointer));
}

std::unique_ptr<BoundCheckpointer> open_over(
    const std::string& folder, Claiming claiming, std::int64_t recoveries, int keep,
    const std::optional<c10::intrusive_ptr<c10d::ProcessGroup>>& group, const Saved& saved,
    const KeptOutOf& kept_out) {
  return open(folder, claiming, recoveries, keep, group ? Comm(*group, kSavingBound) : Comm(),
              saved, kept_out);
}

double save(BoundCheckpointer& bound, const BoundModel& model, std::int64_t step,
            const std::string& optimizer, std::int64_t optimizer_steps,
            const std::vector<Slot>& slots, const Sampler& sampler,
            const std::map<std::string, std::string>& notes) {
  TrainingState state;
  state.step = step;
  state.optimizer = optimizer;
  state.optimizer_steps = optimizer_steps;
  state.sampler = sampler.state();
  state.notes = notes;
  state.tensors = model.hooked->model().state();
  state.readers = model.hooked->model().readers();
  for (auto& tensor : owned(model, slots)) state.tensors.push_back(std::move(tensor));
  return std::chrono::duration<double>(value_of(bound.checkpointer->save(state))).count();
}

std::vector<std::string> names_of(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const auto& tensor : manifest.tensors) names.push_back(tensor.name);
  return names;
}

// slots: makes this rank's state of the optimizer, as the tensors of these names want it.
std::int64_t resume_from(
    const std::string& folder, BoundModel& model, const std::string& optimizer,
    const std::function<std::vector<Slot>(const std::vector<std::string>&)>& slots,
    const std::function<void(std::int64_t)>& set_steps, Sampler& sampler) {
  const ResumedOptimizer resumed{optimizer,
                                 [&](const Manifest& manifest) -> Result<std::vector<OwnedTensor>> {
                                   try {
                                     return owned(model, slots(names_of(manifest)));
                                   } catch (const std::exception& exception) {  // Python's
                                     return Error{Code::invalid, exception.what()};
                                   }
                                 },
                                 set_steps};
  return value_of(resume(folder, model.hooked->model(), resumed, sampler));
}

using PythonSafeTensor =
    std::tuple<std::string, std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t>;

std::vector<PythonSafeTensor> safetensors_header(const std::string& words, std::int64_t bytes) {
  std::vector<PythonSafeTensor> tensors;
  for (const auto& one : value_of(parse_safetensors(words, bytes)).tensors)
    tensors.emplace_back(one.name, std::string(name_of(one.type)), one.shape, one.begin, one.end);
  return tensors;
}

}  // namespace

void bind_checkpoints(py::module& module) {
  py::enum_<Claiming>(module, "Claiming")
      .value("at_save", Claiming::at_save)
      .value("at_opening", Claiming::at_opening)
      .value("never", Claiming::never);
  py::class_<BoundCheckpointer>(module, "Checkpointer")
      .def("save", &save, GiveUpLock())
      .def(
          "finish", [](BoundCheckpointer& bound) { value_of(bound.checkpointer->finish()); },
          GiveUpLock());
  module.def("open_checkpointer", &open);  // over connections of our own
  module.def("open_checkpointer", &open_over);
  module.def("resume", &resume_from, GiveUpLock());
  py::class_<Sampler>(module, "Sampler")
      .def(py::init([](std::int64_t samples, std::int64_t global_batch, std::uint64_t seed) {
        return value_of(Sampler::create(samples, global_batch, seed));
      }))
      .def("next", [](Sampler& sampler, int rank,
                      int ranks) { return value_of(sampler.next(rank, ranks)); })
      .def_property_readonly("seed", [](const Sampler& sampler) { return sampler.state().seed; })
      .def("advance", &Sampler::advance)
      .def_property_readonly("global_batch", &Sampler::global_batch)
      .def_property_readonly("cursor",
                             [](const Sampler& sampler) { return sampler.state().cursor; });
  module.def("safetensors_header", &safetensors_header);
}

}  // namespace lockstep
