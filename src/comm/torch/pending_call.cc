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
#include "comm/torch/tensors.h"

namespace lockstep {
namespace {

// Most waits are short: before asking for a notice, look for as long as a notice would take.
constexpr Duration kSpin = std::chrono::microseconds(100);

void spin_until_ready(const PendingCall& call, const Deadline& deadline) {
  const Deadline spin = Deadline::after(std::min(kSpin, deadline.left()));
  while (!call.ready() && !spin.passed()) sched_yield();
}

// Shared by the waiter and the callback, which may come after the waiter has given up.
struct Notice {
  Mutex mutex;  // guards what follows
  bool given LS_GUARDED_BY(mutex) = false;
  Condition condition;
};

bool wait_until_ready(const PendingCall& call, const Deadline& deadline) {
  auto notice = std::make_shared<Notice>();
  call.when_ready([notice] {
    Lock lock(notice->mutex);
    notice->given = true;
    notice->condition.notify_all();
  });
  Lock lock(notice->mutex);
  while (!notice->given && !deadline.passed())
    notice->condition.wait_until(notice->mutex, deadline);
  return notice->given;
}

Result<void> make(const std::vector<std::pair<at::Tensor, at::Tensor>>& copies,
                  std::string_view what) {
  // Below autograd: the copies are part of the call, not of anybody's graph.
  at::AutoDispatchBelowADInplaceOrView guard;
  try {
    for (const auto& [to, from] : copies) to.copy_(from);
    return {};
  } catch (const std::exception& error) {
    return Error{Code::internal, format("{}: copying the result: {}", what, error.what())};
  }
}

template <class T>
void move_to(std::vector<T>& all, std::vector<T>& more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

}  // namespace

at::Tensor CallParts::receive_into(const std::vector<at::Tensor>& tensors) {
  if (auto lying = lying_in_order(tensors)) return *std::move(lying);
  const auto& first = tensors.front();
  const auto count = static_cast<std::int64_t>(tensors.size());
  at::Tensor blocks = at::empty({count, first.numel()}, first.options());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& tensor = tensors[static_cast<std::size_t>(i)];
    copy(tensor, blocks[i].view(tensor.sizes()));
  }
  return blocks;
}

void CallParts::append(CallParts other) {
  allowed = std::max(allowed, other.allowed);
  move_to(outputs, other.outputs);
  move_to(memory, other.memory);
  move_to(pendings, other.pendings);
  move_to(copies, other.copies);
  move_to(sources, other.sources);
}

PendingCall::PendingCall(CallParts parts)
    : what_(parts.what),
      outputs_(std::move(parts.outputs)),
      sources_(std::move(parts.sources)),
      pendings_(std::move(parts.pendings)),
      copies_(std::move(parts.copies)),
      memory_(std::move(parts.memory)) {}

std::optional<int> PendingCall::source() const {
  if (sources_.size() != 1 || !ready()) return std::nullopt;
  return *sources_.front();
}

bool PendingCall::ready() const {
  return std::all_of(pendings_.begin(), pendings_.end(),
                     [](const Pending& pending) { return pending.done(); });
}

Result<void> PendingCall::settle() {
  // All of them, also after an error: their memory is in use until each is done.
  Result<void> result;
  for (const auto& pending : pendings_)
    if (auto one = pending.wait(); !one && result) result = std::move(one);
  Lock lock(mutex_);
  if (!settled_) {
    if (result) result = make(copies_, what_);
    result_ = std::move(result);
    settled_ = true;
  }
  return result_;
}

Result<void> PendingCall::settle_by(Deadline deadline, Duration allowed) {
  spin_until_ready(*this, deadline);
  if (!ready() && !wait_until_ready(*this, deadline))
    return Error{Code::timeout,
                 format("{} was not done within {}; it goes on: wait longer, or see which rank is "
                        "behind",
                        what_, text(allowed))};
  return settle();
}

void PendingCall::when_ready(std::function<void()> callback) const {
  if (pendings_.empty()) return callback();
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> callback;
  };
  // Shared by the callbacks of all parts. The last one takes the callback out, so that what it
  // holds dies where it runs and not with the pendings.
  auto countdown = std::make_shared<Countdown>();
  countdown->left = pendings_.size();
  countdown->callback = std::move(callback);
  for (const auto& pending : pendings_)
    pending.on_done([countdown](const Result<void>&) {
      if (countdown->left.fetch_sub(1) == 1) std::exchange(countdown->callback, nullptr)();
    });
}

void PendingCall::release() {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<at::Tensor> memory;
  // Released before those above destroy what they took over.
  Lock lock(mutex_);
  if (!settled_) return;
  copies.swap(copies_);
  memory.swap(memory_);
}

}  // namespace lockstep
