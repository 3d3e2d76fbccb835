#include "train/simulated_device/nccl_like.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/clock.h"
#include "train/simulated_device/memory.h"
#include "train/simulated_device/simulated_device.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::simulated_device {
namespace {

constexpr auto kLateness = std::chrono::microseconds(200);
constexpr auto kPollPause = std::chrono::microseconds(100);
// A kernel waits for a lost peer until the group is aborted; here, that the test may end.
constexpr auto kHangBound = std::chrono::minutes(1);

// As the group's stream sees a tensor.
struct Memory {
  explicit Memory(const at::Tensor& tensor)
      : begin(static_cast<std::byte*>(host_address(tensor.const_data_ptr()))),
        bytes(tensor.nbytes()) {}
  bool overlaps(const Memory& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
  void read(const at::Tensor& into) const { std::memcpy(into.mutable_data_ptr(), begin, bytes); }
  void write(const at::Tensor& from) const { std::memcpy(begin, from.const_data_ptr(), bytes); }
  void poison() const { std::memset(begin, kPoison, bytes); }

  std::byte* begin;
  std::size_t bytes;
};

// Gloo's sends and receives run only while a thread waits for them.
class Waiter {
 public:
  explicit Waiter(c10::intrusive_ptr<c10d::Work> work) {
    std::thread([work = std::move(work), state = state_] {
      try {
        work->wait();
      } catch (const std::exception&) {
        state->failed = true;
      }
      state->done = true;
    }).detach();
  }
  bool succeeded() const { return state_->done && !state_->failed; }

 private:
  struct State {
    std::atomic<bool> done{false}, failed{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// If a peer is lost, Gloo fails. A kernel would wait without end, so this waits for the abort.
void complete(const c10::intrusive_ptr<c10d::Work>& work, const std::atomic<bool>& aborted) {
  const auto type = work->retrieveOpType();
  std::optional<Waiter> waiter;
  if (type == c10d::OpType::SEND || type == c10d::OpType::RECV) waiter.emplace(work);
  const auto succeeded = [&] {
    return waiter ? waiter->succeeded() : work->isCompleted() && !work->exception();
  };
  const auto deadline = Deadline::after(kHangBound);
  while (!succeeded()) {
    TORCH_CHECK(!aborted, "NCCL communicator was aborted");
    TORCH_CHECK(!deadline.passed(), "a transfer hangs, and no one aborts it");
    std::this_thread::sleep_for(kPollPause);
  }
}

at::Tensor main_memory_like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()));
}

}  // namespace

// Undefined: no input, or no output.
struct NcclLikeBackend::Transfer {
  at::Tensor input;
  at::Tensor output;
  // Moves the data between tensors of the CPU.
  std::function<c10::intrusive_ptr<c10d::Work>(at::Tensor input, at::Tensor output)> move;
  // The rest, when they have arrived.
  std::function<void(const at::Tensor& input, const at::Tensor& output)> finish = nullptr;
};

class NcclLikeBackend::Work : public c10d::Work {
 public:
  Work(int rank, c10d::OpType type, c10::DeviceIndex device, std::vector<at::Tensor> tensors)
      : c10d::Work(rank, type), device_(device), tensors_(std::move(tensors)) {}

  bool isCompleted() override { return end_ && end_->done(); }
  bool isSuccess() const override { return !error(); }
  std::exception_ptr exception() const override { return error(); }
  bool wait(std::chrono::milliseconds bound) override {
    if (bound == kNoTimeout) {
      synchronize();
      return true;
    }
    count_host_wait(device_, HostWait::timed);
    const auto deadline = Deadline::after(bound);
    while (!end_->done()) {
      TORCH_CHECK(!deadline.passed(), "Work timed out after ", bound.count(), " ms");
      std::this_thread::sleep_for(kPollPause);
    }
    rethrow();
    tensors_.clear();
    return true;
  }
  void synchronize() override {
    if (end_->done()) rethrow();
    queue_of(current_stream(device_)).wait_for(end_);
    tensors_.clear();
  }
  void blockCurrentStream() override { synchronize(); }

  void set_end(std::shared_ptr<Event> end) { end_ = std::move(end); }
  void set_error(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    exception_ = std::move(error);
  }

 private:
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return exception_;
  }
  void rethrow() const {
    if (const auto failed = error()) std::rethrow_exception(failed);
  }

  const c10::DeviceIndex device_;
  std::vector<at::Tensor> tensors_;  // until the current stream waits
  std::shared_ptr<Event> end_;
};

NcclLikeBackend::NcclLikeBackend(c10::intrusive_ptr<c10d::Backend> inner,
                                 c10::intrusive_ptr<Options> options)
    : Backend(inner->getRank(), inner->getSize()),
      inner_(std::move(inner)),
      options_(std::move(options)) {
  ++living_;
}

NcclLikeBackend::~NcclLikeBackend() {
  // Gloo's destructor waits for its transfers, NCCL's does not after an abort. So it is kept.
  if (*aborted_) (void)inner_.release();
  *aborted_ = true;
  --living_;
}

// Like NCCL's: the options' group name and ranks are set by the caller.
c10::intrusive_ptr<c10d::Backend> NcclLikeBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& given) {
  auto options = c10::static_intrusive_pointer_cast<Options>(given);
  auto of_inner = inner_->getBackendOptions();
  of_inner->global_ranks_in_group = options->global_ranks_in_group;
  auto part = inner_->split(store, ranks, of_inner);
  options->split_from = c10::intrusive_ptr<NcclLikeBackend>::reclaim_copy(this);
  options->split_ranks = ranks;
  auto backend = c10::make_intrusive<NcclLikeBackend>(std::move(part), options);
  backend->split_ranks_ = ranks;
  return backend;
}

at::Tensor NcclLikeBackend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(stream_, "NCCL communicator has not been initialized before mem pool creation");
  return at::empty({size}, options);
}

void NcclLikeBackend::abort() { *aborted_ = true; }

void NcclLikeBackend::shutdown() {
  if (stream_ && !*aborted_) queue_of(*stream_).record()->wait();
  *aborted_ = true;
}

void NcclLikeBackend::check(const at::Tensor& tensor) {
  const auto device = tensor.device();
  TORCH_CHECK(device.type() == c10::kPrivateUse1, "No backend type associated with device type ",
              device.type());
  TORCH_CHECK(tensor.is_contiguous(), "Tensors must be contiguous");
  TORCH_CHECK(!*aborted_, "NCCL communicator was aborted");
  if (!stream_) stream_ = new_stream(device.index());
  TORCH_CHECK(stream_->device() == device, "Duplicate GPU detected: this rank has communicated on ",
              stream_->device(), ", and now on ", device);
  if (const auto mine = std::exchange(split_ranks_, std::nullopt))
    TORCH_CHECK(options_->split_ranks == *mine, "the options of this part are those of another");
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::queue(c10d::OpType type, Transfer transfer) {
  std::vector<at::Tensor> tensors;
  std::optional<Memory> from, to;
  if (transfer.input.defined()) {
    tensors.push_back(transfer.input);
    from.emplace(transfer.input);
  }
  if (transfer.output.defined()) {
    tensors.push_back(transfer.output);
    to.emplace(transfer.output);
  }
  for (const auto& tensor : tensors) check(tensor);
  const auto input = from ? main_memory_like(transfer.input) : at::Tensor();
  const auto output = to ? main_memory_like(transfer.output) : at::Tensor();
  const auto device = tensors.front().device().index();
  auto work = c10::make_intrusive<Work>(getRank(), type, device, std::move(tensors));
  auto& queue = queue_of(*stream_);
  queue.wait_for(queue_of(current_stream(device)).record());
  const auto run = [=, move = std::move(transfer.move), finish = std::move(transfer.finish),
                    aborted = aborted_] {
    const bool in_place = from && to && from->overlaps(*to);
    if (in_place) from->read(input);
    if (to) to->poison();
    std::this_thread::sleep_for(kLateness);
    if (from && !in_place) from->read(input);
    complete(move(input, output), *aborted);
    if (finish) finish(input, output);
    if (to) to->write(output);
  };
  queue.push([run, work] {
    try {
      run();
    } catch (const std::exception&) {
      work->set_error(std::current_exception());
    }
  });
  work->set_end(queue.record());
  return work;
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                          const c10d::AllreduceOptions& options) {
  return queue(c10d::OpType::ALLREDUCE,
               {tensors.front(), tensors.front(),
                [inner = inner_, options](at::Tensor input, const at::Tensor& output) {
                  output.copy_(input);
                  std::vector<at::Tensor> all{output};
                  return inner->allreduce(all, options);
                }});
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                          const c10d::BroadcastOptions& options) {
  return queue(c10d::OpType::BROADCAST,
               {tensors.front(), tensors.front(),
                [inner = inner_, options](at::Tensor input, const at::Tensor& output) {
                  output.copy_(input);
                  std::vector<at::Tensor> all{output};
                  return inner->broadcast(all, options);
                }});
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return queue(c10d::OpType::_ALLGATHER_BASE,
               {input, output, [inner = inner_, options](at::Tensor part, at::Tensor whole) {
                  return inner->_allgather_base(whole, part, options);
                }});
}

// Gloo's own runs only while a thread waits for it.
c10::intrusive_ptr<c10d::Work> NcclLikeBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return queue(c10d::OpType::_REDUCE_SCATTER_BASE,
               {input, output,
                [inner = inner_, op = options.reduceOp](at::Tensor whole, const at::Tensor&) {
                  c10d::AllreduceOptions all;
                  all.reduceOp = op;
                  std::vector<at::Tensor> tensors{std::move(whole)};
                  return inner->allreduce(tensors, all);
                },
                [rank = getRank()](const at::Tensor& whole, const at::Tensor& part) {
                  part.copy_(whole.narrow(0, rank * part.numel(), part.numel()));
                }});
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
    std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  return queue(c10d::OpType::ALLTOALL_BASE, {input, output,
                                             [inner = inner_, output_sizes, input_sizes, options](
                                                 at::Tensor from, at::Tensor to) mutable {
                                               return inner->alltoall_base(to, from, output_sizes,
                                                                           input_sizes, options);
                                             }});
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::send(std::vector<at::Tensor>& tensors, int peer,
                                                     int tag) {
  return queue(
      c10d::OpType::SEND,
      {tensors.front(), {}, [inner = inner_, peer, tag](at::Tensor input, const at::Tensor&) {
         std::vector<at::Tensor> all{std::move(input)};
         return inner->send(all, peer, tag);
       }});
}

c10::intrusive_ptr<c10d::Work> NcclLikeBackend::recv(std::vector<at::Tensor>& tensors, int peer,
                                                     int tag) {
  return queue(
      c10d::OpType::RECV,
      {{}, tensors.front(), [inner = inner_, peer, tag](const at::Tensor&, at::Tensor output) {
         std::vector<at::Tensor> all{std::move(output)};
         return inner->recv(all, peer, tag);
       }});
}

}  // namespace lockstep::train::simulated_device
