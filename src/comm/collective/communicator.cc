#include "comm/collective/communicator.h"

#include <cstring>

#include <unistd.h>

#include "base/format.h"
#include "comm/collective/choice.h"
#include "comm/collective/dissemination_barrier.h"
#include "comm/collective/progress_engine.h"
#include "comm/collective/ring_all_gather.h"
#include "comm/collective/ring_all_reduce.h"
#include "comm/collective/ring_broadcast.h"
#include "comm/collective/ring_reduce_scatter.h"

namespace lockstep {
namespace {

Error invalid(std::string message) { return {Code::invalid, std::move(message)}; }

Result<void> check_reduction(std::size_t bytes, DataType type, ReduceOp op) {
  if (bytes % size_of(type) != 0)
    return invalid(format("{} bytes are no whole number of {} elements", bytes, text(type)));
  if (op == ReduceOp::average && !is_float(type))
    return invalid(format("the average of {} is not defined; use sum and divide", text(type)));
  return {};
}

Result<void> check_options(const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return invalid(format("rank {} of {} does not exist", options.rank, options.size));
  if (options.group.empty()) return invalid("a communicator's group needs a name");
  if (options.timeout.count() <= 0)
    return invalid(format("the time-out must be positive, got {}", text(options.timeout)));
  return {};
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(std::unique_ptr<Endpoint> endpoint, int rank, int size, Duration timeout)
      : rank_(rank), size_(size), engine_(std::move(endpoint), timeout) {}

  bool in_forked_child() const { return ::getpid() != pid_; }
  // A forked child has no progress thread, so nothing that it submits would ever be done; and the
  // engine's lock may have been taken when it was forked.
  Result<void> check_process() const {
    if (!in_forked_child()) return {};
    return invalid(
        format("this process was forked from rank {}, to which the group belongs: "
               "communicate in rank {} itself, or make a new group here",
               rank_, rank_));
  }
  Pending submit(const Header& header, ProgressEngine::Algorithm algorithm) {
    if (auto checked = check_process(); !checked) return Pending::finished(std::move(checked));
    return engine_.submit(header, std::move(algorithm));
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  ProgressEngine& engine() { return engine_; }

  Result<void> check_blocks(std::size_t whole, std::size_t block) const {
    if (whole == block * static_cast<std::size_t>(size_)) return {};
    return invalid(format("{} bytes are not {} blocks of {} bytes", whole, size_, block));
  }

  Result<void> check_peer(int peer, int tag) const {
    TRY(check_process());
    if (peer < 0 || peer >= size_ || peer == rank_)
      return invalid(format("rank {} cannot send to or receive from rank {} in a group of {}",
                            rank_, peer, size_));
    if (tag < 0) return invalid(format("a tag must not be negative, got {}", tag));
    return {};
  }

 private:
  const int rank_, size_;
  const pid_t pid_ = ::getpid();
  ProgressEngine engine_;
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// A forked child has no progress thread, and its descriptors are closed already: it drops the
// memory and touches nothing.
Communicator::~Communicator() {
  if (impl_->in_forked_child()) (void)impl_.release();
}

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options,
                                                           Rendezvous& rendezvous) {
  TRY(check_options(options));
  const auto rank = options.rank, size = options.size;
  const auto timeout = options.timeout;
  auto endpoint = Endpoint::create({rank, size, options.host_id, options.secret, options.group,
                                    timeout, options.provider, options.address},
                                   rendezvous);
  if (!endpoint)
    return std::move(endpoint).error().within(
        format("rank {} joining group '{}'", rank, options.group));
  auto impl = std::make_unique<Impl>(std::move(*endpoint), rank, size, timeout);
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

int Communicator::rank() const { return impl_->rank(); }
int Communicator::size() const { return impl_->size(); }

Pending Communicator::all_reduce(std::span<std::byte> buffer, DataType type, ReduceOp op) {
  if (auto checked = check_reduction(buffer.size(), type, op); !checked)
    return Pending::finished(std::move(checked));
  const auto header = make_header(Operation::all_reduce, 0, buffer.size(), type, op, 0);
  return impl_->submit(header, [=](Exchange& exchange) -> Result<void> {
    if (exchange.size() == 1) return {};
    if (choose_all_reduce(buffer.size(), exchange.size()) == Algorithm::flat)
      return flat_all_reduce(exchange, buffer, type, op);
    return ring_all_reduce(exchange, buffer, type, op);
  });
}

Pending Communicator::reduce_scatter(std::span<const std::byte> input, std::span<std::byte> output,
                                     DataType type, ReduceOp op) {
  auto checked = check_reduction(output.size(), type, op);
  if (checked) checked = impl_->check_blocks(input.size(), output.size());
  if (!checked) return Pending::finished(std::move(checked));
  const auto header = make_header(Operation::reduce_scatter, 0, output.size(), type, op, 0);
  return impl_->submit(header, [=](Exchange& exchange) -> Result<void> {
    if (exchange.size() > 1) return ring_reduce_scatter(exchange, input, output, type, op);
    if (!output.empty()) std::memmove(output.data(), input.data(), output.size());
    return {};
  });
}

Pending Communicator::all_gather(std::span<const std::byte> input, std::span<std::byte> output) {
  if (auto checked = impl_->check_blocks(output.size(), input.size()); !checked)
    return Pending::finished(std::move(checked));
  const auto header =
      make_header(Operation::all_gather, 0, input.size(), DataType::uint8, ReduceOp::sum, 0);
  return impl_->submit(header, [=](Exchange& exchange) -> Result<void> {
    if (exchange.size() > 1) return ring_all_gather(exchange, input, output);
    if (!output.empty()) std::memmove(output.data(), input.data(), output.size());
    return {};
  });
}

Pending Communicator::broadcast(std::span<std::byte> buffer, int root) {
  if (root < 0 || root >= size())
    return Pending::finished(invalid(format("root {} is no rank of a group of {}", root, size())));
  const auto header =
      make_header(Operation::broadcast, 0, buffer.size(), DataType::uint8, ReduceOp::sum, root);
  return impl_->submit(header, [=](Exchange& exchange) -> Result<void> {
    if (exchange.size() == 1) return {};
    return ring_broadcast(exchange, buffer, root);
  });
}

Pending Communicator::barrier() {
  const auto header = make_header(Operation::barrier, 0, 0, DataType::uint8, ReduceOp::sum, 0);
  return impl_->submit(header, dissemination_barrier);
}

Pending Communicator::send(std::span<const std::byte> buffer, int peer, int tag) {
  if (auto checked = impl_->check_peer(peer, tag); !checked)
    return Pending::finished(std::move(checked));
  return impl_->engine().send(buffer, peer, tag);
}

Pending Communicator::recv(std::span<std::byte> buffer, int peer, int tag) {
  if (auto checked = impl_->check_peer(peer, tag); !checked)
    return Pending::finished(std::move(checked));
  return impl_->engine().recv(buffer, peer, tag);
}

Result<Buffer> Communicator::allocate(Bytes size) { return Buffer::create(size); }

void Communicator::abort(Error error) {
  if (!impl_->in_forked_child()) impl_->engine().abort(std::move(error));
}

}  // namespace lockstep
