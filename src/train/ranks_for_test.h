// For tests: ranks as threads, joined by Gloo on loopback, and a backend that records.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "comm/flight/label.h"
#include "train/mesh.h"

namespace lockstep::ranks_for_test {

// Passes everything on to another backend, noting which all-reduces began and which are complete.
class RecordingBackend : public c10d::Backend {
 public:
  explicit RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return inner_->broadcast(tensors, options);
  }

  // Elements of each all-reduce, in the order in which they began.
  std::vector<std::int64_t> begun() const;
  // What the flight record says that they were for.
  std::vector<FlightLabel::Words> labels() const;
  // Waits until so many all-reduces are complete; false if that takes too long.
  bool wait_for_completed(std::size_t count, Duration bound);

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  mutable Mutex mutex_;  // guards what follows
  std::vector<std::int64_t> begun_ LS_GUARDED_BY(mutex_);
  std::vector<FlightLabel::Words> labels_ LS_GUARDED_BY(mutex_);
  std::vector<c10::intrusive_ptr<c10d::Work>> works_ LS_GUARDED_BY(mutex_);
};

struct Rank {
  int rank;
  Mesh mesh;
  c10::intrusive_ptr<RecordingBackend> backend;
};

inline constexpr auto kBound = std::chrono::seconds(20);

inline c10::intrusive_ptr<c10d::Backend> gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int size) {
  auto options = c10d::ProcessGroupGloo::Options::create(kBound);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

inline Result<void> run_rank(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             const std::function<Result<void>(Rank&)>& body) {
  auto backend = c10::make_intrusive<RecordingBackend>(gloo(store, rank, size));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Rank self{rank, TRY(Mesh::replicas(group, kBound)), backend};
  return body(self);
}

inline c10::intrusive_ptr<c10d::Work> RecordingBackend::allreduce(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  auto work = inner_->allreduce(tensors, options);
  const Lock lock(mutex_);
  begun_.push_back(tensors.front().numel());
  labels_.push_back(FlightLabel::current());
  works_.push_back(work);
  return work;
}

inline std::vector<std::int64_t> RecordingBackend::begun() const {
  const Lock lock(mutex_);
  return begun_;
}

inline std::vector<FlightLabel::Words> RecordingBackend::labels() const {
  const Lock lock(mutex_);
  return labels_;
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

// Runs `body` as each of `size` ranks, every one in its thread, and joins them. What failed in
// which rank, a line each; empty if nothing did.
inline std::string as_ranks(int size, const std::function<Result<void>(Rank&)>& body) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto& failure = failures[static_cast<std::size_t>(rank)];
      try {
        const auto done = run_rank(store, rank, size, body);
        if (!done) failure = lockstep::format("rank {}: {}\n", rank, done.error().message);
      } catch (const std::exception& exception) {
        failure = lockstep::format("rank {} threw: {}\n", rank, exception.what());
      }
    });
  for (auto& thread : threads) thread.join();
  return std::accumulate(failures.begin(), failures.end(), std::string());
}

}  // namespace lockstep::ranks_for_test
