// Backend: torch.distributed's backend "lockstep", for CPU tensors, over a Communicator. Tensors of
// a device for which a backend is registered (device_backend.h) go to that backend.
//
// Collectives of a group run one after the other in the order of submission, which must be the same
// on all its ranks; sends and receives run beside them. A call raises at once only for invalid
// arguments. Tensors that are not contiguous are copied.
//
// If a call's options say that its caller waits (asyncOp is false, and no time-out of its own), the
// caller's thread executes it; it is done when it returns, and returns no Work. All others return a
// Work at once.
//
// Not supported: sparse tensors other than in all_reduce, more than one tensor a rank.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "comm/collective/communicator.h"
#include "comm/torch/backend_group.h"
#include "comm/torch/pending_call.h"

namespace lockstep::comm {

// For a group whose ranks connect again after a death; its subgroups use the same. ConnectOptions
// has the details.
struct RecoveryContext {
  int generation = 0;
  Duration rendezvous_timeout = Duration(0);
  std::weak_ptr<Membership> membership = {};
};

class Backend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // Tags of send and recv are below this limit; higher tags are reserved for the backend.
  static constexpr int kTagLimit = 1 << 30;

  // Returns when all ranks of the group are connected. open_store: for the backend of a device.
  static Result<c10::intrusive_ptr<Backend>> create(CommunicatorOptions options,
                                                    Rendezvous& rendezvous,
                                                    const RecoveryContext& reunion,
                                                    DeviceGroup::OpenStore open_store);
  const std::string getBackendName() const override { return "lockstep"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // size: number of elements. On the CPU the memory is one that the communicator can send without a
  // copy, and may be reused from an earlier tensor. On a device it is torch's.
  at::Tensor allocateTensor(long size, at::TensorOptions options = {}) override;
  void setSequenceNumberForGroup() override {}  // all ranks count from zero
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  // For later calls of tensors on the CPU.
  void setTimeout(std::chrono::milliseconds timeout) override;
  void enableCollectivesTiming() override {}  // the flight record times all calls

  // The group of these of our ranks, in this order; null for a rank that is not one of them.
  // options->group_name is its name ("shard 1"), and a key space. Its ranks connect through the
  // store. If that is null, they use LOCKSTEP_RENDEZVOUS: then every rank of the run makes the same
  // number of groups.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;

  // A new group of `size` ranks, in which this one is `rank`. They connect through the store.
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& options,
                                          const int& rank, const int& size) override;

  // Calls of a thread between the two start at once but return no Work: the Work of endCoalescing()
  // represents all of them. A batch that was begun and not ended, as torch does after an error, is
  // dropped when the thread begins the next; its started calls continue.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // Ends running calls and leaves the group, within two seconds; later calls are refused.
  void shutdown() override { group_->leave(); }
  // The same, and the other ranks' calls fail with an error that says so.
  void abort() override;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  // output_lists[r][i] becomes inputs[i] of rank r.
  WorkPtr allgather_coalesced(std::vector<Tensors>& output_lists, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // Raises DistBackendError if a rank does not enter within the time-out (of the options, else the
  // group's), on all ranks that do. It names the first late rank or, with wait_all_ranks, all. The
  // group stays usable.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // This backend lacks these calls (backend_refused.cc). The error names the call and another way.
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;

  // For intrusive_ptr only: use create().
  Backend(std::unique_ptr<Communicator> communicator, GroupRanks members, Duration timeout,
          const RecoveryContext& reunion, DeviceGroup::OpenStore open_store);

 private:
  struct Batch {
    CallParts parts{.operation = "batch"};
    std::optional<at::Device> device = {};  // of the calls that the device's backend has
  };

  // Raises after the group was left.
  std::shared_ptr<Communicator> communicator();
  // inputs: the tensors whose shapes torch's profilers show.
  template <class Options>
  CallParts begin(std::string_view operation, const Options& options, at::TensorList inputs) {
    const bool waits = !options.asyncOp && options.timeout.count() <= 0 && !in_batch();
    CallParts parts{.operation = operation,
                    .mode = waits ? CallMode::blocking : CallMode::nonblocking,
                    .timeout = options.timeout};
    parts.record(inputs);
    return parts;
  }
  // The Work of the started call; null if it is done, or part of a batch.
  WorkPtr start(c10d::OpType type, CallParts parts);
  WorkPtr work_of(c10d::OpType type, CallParts parts);

  // Calls a function of the backend that serves the device of the tensor.
  template <class Function, class... Arguments>
  WorkPtr on_device(const at::Tensor& tensor, Function function, Arguments&... arguments);

  bool in_batch();
  bool add_to_batch(CallParts& parts);  // false: this thread has begun none
  // In a batch that has no call of the device yet.
  bool begins_device_batch(at::Device device);
  std::optional<Batch> take_batch();
  WorkPtr work_of_batch(Batch batch);

  void add_all_reduce(CallParts& parts, at::Tensor& tensor, const c10d::ReduceOp& op);
  void add_all_gather(CallParts& parts, const at::Tensor& output, const at::Tensor& input);
  void add_reduce_scatter(CallParts& parts, at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceOp& op);
  void add_all_to_all(CallParts& parts, const at::Tensor& output, const at::Tensor& input);
  // Sends inputs[r] to and receives outputs[r] from each rank r.
  void add_exchange(CallParts& parts, const Tensors& outputs, const Tensors& inputs);
  // The rest of a recv into `tensor`; `begin_recv` starts it with the memory to receive into.
  // event: its name in profilers, that of torch's other backends.
  template <class BeginRecv>
  WorkPtr receive(std::string_view event, Tensors& tensors, int tag, BeginRecv begin_recv);
  void check_root(std::string_view what, std::int64_t root) const;

  // tensor: sparse (COO). Waits until all ranks have made the call.
  void add_sparse_all_reduce(CallParts& parts, const at::Tensor& tensor, const c10d::ReduceOp& op);
  // How many entries each rank has in its tensor.
  std::vector<std::int64_t> exchange_entry_counts(std::string_view what, const at::Tensor& tensor);

  void await_all_ranks(Duration timeout, bool name_all);
  void await_rank_0(Duration timeout, bool name_all);
  static std::shared_ptr<PendingCall> barrier_message(OperationFuture sent_or_received,
                                                      const at::Tensor& memory);
  // Raises its failure; a message that is not done by then continues.
  bool is_done_by(const Deadline& deadline, const std::shared_ptr<PendingCall>& message);
  // By their global ranks.
  std::vector<int> late_ranks(const at::Tensor& is_late) const;

  const GroupRanks members_;
  std::atomic<Duration> timeout_;
  const RecoveryContext recovery_context_;
  const std::shared_ptr<BackendGroup> group_;  // shared with BackendGroup::leave_all()
  std::atomic<std::uint64_t> sequence_ = 0;
  Mutex batches_mutex_;  // guards what follows
  std::map<std::thread::id, Batch> batches_ LS_GUARDED_BY(batches_mutex_);
};

template <class Function, class... Arguments>
Backend::WorkPtr Backend::on_device(const at::Tensor& tensor, Function function,
                                    Arguments&... arguments) {
  ++sequence_;
  return DeviceGroup::call(group_->device_group(), tensor.device(), [&](c10d::Backend& backend) {
    if (begins_device_batch(tensor.device())) backend.startCoalescing();
    return (backend.*function)(arguments...);
  });
}

}  // namespace lockstep::comm
