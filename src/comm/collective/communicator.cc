#include "comm/collective/communicator.h"

#include <cstdlib>
#include <optional>

#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/fork_guard.h"
#include "comm/algorithm/algorithm.h"
#include "comm/choice/tuned.h"
#include "comm/collective/progress_engine.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/fabric/address/link_speed.h"
#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

Error invalid(std::string message) { return {Code::invalid, std::move(message)}; }

Result<void> check_reduction(std::size_t bytes, DataType type, ReduceOp op) {
  if (bytes % size_of(type) != 0)
    return invalid(format("{} bytes are no whole number of {} elements", bytes, text(type)));
  if (!is_defined(op, type))
    return invalid(format("the {} of {} is not defined; {}", text(op), text(type),
                          is_float(type) ? "reduce integers" : "use sum and divide"));
  return {};
}

MessageHeader move_header(Operation operation, std::size_t bytes, int root) {
  return make_header(operation, 0, bytes, DataType::uint8, ReduceOp::sum, root);
}

std::span<const std::byte> none() { return {}; }

Result<void> check_options(const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return invalid(format("rank {} of {} does not exist", options.rank, options.size));
  if (options.group.empty()) return invalid("a communicator's group needs a name");
  if (!options.members.ranks.empty() && std::ssize(options.members.ranks) != options.size)
    return invalid(format("{} members are named for a group of {} ranks",
                          options.members.ranks.size(), options.size));
  if (options.timeout.count() <= 0)
    return invalid(
        format("the time-out must be positive, got {}", lockstep::text(options.timeout)));
  return {};
}

constexpr auto kAlgorithmVariable = "LOCKSTEP_ALGORITHM";

constexpr auto kNoAlgorithm = "none";

std::string algorithm_name(const CommunicatorOptions& options) {
  const char* value = std::getenv(kAlgorithmVariable);
  const std::string name = !options.algorithm.empty() ? options.algorithm
                           : value != nullptr         ? value
                                                      : "";
  return name.empty() ? kNoAlgorithm : name;
}

Result<std::optional<CallPlan>> parse_algorithm(const std::string& name) {
  if (name == kNoAlgorithm) return std::optional<CallPlan>();
  auto plan = parse_plan(name);
  if (!plan) return std::move(plan).error().with_context(kAlgorithmVariable);
  return std::optional<CallPlan>(*plan);
}

Duration rendezvous_timeout_of(const CommunicatorOptions& options) {
  return options.rendezvous_timeout > Duration(0) ? options.rendezvous_timeout : options.timeout;
}

// Ranks that force different algorithms would wait for each other forever.
Result<void> check_algorithm(const CommunicatorOptions& options, const std::string& first,
                             const std::string& own) {
  if (first == own) return {};
  return invalid(format("rank {} has the algorithm {}, rank {} has {}: set {} alike on all ranks",
                        options.members.global_rank(0), first,
                        options.members.global_rank(options.rank), own, kAlgorithmVariable));
}

// The costs of the interface by which others reach this rank. If there is none, connecting reports
// it.
Costs costs_of_interface(const NetworkOptions& network) {
  const auto own = choose_address(network);
  return assumed_costs(own ? link_speed(own->interface) : std::nullopt);
}

std::string settings_key(const CommunicatorOptions& options) { return "settings/" + options.group; }

// The settings that rank 0 publishes before it connects to the others.
Result<void> publish_settings(const CommunicatorOptions& options, Rendezvous& rendezvous,
                              const std::string& algorithm) {
  auto given = options.costs ? options.costs : TRY(costs_from_environment(own_environment()));
  const Costs costs = given ? *std::move(given) : costs_of_interface(options.network);
  if (auto checked = check_tuned(costs.tuned); !checked)
    return std::move(checked).error().with_context(kCostsVariable);
  return rendezvous.set(settings_key(options), join_fields({algorithm, encode_costs(costs)}));
}

// Fetches rank 0's costs: with different costs, ranks would choose different plans.
Result<Costs> fetch_agreed_costs(const CommunicatorOptions& options, Rendezvous& rendezvous,
                                 const std::string& algorithm) {
  if (options.size == 1) return Costs{};
  const auto settings =
      TRY(rendezvous.get(settings_key(options), Deadline::after(rendezvous_timeout_of(options))));
  const auto fields = TRY(split_fields(settings, 2));
  TRY(check_algorithm(options, fields[0], algorithm));
  return parse_costs(fields[1]);
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(std::unique_ptr<Endpoint> endpoint, const CommunicatorOptions& options,
       const std::optional<CallPlan>& forced, const Costs& costs)
      : rank_(options.rank),
        size_(options.size),
        global_rank_(options.members.global_rank(options.rank)),
        engine_(std::move(endpoint), options.group, options.timeout, forced, costs) {}

  bool in_forked_child() const { return fork_guard_.in_child(); }
  // A forked child has no progress thread, so no submitted call would ever complete. Also, the
  // engine's lock may have been held at the fork.
  Result<void> check_process() const {
    if (!in_forked_child()) return {};
    return invalid(
        format("this process was forked from rank {}, to which the group belongs: "
               "communicate in rank {} itself, or make a new group here",
               global_rank_, global_rank_));
  }
  OperationFuture submit(const CollectiveCall& call, CallMode mode) {
    if (auto checked = check_process(); !checked)
      return OperationFuture::completed(std::move(checked));
    return engine_.submit(call, mode);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  ProgressEngine& engine() { return engine_; }

  Result<void> check_blocks(std::size_t whole, std::size_t block) const {
    if (whole == block * static_cast<std::size_t>(size_)) return {};
    return invalid(format("{} bytes are not {} blocks of {} bytes", whole, size_, block));
  }

  Result<void> check_root(int root) const {
    if (root >= 0 && root < size_) return {};
    return invalid(format("root {} is no rank of a group of {}", root, size_));
  }

  Result<void> check_tag(int tag) const {
    TRY(check_process());
    if (tag < 0) return invalid(format("a tag must not be negative, got {}", tag));
    return {};
  }

  Result<void> check_peer(int peer, int tag) const {
    TRY(check_tag(tag));
    if (peer < 0 || peer >= size_ || peer == rank_)
      return invalid(format("rank {} cannot send to or receive from rank {} in a group of {}",
                            rank_, peer, size_));
    return {};
  }

 private:
  const int rank_, size_;  // in the group
  const int global_rank_;  // in the run
  const ForkGuard fork_guard_;
  ProgressEngine engine_;
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// A forked child has no progress thread, and its descriptors are already closed. It releases the
// memory and nothing else.
Communicator::~Communicator() {
  if (impl_->in_forked_child()) (void)impl_.release();
}

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options,
                                                           Rendezvous& rendezvous) {
  TRY(check_options(options));
  if (options.members.ranks.empty()) options.members = GroupRanks::world(options.size);
  const auto rank = options.rank, size = options.size;
  const auto timeout = rendezvous_timeout_of(options);
  const auto algorithm = algorithm_name(options);
  const auto forced = TRY(parse_algorithm(algorithm));
  if (rank == 0 && size > 1) TRY(publish_settings(options, rendezvous, algorithm));
  auto endpoint =
      Endpoint::create({rank, size, options.host_id, options.secret, options.group, options.members,
                        timeout, options.network, options.membership, options.full_mesh_ranks},
                       rendezvous);
  if (!endpoint)
    return std::move(endpoint).error().with_context(
        format("rank {} joining {}", options.members.global_rank(rank), text(options.members)));
  auto costs = fetch_agreed_costs(options, rendezvous, algorithm);
  if (!costs) {
    (*endpoint)->send_abort({costs.error()});
    return std::move(costs).error();
  }
  auto impl = std::make_unique<Impl>(std::move(*endpoint), options, forced, *costs);
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

int Communicator::rank() const { return impl_->rank(); }
int Communicator::size() const { return impl_->size(); }
const std::string& Communicator::fabric() const { return impl_->engine().fabric(); }
std::span<const std::vector<int>> Communicator::hosts() const { return impl_->engine().hosts(); }
const Costs& Communicator::costs() const { return impl_->engine().costs(); }
std::uint64_t Communicator::wire_bytes() const { return impl_->engine().wire_bytes(); }

OperationFuture Communicator::all_reduce(std::span<std::byte> buffer, DataType type, ReduceOp op,
                                         CallMode mode) {
  if (auto checked = check_reduction(buffer.size(), type, op); !checked)
    return OperationFuture::completed(std::move(checked));
  return impl_->submit(
      {make_header(Operation::all_reduce, 0, buffer.size(), type, op, 0), {}, buffer}, mode);
}

OperationFuture Communicator::reduce(std::span<std::byte> buffer, DataType type, ReduceOp op,
                                     int root, CallMode mode) {
  auto checked = check_reduction(buffer.size(), type, op);
  if (checked) checked = impl_->check_root(root);
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->submit(
      {make_header(Operation::reduce, 0, buffer.size(), type, op, root), {}, buffer}, mode);
}

OperationFuture Communicator::reduce_scatter(std::span<const std::byte> input,
                                             std::span<std::byte> output, DataType type,
                                             ReduceOp op, CallMode mode) {
  auto checked = check_reduction(output.size(), type, op);
  if (checked) checked = impl_->check_blocks(input.size(), output.size());
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->submit(
      {make_header(Operation::reduce_scatter, 0, output.size(), type, op, 0), input, output}, mode);
}

OperationFuture Communicator::all_gather(std::span<const std::byte> input,
                                         std::span<std::byte> output, CallMode mode) {
  if (auto checked = impl_->check_blocks(output.size(), input.size()); !checked)
    return OperationFuture::completed(std::move(checked));
  return impl_->submit({move_header(Operation::all_gather, input.size(), 0), input, output}, mode);
}

OperationFuture Communicator::broadcast(std::span<std::byte> buffer, int root, CallMode mode) {
  if (auto checked = impl_->check_root(root); !checked)
    return OperationFuture::completed(std::move(checked));
  const auto input = rank() == root ? std::span<const std::byte>(buffer) : none();
  return impl_->submit({move_header(Operation::broadcast, buffer.size(), root), input, buffer},
                       mode);
}

OperationFuture Communicator::gather(std::span<const std::byte> input, std::span<std::byte> output,
                                     int root, CallMode mode) {
  auto checked = impl_->check_root(root);
  if (checked && rank() == root) checked = impl_->check_blocks(output.size(), input.size());
  if (checked && rank() != root && !output.empty())
    checked = invalid("only the root of a gather has an output");
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->submit({move_header(Operation::gather, input.size(), root), input, output}, mode);
}

OperationFuture Communicator::scatter(std::span<const std::byte> input, std::span<std::byte> output,
                                      int root, CallMode mode) {
  auto checked = impl_->check_root(root);
  if (checked && rank() == root) checked = impl_->check_blocks(input.size(), output.size());
  if (checked && rank() != root && !input.empty())
    checked = invalid("only the root of a scatter has an input");
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->submit({move_header(Operation::scatter, output.size(), root), input, output}, mode);
}

OperationFuture Communicator::all_to_all(std::span<const std::byte> input,
                                         std::span<std::byte> output, CallMode mode) {
  const auto block = input.size() / static_cast<std::size_t>(size());
  auto checked = impl_->check_blocks(input.size(), block);
  if (checked) checked = impl_->check_blocks(output.size(), block);
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->submit({move_header(Operation::all_to_all, block, 0), input, output}, mode);
}

OperationFuture Communicator::barrier(CallMode mode) {
  return impl_->submit({move_header(Operation::barrier, 0, 0)}, mode);
}

OperationFuture Communicator::send(std::span<const std::byte> buffer, int peer, int tag) {
  if (auto checked = impl_->check_peer(peer, tag); !checked)
    return OperationFuture::completed(std::move(checked));
  return impl_->engine().send(buffer, peer, tag);
}

OperationFuture Communicator::recv(std::span<std::byte> buffer, int peer, int tag) {
  if (auto checked = impl_->check_peer(peer, tag); !checked)
    return OperationFuture::completed(std::move(checked));
  return impl_->engine().recv(buffer, peer, tag);
}

OperationFuture Communicator::recv_from_any(std::span<std::byte> buffer, int tag, int& source) {
  auto checked = impl_->check_tag(tag);
  if (checked && size() == 1) checked = invalid("a group of one has no rank to receive from");
  if (!checked) return OperationFuture::completed(std::move(checked));
  return impl_->engine().recv(buffer, kAnyPeer, tag, &source);
}

Result<Buffer> Communicator::allocate(Bytes size) { return Buffer::create(size); }

void Communicator::abort(Error error) {
  if (!impl_->in_forked_child()) impl_->engine().abort(std::move(error));
}

void Communicator::set_timeout(Duration timeout) { impl_->engine().set_timeout(timeout); }

OperationFuture Communicator::end() const { return impl_->engine().end(); }

}  // namespace lockstep::comm
