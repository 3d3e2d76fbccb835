#include "comm/collective/communicator.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "comm/collective/start/join.h"
#include "lockstep/comm.h"

namespace lockstep {

struct Work::State {
  comm::OperationFuture future;
};

bool Work::done() const { return state_->future.done(); }
Result<void> Work::wait() const { return state_->future.wait(); }

struct Buffer::State {
  comm::Buffer buffer;
};

Buffer::Buffer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

std::span<std::byte> Buffer::bytes() const { return state_->buffer.span(); }

struct Communicator::Impl {
  // Shared by the world and its groups, which use its rendezvous.
  std::shared_ptr<const comm::JoinedWorld> joined;
  std::unique_ptr<comm::Communicator> group;  // null: the world

  comm::Communicator& communicator() const { return group ? *group : *joined->world; }
  comm::OperationFuture submit(const Call& call, comm::CallMode mode) const;
};

comm::OperationFuture Communicator::Impl::submit(const Call& call, comm::CallMode mode) const {
  auto& ranks = communicator();
  switch (call.operation) {
    case Operation::all_reduce:
      return ranks.all_reduce(call.output, call.type, call.op, mode);
    case Operation::reduce:
      return ranks.reduce(call.output, call.type, call.op, call.rank, mode);
    case Operation::reduce_scatter:
      return ranks.reduce_scatter(call.input, call.output, call.type, call.op, mode);
    case Operation::all_gather:
      return ranks.all_gather(call.input, call.output, mode);
    case Operation::broadcast:
      return ranks.broadcast(call.output, call.rank, mode);
    case Operation::gather:
      return ranks.gather(call.input, call.output, call.rank, mode);
    case Operation::scatter:
      return ranks.scatter(call.input, call.output, call.rank, mode);
    case Operation::all_to_all:
      return ranks.all_to_all(call.input, call.output, mode);
    case Operation::barrier:
      return ranks.barrier(mode);
    case Operation::send:
      return ranks.send(call.input, call.rank, call.tag);
    case Operation::recv:
      return ranks.recv(call.output, call.rank, call.tag);
  }
  return comm::OperationFuture::completed(Error{Code::invalid, "the operation is unknown"});
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_->communicator().rank(); }
int Communicator::size() const { return impl_->communicator().size(); }
const std::string& Communicator::network() const { return impl_->communicator().fabric(); }

std::vector<std::vector<int>> Communicator::hosts() const {
  const auto hosts = impl_->communicator().hosts();
  return {hosts.begin(), hosts.end()};
}

Work Communicator::start(const Call& call) {
  return Work(std::make_shared<Work::State>(impl_->submit(call, comm::CallMode::nonblocking)));
}

Result<void> Communicator::wait_for(const Call& call) {
  return impl_->submit(call, comm::CallMode::blocking).wait();
}

Result<Buffer> Communicator::allocate_bytes(std::size_t bytes) {
  auto memory = TRY(impl_->communicator().allocate(Bytes(static_cast<std::int64_t>(bytes))));
  return Buffer(std::make_unique<Buffer::State>(std::move(memory)));
}

Result<Communicator> Communicator::group(const std::string& name, std::span<const int> ranks) {
  const int own = impl_->joined->world->rank();
  const int size = impl_->joined->world->size();
  const bool in_range =
      std::ranges::all_of(ranks, [&](int rank) { return rank >= 0 && rank < size; });
  if (!in_range || std::ranges::find(ranks, own) == ranks.end())
    return Error{Code::invalid,
                 format("group {}: its ranks must be of this job's {} and include this rank, {}",
                        name, size, own)};
  auto group = TRY(impl_->joined->group(name, ranks));
  return Communicator(std::make_unique<Impl>(Impl{impl_->joined, std::move(group)}));
}

void Communicator::abort(Error error) { impl_->communicator().abort(std::move(error)); }

Result<Communicator> join(const JoinOptions& options) {
  auto joined = TRY(comm::join({.timeout = options.timeout}));
  return Communicator(std::make_unique<Communicator::Impl>(
      Communicator::Impl{std::make_shared<const comm::JoinedWorld>(std::move(joined)), nullptr}));
}

}  // namespace lockstep
