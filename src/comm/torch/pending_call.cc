#include "comm/torch/pending_call.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <sched.h>

#include "base/format.h"
#include "comm/collective/wait_time.h"
#include "comm/torch/tensors.h"

namespace lockstep::comm {
namespace {

// Most waits are short: before it waits for a signal, the caller polls for as long as a signal
// would take.
constexpr Duration kSpin = std::chrono::microseconds(100);

void spin_until_ready(const PendingCall& call, const Deadline& deadline) {
  const Deadline spin = Deadline::after(std::min(kSpin, deadline.remaining()));
  while (!call.ready() && !spin.passed()) sched_yield();
}

// Shared by the waiter and the callback, which may run after the waiter has given up.
struct ReadySignal {
  Mutex mutex;  // guards what follows
  bool given LS_GUARDED_BY(mutex) = false;
  Condition condition;
};

bool wait_until_ready(const PendingCall& call, const Deadline& deadline) {
  auto ready_signal = std::make_shared<ReadySignal>();
  call.on_ready([ready_signal] {
    Lock lock(ready_signal->mutex);
    ready_signal->given = true;
    ready_signal->condition.notify_all();
  });
  Lock lock(ready_signal->mutex);
  while (!ready_signal->given && !deadline.passed())
    ready_signal->condition.wait_until(ready_signal->mutex, deadline);
  return ready_signal->given;
}

Result<void> make(const std::vector<std::pair<at::Tensor, at::Tensor>>& copies,
                  const std::vector<std::function<void()>>& computations, std::string_view what) {
  // Below autograd: they are part of the call, not of a graph.
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    for (const auto& [to, from] : copies) to.copy_(from);
    for (const auto& compute : computations) compute();
    return {};
  } catch (const std::exception& error) {
    return Error{Code::internal, format("{}: making the result: {}", what, error.what())};
  }
}

void when_all_done(const std::vector<OperationFuture>& futures, std::function<void()> callback) {
  if (futures.empty()) return callback();
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> callback;
  };
  // Shared by the callbacks of all parts. The last one moves the callback out, so that its captures
  // are destroyed on that thread and not with the futures.
  auto countdown = std::make_shared<Countdown>();
  countdown->left = futures.size();
  countdown->callback = std::move(callback);
  for (const auto& pending : futures)
    pending.on_done([countdown](const Result<void>&) {
      if (countdown->left.fetch_sub(1) == 1) std::exchange(countdown->callback, nullptr)();
    });
}

template <class T>
void move_to(std::vector<T>& all, std::vector<T>& more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

}  // namespace

at::Tensor CallParts::receive_buffer_for(const std::vector<at::Tensor>& tensors) {
  if (auto lying = as_adjacent_rows(tensors)) return *std::move(lying);
  const auto& first = tensors.front();
  const auto count = static_cast<std::int64_t>(tensors.size());
  at::Tensor blocks = at::empty({count, first.numel()}, first.options());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& tensor = tensors[static_cast<std::size_t>(i)];
    copy(tensor, blocks[i].view(tensor.sizes()));
  }
  return blocks;
}

void CallParts::record_as(std::string_view name, at::TensorList inputs) {
  if (auto event = CallEvent::begin(name, inputs)) events.push_back(std::move(event));
}

void CallParts::end_event_when_done() const {
  if (events.empty()) return;
  when_all_done(futures, [event = events.front()] { event->end(); });
}

void CallParts::append(CallParts other) {
  timeout = std::max(timeout, other.timeout);
  move_to(outputs, other.outputs);
  move_to(memory, other.memory);
  move_to(futures, other.futures);
  move_to(copies, other.copies);
  move_to(computations, other.computations);
  move_to(sources, other.sources);
  move_to(events, other.events);
}

PendingCall::PendingCall(CallParts parts)
    : operation_(parts.operation),
      outputs_(std::move(parts.outputs)),
      sources_(std::move(parts.sources)),
      futures_(std::move(parts.futures)),
      events_(std::move(parts.events)),
      copies_(std::move(parts.copies)),
      computations_(std::move(parts.computations)),
      memory_(std::move(parts.memory)) {}

std::optional<int> PendingCall::source() const {
  if (sources_.size() != 1 || !ready()) return std::nullopt;
  return *sources_.front();
}

bool PendingCall::ready() const {
  return std::all_of(futures_.begin(), futures_.end(),
                     [](const OperationFuture& pending) { return pending.done(); });
}

Result<void> PendingCall::wait_and_finish() {
  // Waits for all of them, also after an error: their memory is in use until each is done.
  Result<void> result;
  for (const auto& pending : futures_)
    if (auto one = pending.wait(); !one && result) result = std::move(one);
  Lock lock(mutex_);
  if (!finished_) {
    if (result) result = make(copies_, computations_, operation_);
    result_ = std::move(result);
    finished_ = true;
    for (const auto& event : events_) event->end();  // before the caller can stop the profiler
  }
  return result_;
}

Result<void> PendingCall::wait_and_finish_until(Deadline deadline, Duration timeout) {
  const WaitScope waits;
  spin_until_ready(*this, deadline);
  if (!ready() && !wait_until_ready(*this, deadline))
    return Error{
        Code::timeout,
        format("{} was not done within {}; it continues: wait longer, or see which rank is "
               "behind",
               operation_, lockstep::text(timeout))};
  return wait_and_finish();
}

void PendingCall::on_ready(std::function<void()> callback) const {
  when_all_done(futures_, std::move(callback));
}

void PendingCall::release() {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<std::function<void()>> computations;
  std::vector<at::Tensor> memory;
  // The lock is released before the variables above are destroyed.
  Lock lock(mutex_);
  if (!finished_) return;
  copies.swap(copies_);
  computations.swap(computations_);
  memory.swap(memory_);
}

}  // namespace lockstep::comm
