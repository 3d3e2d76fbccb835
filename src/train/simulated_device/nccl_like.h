// A c10d backend for tensors of the simulated device, which behaves as ProcessGroupNCCL does where
// that differs from Gloo. Gloo moves the data; its ranks may be threads of one process.
//
// - A collective is queued on a stream of the group's own, after what the caller's current stream
//   has queued. wait() without a time-out makes the current stream wait, not the host; with one the
//   host waits, which is counted.
// - Late and poisoned: an output is NaN from the begin of a collective to its end, which comes some
//   time later. An input is read as late as possible.
// - Its tensors live until wait(), as NCCL's do. It does not keep the memory of a from_blob tensor.
// - It claims to have memory of its own, which fails before the first collective.
// - split() keeps the options that it is given, and writes into them; a part whose options changed
//   until its first collective fails.
// - shutdown() waits for all that is queued, without a bound; abort() ends it at once.
// - A collective on a tensor of another device than that of the first one fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::train::simulated_device {

class NcclLikeBackend : public c10d::Backend {
 public:
  static constexpr const char* kName = "simulated_nccl";

  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds bound) : c10d::Backend::Options(kName, bound) {}
    c10::intrusive_ptr<NcclLikeBackend> split_from;
    std::vector<int> split_ranks;
  };

  // `inner` serves the CPU, and has the same ranks.
  NcclLikeBackend(c10::intrusive_ptr<c10d::Backend> inner, c10::intrusive_ptr<Options> options);
  ~NcclLikeBackend() override;

  const std::string getBackendName() const override { return kName; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void abort() override;
  void shutdown() override;

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& output_sizes,
                                               std::vector<std::int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override;

  // Groups that were not yet destroyed, of all ranks of this process.
  static int living() { return living_; }

 private:
  struct Transfer;
  class Work;

  c10::intrusive_ptr<c10d::Work> queue(c10d::OpType type, Transfer transfer);
  void check(const at::Tensor& tensor);

  c10::intrusive_ptr<c10d::Backend> inner_;
  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<c10::Stream> stream_;            // of this group; made with the first collective
  std::optional<std::vector<int>> split_ranks_;  // of a part that has not yet communicated
  static inline std::atomic<int> living_{0};
};

}  // namespace lockstep::train::simulated_device
