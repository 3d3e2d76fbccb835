// Process groups for machines with one GPU, where NCCL has no second rank. Like NCCL's they work on
// a stream of their own: a collective is queued there after what the caller's stream has queued.
//
// - The lone rank is one of a world in which all others hold what it holds. It copies on the device
//   only, so it never makes the host wait. It splits into parts of the same kind.
// - The staged group has real ranks, as many as there are, on one device. Gloo, or another backend
//   for the CPU, moves the data through main memory, in a thread of the group.
//
// Both serve the CPU too, so that the acceptance's own code can be tested there.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>

namespace lockstep::gpu_acceptance {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

constexpr auto kBound = std::chrono::seconds(60);  // of a collective
constexpr auto kPollPause = std::chrono::microseconds(50);

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Complete when it is queued and, on a device, its end is reached.
class StreamWork : public c10d::Work {
 public:
  StreamWork(int rank, c10d::OpType type, Tensors tensors)
      : c10d::Work(rank, type), device_(tensors.front().device()), tensors_(std::move(tensors)) {}

  void set_queued(std::optional<c10::Event> end, std::exception_ptr error = nullptr) {
    const std::lock_guard lock(state_mutex_);
    end_ = std::move(end);
    error_ = std::move(error);
    queued_ = true;
    changed_.notify_all();
  }

  bool isCompleted() override {
    const std::lock_guard lock(state_mutex_);
    return queued_ && (!end_ || end_->query());
  }
  bool isSuccess() const override { return !exception(); }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(state_mutex_);
    return error_;
  }
  // As NCCL's: with a time-out the host waits for the data.
  bool wait(std::chrono::milliseconds timeout) override {
    blockCurrentStream();
    if (timeout == kNoTimeout) return true;
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!isCompleted()) {
      TORCH_CHECK(std::chrono::steady_clock::now() < deadline, "the collective is late");
      std::this_thread::sleep_for(kPollPause);
    }
    return true;
  }
  void synchronize() override { blockCurrentStream(); }
  void blockCurrentStream() override {
    std::unique_lock lock(state_mutex_);
    TORCH_CHECK(changed_.wait_for(lock, kBound, [&] { return queued_; }),
                "a collective was not queued within a minute: do all ranks call it?");
    if (error_) std::rethrow_exception(error_);
    if (end_) end_->block(current_stream(device_));
    tensors_.clear();
  }

 private:
  const c10::Device device_;
  mutable std::mutex state_mutex_;  // guards what follows
  std::condition_variable changed_;
  Tensors tensors_;  // until the current stream waits
  bool queued_ = false;
  std::optional<c10::Event> end_;
  std::exception_ptr error_;
};

// A stream of the group's own, and the order between it and the callers' streams.
class GroupStream {
 public:
  // Before work on the stream: what the caller has queued so far. Nothing on the CPU.
  std::optional<c10::Event> begin(c10::Device device) {
    if (device.is_cpu()) return std::nullopt;
    if (!stream_)
      stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    c10::Event queued(device.type());
    queued.record(current_stream(device));
    return queued;
  }
  // Runs `act` on the stream, after that event; returns the event of its end.
  std::optional<c10::Event> run(std::optional<c10::Event> after, const std::function<void()>& act) {
    const at::AutoDispatchBelowAutograd no_autograd;
    if (!after) {
      act();
      return std::nullopt;
    }
    after->block(*stream_);
    const c10::StreamGuard guard(*stream_);
    act();
    c10::Event end(stream_->device_type());
    end.record(*stream_);
    return end;
  }

 private:
  std::optional<c10::Stream> stream_;
};

struct Options : c10d::Backend::Options {
  explicit Options(const std::string& name) : c10d::Backend::Options(name) {}
};

class LoneRank : public c10d::Backend {
 public:
  static constexpr const char* kName = "lone_rank";

  LoneRank(int rank, int size) : Backend(rank, size) {}

  const std::string getBackendName() const override { return kName; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>&) override {
    const auto place = std::ranges::find(ranks, getRank()) - ranks.begin();
    return c10::make_intrusive<LoneRank>(static_cast<int>(place), static_cast<int>(ranks.size()));
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return queue(c10d::OpType::ALLREDUCE, tensors,
                 [this, tensor = tensors.front(), op = options.reduceOp] { multiply(tensor, op); });
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions&) override {
    return queue(c10d::OpType::BROADCAST, tensors, [] {});
  }
  WorkPointer _allgather_base(at::Tensor& whole, at::Tensor& part,
                              const c10d::AllgatherOptions&) override {
    return queue(c10d::OpType::_ALLGATHER_BASE, {whole, part}, [this, whole, part] {
      for (int rank = 0; rank < getSize(); ++rank) slot(whole, rank).copy_(part);
    });
  }
  WorkPointer _reduce_scatter_base(at::Tensor& part, at::Tensor& whole,
                                   const c10d::ReduceScatterOptions& options) override {
    return queue(c10d::OpType::_REDUCE_SCATTER_BASE, {part, whole},
                 [this, part, whole, op = options.reduceOp] {
                   part.copy_(slot(whole, getRank()));
                   multiply(part, op);
                 });
  }

 private:
  at::Tensor slot(const at::Tensor& whole, int rank) const {
    const auto elements = whole.numel() / getSize();
    return whole.view(-1).narrow(0, rank * elements, elements);
  }
  // The reduction over equal tensors.
  void multiply(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
    if (op == c10d::ReduceOp::SUM) tensor.mul_(getSize());
  }
  WorkPointer queue(c10d::OpType type, Tensors tensors, const std::function<void()>& act) {
    const auto device = tensors.front().device();
    auto work = c10::make_intrusive<StreamWork>(getRank(), type, std::move(tensors));
    work->set_queued(stream_.run(stream_.begin(device), act));
    return work;
  }

  const c10::intrusive_ptr<Options> options_ = c10::make_intrusive<Options>(kName);
  GroupStream stream_;
};

class StagedGroup : public c10d::Backend {
 public:
  static constexpr const char* kName = "staged";

  explicit StagedGroup(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        thread_([this] { run_queue(); }) {}
  ~StagedGroup() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const std::string getBackendName() const override { return kName; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return inner_->getBackendOptions();
  }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    return c10::make_intrusive<StagedGroup>(inner_->split(store, ranks, options));
  }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return queue(c10d::OpType::ALLREDUCE, {tensors.front(), tensors.front()},
                 [this, options](const at::Tensor& to, const at::Tensor& from) {
                   to.copy_(from);
                   Tensors all{to};
                   finish(inner_->allreduce(all, options));
                 });
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return queue(c10d::OpType::BROADCAST, {tensors.front(), tensors.front()},
                 [this, options](const at::Tensor& to, const at::Tensor& from) {
                   to.copy_(from);
                   Tensors all{to};
                   finish(inner_->broadcast(all, options));
                 });
  }
  WorkPointer _allgather_base(at::Tensor& whole, at::Tensor& part,
                              const c10d::AllgatherOptions& options) override {
    return queue(c10d::OpType::_ALLGATHER_BASE, {whole, part},
                 [this, options](at::Tensor to, at::Tensor from) {
                   finish(inner_->_allgather_base(to, from, options));
                 });
  }
  // By an all-reduce, which every backend for the CPU has.
  WorkPointer _reduce_scatter_base(at::Tensor& part, at::Tensor& whole,
                                   const c10d::ReduceScatterOptions& options) override {
    return queue(c10d::OpType::_REDUCE_SCATTER_BASE, {part, whole},
                 [this, op = options.reduceOp](const at::Tensor& to, const at::Tensor& from) {
                   c10d::AllreduceOptions reduction;
                   reduction.reduceOp = op;
                   Tensors all{from};
                   finish(inner_->allreduce(all, reduction));
                   to.copy_(from.narrow(0, getRank() * to.numel(), to.numel()));
                 });
  }

 private:
  struct Tensor2 {
    at::Tensor to, from;
  };
  // Moves the data between tensors of main memory.
  using Move = std::function<void(at::Tensor to, at::Tensor from)>;

  static void finish(const WorkPointer& work) {
    TORCH_CHECK(work->wait(kBound), "the collective was aborted");
  }

  WorkPointer queue(c10d::OpType type, Tensor2 tensors, Move move) {
    auto work = c10::make_intrusive<StreamWork>(getRank(), type, Tensors{tensors.to, tensors.from});
    auto before = std::make_shared<std::optional<c10::Event>>(stream_.begin(tensors.to.device()));
    const auto act = [this, work, before, tensors = std::move(tensors), move = std::move(move)] {
      try {
        work->set_queued(stream_.run(std::move(*before), [&] { stage(tensors, move); }));
      } catch (const std::exception&) {
        work->set_queued(std::nullopt, std::current_exception());
      }
    };
    {
      const std::lock_guard lock(mutex_);
      queue_.emplace_back(act);
    }
    changed_.notify_all();
    return work;
  }

  static void stage(const Tensor2& tensors, const Move& move) {
    const auto from = tensors.from.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).view(-1);
    const auto to =
        at::empty({tensors.to.numel()}, at::TensorOptions(at::kCPU).dtype(tensors.to.dtype()));
    move(to, from);
    tensors.to.view(-1).copy_(to);
  }

  void run_queue() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto act = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      act();
    }
  }

  const c10::intrusive_ptr<c10d::Backend> inner_;
  GroupStream stream_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses all of these
};

c10::intrusive_ptr<c10d::Backend> lone_rank(int rank, int size) {
  return c10::make_intrusive<LoneRank>(rank, size);
}

c10::intrusive_ptr<c10d::Backend> staged(c10::intrusive_ptr<c10d::Backend> inner) {
  return c10::make_intrusive<StagedGroup>(std::move(inner));
}

}  // namespace
}  // namespace lockstep::gpu_acceptance

PYBIND11_MODULE(_gpu_backends, module) {
  module.def("lone_rank", &lockstep::gpu_acceptance::lone_rank);
  module.def("staged", &lockstep::gpu_acceptance::staged);
}
