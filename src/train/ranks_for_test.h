// For tests: ranks as threads, joined by Gloo on loopback, and a backend that records. Each rank
// may have a simulated device, and a group that behaves as NCCL does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "comm/device/device_backend.h"
#include "comm/flight/label.h"
#include "train/group/mesh.h"
#include "train/simulated_device/nccl_like.h"
#include "train/simulated_device/simulated_device.h"

namespace lockstep::train::ranks_for_test {

// A collective that began on this rank.
struct Call {
  std::string group;  // "world", or the name of a part of it: "shards of replica 1"
  std::string what;   // "all-reduce"
  comm::FlightLabel::Words label;
  std::int64_t elements;  // of the largest tensor
  std::int64_t bytes;     // that a ring sends from this rank
};

// Forwards everything to another backend, and records which collectives began and which all-reduces
// are complete. Its parts write into the same log.
class RecordingBackend : public c10d::Backend {
 public:
  explicit RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : RecordingBackend(std::move(inner), "world", std::make_shared<Log>()) {}

  const std::string getBackendName() const override { return "custom"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override {
    auto part = inner_->split(store, ranks, options);
    return c10::intrusive_ptr<RecordingBackend>::unsafe_steal_from_new(
        new RecordingBackend(std::move(part), options->group_name, log_));
  }

  bool supportsTensorAlloc(c10::DeviceIndex index) override {
    return inner_->supportsTensorAlloc(index);
  }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return inner_->allocateTensor(size, options);
  }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    note("all-gather", output, 1);
    return inner_->_allgather_base(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    note("reduce-scatter", input, 1);
    return inner_->_reduce_scatter_base(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return inner_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer,
                                      int tag) override {
    return inner_->send(tensors, peer, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer,
                                      int tag) override {
    return inner_->recv(tensors, peer, tag);
  }

  // In the order in which they began, in this group and its parts.
  std::vector<Call> calls() const;
  void clear_calls();
  // Elements of each all-reduce, in the order in which they began.
  std::vector<std::int64_t> all_reduce_sizes() const;
  // The labels of the calls in the flight record.
  std::vector<comm::FlightLabel::Words> labels() const;
  // Waits until so many all-reduces are complete; false if that takes too long.
  bool wait_for_completed(std::size_t count, Duration bound);

 private:
  struct Log {
    Mutex mutex;  // guards what follows
    std::vector<Call> calls LS_GUARDED_BY(mutex);
  };

  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string group,
                   std::shared_ptr<Log> log)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        group_(std::move(group)),
        log_(std::move(log)) {}
  // rounds: how often a ring moves each element except this rank's share.
  void note(const std::string& what, const at::Tensor& tensor, int rounds) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    const Lock lock(log_->mutex);
    log_->calls.push_back({group_, what, comm::FlightLabel::current(), tensor.numel(),
                           rounds * bytes * (getSize() - 1) / getSize()});
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  const std::string group_;
  const std::shared_ptr<Log> log_;  // shared with the parts
  mutable Mutex mutex_;             // guards what follows
  std::vector<c10::intrusive_ptr<c10d::Work>> works_ LS_GUARDED_BY(mutex_);
};

struct Rank {
  int rank;
  Mesh mesh;
  c10::intrusive_ptr<RecordingBackend> backend;  // null on a device
  at::Device device = at::kCPU;
};

inline constexpr auto kBound = std::chrono::seconds(20);

// Before the first backward of the program: autograd starts a thread for each device then.
inline const bool kDeviceIsInstalled = [] {
  simulated_device::install();
  return true;
}();

inline c10::intrusive_ptr<c10d::Backend> gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int size) {
  auto options = c10d::ProcessGroupGloo::Options::create(kBound);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

using RunRank = Result<void>(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             const std::function<Result<void>(Rank&)>& body);

inline Result<void> run_rank(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             const std::function<Result<void>(Rank&)>& body) {
  auto backend = c10::make_intrusive<RecordingBackend>(gloo(store, rank, size));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Rank self{rank, TRY(Mesh::replicas(group, kBound)), backend};
  return body(self);
}

inline c10::intrusive_ptr<simulated_device::NcclLikeBackend> nccl_like(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  return c10::make_intrusive<simulated_device::NcclLikeBackend>(
      gloo(store, rank, size),
      c10::make_intrusive<simulated_device::NcclLikeBackend::Options>(kBound));
}

// The group serves the device only. The thread's current device is the first one, as it is in a
// program that does not set it.
inline Result<void> run_rank_on_device(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                       int size, const std::function<Result<void>(Rank&)>& body) {
  const auto device = simulated_device::device(rank);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    nccl_like(store, rank, size));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Rank self{rank, TRY(Mesh::replicas(group, kBound)), nullptr, device};
  return body(self);
}

inline c10::intrusive_ptr<c10d::Work> RecordingBackend::allreduce(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  note("all-reduce", tensors.front(), 2);
  auto work = inner_->allreduce(tensors, options);
  const Lock lock(mutex_);
  works_.push_back(work);
  return work;
}

inline std::vector<Call> RecordingBackend::calls() const {
  const Lock lock(log_->mutex);
  return log_->calls;
}

inline void RecordingBackend::clear_calls() {
  const Lock lock(log_->mutex);
  log_->calls.clear();
}

inline std::vector<std::int64_t> RecordingBackend::all_reduce_sizes() const {
  std::vector<std::int64_t> elements;
  for (const auto& call : calls())
    if (call.what == "all-reduce") elements.push_back(call.elements);
  return elements;
}

inline std::vector<comm::FlightLabel::Words> RecordingBackend::labels() const {
  std::vector<comm::FlightLabel::Words> labels;
  for (const auto& call : calls())
    if (call.what == "all-reduce") labels.push_back(call.label);
  return labels;
}

inline bool RecordingBackend::wait_for_completed(std::size_t count, Duration bound) {
  const auto deadline = Deadline::after(bound);
  while (!deadline.passed()) {
    {
      const Lock lock(mutex_);
      std::size_t completed = 0;
      for (auto& work : works_) completed += work->isCompleted() ? 1 : 0;
      if (completed >= count) return true;
    }
    std::this_thread::yield();
  }
  return false;
}

// Runs `body` as each of `size` ranks, every one in its thread, and joins them. Returns the errors,
// one line for each rank that failed; empty if none did.
inline std::string run_as_ranks(int size, const std::function<Result<void>(Rank&)>& body,
                                RunRank& run = run_rank) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto& failure = failures[static_cast<std::size_t>(rank)];
      try {
        const auto done = run(store, rank, size, body);
        if (!done) failure = lockstep::format("rank {}: {}\n", rank, done.error().message);
      } catch (const std::exception& exception) {
        failure = lockstep::format("rank {} threw: {}\n", rank, exception.what());
      }
    });
  for (auto& thread : threads) thread.join();
  return std::accumulate(failures.begin(), failures.end(), std::string());
}

// The same, each rank with a simulated device of its own.
inline std::string run_on_devices(int size, const std::function<Result<void>(Rank&)>& body) {
  comm::register_device_backend(c10::kPrivateUse1,
                                {simulated_device::NcclLikeBackend::kName, [](const auto& request) {
                                   return nccl_like(request.store, request.rank, request.size);
                                 }});
  return run_as_ranks(size, body, run_rank_on_device);
}

}  // namespace lockstep::train::ranks_for_test
