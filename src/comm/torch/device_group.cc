#include "comm/torch/device_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "comm/device/device_backend.h"
#include "comm/torch/store_rendezvous.h"
#include "comm/torch/work.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

constexpr auto kPollPause = milliseconds(1);
// A rank that leaves, or ends its process, has ended its kernels; those of the others end soon.
constexpr auto kGrace = milliseconds(300);
// The device's backend may see a loss first. Its text does not name the rank; the group's does.
constexpr auto kReasonBound = std::chrono::seconds(1);

// The group's reason if it has ended, or ends soon.
std::exception_ptr reason_or(std::exception_ptr own, const OperationFuture& group_end) {
  for (const auto bound = Deadline::after(kReasonBound); !group_end.done() && !bound.passed();)
    std::this_thread::sleep_for(kPollPause);
  if (!group_end.done()) return own;
  const auto end = group_end.wait();
  return end ? own : as_exception(end.error());
}

template <class Call>
std::invoke_result_t<Call> explained(const OperationFuture& group_end, Call&& call) {
  try {
    return call();
  } catch (const std::exception&) {
    std::rethrow_exception(reason_or(std::current_exception(), group_end));
  }
}

class DeviceWork : public c10d::Work {
 public:
  DeviceWork(c10::intrusive_ptr<c10d::Work> work, OperationFuture group_end,
             std::shared_ptr<const std::atomic<bool>> aborted)
      : c10d::Work(-1, work->retrieveOpType()),
        work_(std::move(work)),
        group_end_(std::move(group_end)),
        aborted_(std::move(aborted)) {}

  bool isCompleted() override {
    const bool aborted = *aborted_;  // first: if it is false, completion is real
    const bool completed = work_->isCompleted();
    if (completed && !aborted) completed_ = true;
    return completed || aborted;
  }
  bool isSuccess() const override { return !exception() && work_->isSuccess(); }
  std::exception_ptr exception() const override {
    const auto own = work_->exception();
    return own || was_cut() ? reason_or(own, group_end_) : nullptr;
  }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  bool wait(milliseconds timeout) override {
    return explained(group_end_, [&] {
      const bool done = work_->wait(timeout);
      throw_if_cut();
      return done;
    });
  }
  void synchronize() override {
    explained(group_end_, [&] {
      work_->synchronize();
      throw_if_cut();
    });
  }
  void blockCurrentStream() override {
    explained(group_end_, [&] {
      work_->blockCurrentStream();
      throw_if_cut();
    });
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return work_->getFuture(); }
  std::uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

 private:
  bool was_cut() const { return *aborted_ && !completed_; }
  void throw_if_cut() const {
    TORCH_CHECK_WITH(DistBackendError, !was_cut(), "the transfer was aborted");
  }

  const c10::intrusive_ptr<c10d::Work> work_;
  const OperationFuture group_end_;
  const std::shared_ptr<const std::atomic<bool>> aborted_;
  std::atomic<bool> completed_ = false;  // before an abort, as far as the callers know
};

// True for one without a handle, too.
bool is_complete(const c10::weak_intrusive_ptr<c10d::Work>& running) {
  const auto work = running.lock();
  return !work || work->isCompleted();
}

}  // namespace

DeviceGroup::DeviceGroup(Options options, OperationFuture group_end)
    : options_(std::move(options)), group_end_(std::move(group_end)) {}

bool DeviceGroup::serves(const at::Tensor& tensor) {
  return !tensor.is_cpu() && find_device_backend(tensor.device().type()).has_value();
}

DeviceGroup::WorkPtr DeviceGroup::call(const std::shared_ptr<DeviceGroup>& group, at::Device device,
                                       const StartCall& start) {
  return explained(group->group_end_, [&]() -> WorkPtr {
    const auto backend = find_or_make_backend(group, device);
    if (group->group_end_.done()) raise_failure(group->group_end_.wait().error());
    auto work = start(*backend);
    const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    const Lock lock(group->mutex_);
    group->stream_ = stream;
    if (!work) return work;
    work = c10::make_intrusive<DeviceWork>(std::move(work), group->group_end_, group->aborted_);
    auto& running = group->running_;
    while (!running.empty() && is_complete(running.front())) running.pop_front();
    running.emplace_back(work);
    return work;
  });
}

c10::intrusive_ptr<c10d::Backend> DeviceGroup::find_or_make_backend(
    const std::shared_ptr<DeviceGroup>& group, at::Device device) {
  const Lock lock(group->mutex_);
  if (group->backend_) return group->backend_;
  const auto& options = group->options_;
  auto store = options.open_store(group->group_end_);
  if (!store) raise_failure(store.error());
  const auto& ranks = options.members.ranks;
  group->backend_ = find_device_backend(device.type())
                        ->create({.store = *std::move(store),
                                  .rank = options.rank,
                                  .size = options.size,
                                  .name = text(options.members),
                                  .global_ranks = {ranks.begin(), ranks.end()},
                                  .timeout = std::chrono::ceil<milliseconds>(options.timeout),
                                  .device = device,
                                  .recoverable = options.recoverable});
  group->watcher_ =
      std::thread([group, backend = group->backend_] { group->abort_when_ended(backend); });
  return group->backend_;
}

void DeviceGroup::drain(Duration bound) {
  std::optional<c10::Stream> stream;
  {
    const Lock lock(mutex_);
    stream = stream_;
  }
  if (!stream) return;
  c10::Event event(stream->device_type());
  event.record(*stream);
  const auto deadline = Deadline::after(bound);
  while (!(event.query() && all_complete()) && !group_end_.done() && !deadline.passed())
    std::this_thread::sleep_for(kPollPause);
}

bool DeviceGroup::all_complete() {
  const Lock lock(mutex_);
  return std::all_of(running_.begin(), running_.end(), is_complete);
}

void DeviceGroup::join() {
  c10::intrusive_ptr<c10d::Backend> backend;  // destroyed without the lock
  std::thread watcher;
  {
    const Lock lock(mutex_);
    watcher.swap(watcher_);
    if (group_end_.done()) backend = std::move(backend_);
  }
  if (!watcher.joinable()) return;
  // A call on another thread keeps the communicator: the watcher then ends with that call.
  if (group_end_.done())
    watcher.join();
  else
    watcher.detach();
}

void DeviceGroup::abort_when_ended(const c10::intrusive_ptr<c10d::Backend>& backend) {
  (void)group_end_.wait();
  try {
    const auto deadline = Deadline::after(kGrace);
    while (!all_complete() && !gives_up_ && !deadline.passed())
      std::this_thread::sleep_for(kPollPause);
    *aborted_ = true;
    backend->abort();
  } catch (const std::exception& error) {
    LS_LOG(warning, "rank {}: aborting the transfers of a device ({}): {}",
           options_.members.global_rank(options_.rank), text(options_.members), reason(error));
  }
}

}  // namespace lockstep::comm
