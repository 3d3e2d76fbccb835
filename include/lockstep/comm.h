// Collectives among the ranks of a job, over shared memory within a host and TCP or libfabric
// between hosts. Link Lockstep::comm.
//
//   #include <lockstep/comm.h>
//
//   int main() {
//     auto world = lockstep::join().value();
//     std::vector<float> values(1000, 1.0f);
//     world.all_reduce(std::span(values), lockstep::ReduceOp::sum).value();
//   }
//
// Start the program on each rank with lockstep run, torchrun --no-python, mpirun or srun.
//
// Each collective has two forms. all_reduce() returns when the operation is done, which is the
// fastest way for a caller that would wait at once. all_reduce_async() returns a Work; its buffers
// must stay valid and unchanged until the work is done. All ranks of a group submit the same
// collectives in the same order; they run in that order. send and recv run beside them.
//
// A call with bad arguments (a root out of range, sizes that do not match, the average of integers)
// fails with Code::invalid, and the communicator stays usable. Any other failure ends the
// communicator: a lost peer, a peer that is silent for the time-out, calls that do not match
// between ranks. Every pending and later call on every rank then fails with the same message, which
// names the rank at fault.
//
// The result of a reduction is bitwise equal on all ranks, and from run to run with the same ranks,
// hosts and sizes. 16-bit floats are added in 32 bits.
//
// At most 256 sends to one peer are in flight; further ones are queued, up to 65,536. Calls are
// safe from several threads; collectives of several threads have no defined order.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/data_type.h"
#include "lockstep/export.h"
#include "lockstep/result.h"

namespace lockstep {

// A contiguous range of a type with a DataType: std::span, std::vector, std::array.
template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       Element<std::ranges::range_value_t<R>>;

// A running operation. Copies share it. Destroying them does not cancel it.
class LOCKSTEP_EXPORT Work {
 public:
  bool done() const;
  // Returns when the operation is done, at the latest after the communicator's time-out. May be
  // called again, and from several threads.
  Result<void> wait() const;

 private:
  friend class Communicator;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Zeroed, page-aligned memory that the ranks of a host share: collectives within the host copy
// nothing from or to it. It stays valid after its communicator is destroyed.
class LOCKSTEP_EXPORT Buffer {
 public:
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  std::span<std::byte> bytes() const;
  template <Element T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes().data()), bytes().size() / sizeof(T)};
  }

 private:
  friend class Communicator;
  struct State;
  explicit Buffer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct JoinOptions {
  std::chrono::microseconds timeout = std::chrono::minutes(10);  // of joining, and of each call
};

// A group of ranks.
class LOCKSTEP_EXPORT Communicator {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Ends pending operations with Code::cancelled and tells the peers that this rank leaves.
  ~Communicator();

  int rank() const;
  int size() const;
  // The network from this rank to other hosts: "tcp over eth1". Empty: all ranks are on this host.
  const std::string& network() const;
  // The ranks of each host, ascending; hosts in the order of their lowest rank.
  std::vector<std::vector<int>> hosts() const;

  // In place: on every rank the reduction of all ranks' values.
  template <ElementRange R>
  Result<void> all_reduce(R&& values, ReduceOp op) {
    return wait_for(all_reduce_call(values, op));
  }
  template <ElementRange R>
  Work all_reduce_async(R&& values, ReduceOp op) {
    return start(all_reduce_call(values, op));
  }

  // In place at the root; the values of the others stay as they are.
  template <ElementRange R>
  Result<void> reduce(R&& values, ReduceOp op, int root) {
    return wait_for(reduce_call(values, op, root));
  }
  template <ElementRange R>
  Work reduce_async(R&& values, ReduceOp op, int root) {
    return start(reduce_call(values, op, root));
  }

  // input: size() blocks of the size of output. output: the reduction of all ranks' rank()-th
  // block.
  template <ElementRange In, ElementRange Out>
  Result<void> reduce_scatter(const In& input, Out&& output, ReduceOp op) {
    return wait_for(typed(Operation::reduce_scatter, input, output, op));
  }
  template <ElementRange In, ElementRange Out>
  Work reduce_scatter_async(const In& input, Out&& output, ReduceOp op) {
    return start(typed(Operation::reduce_scatter, input, output, op));
  }

  // output: size() blocks of the size of input, by rank. input may be its own block of output.
  template <ElementRange In, ElementRange Out>
  Result<void> all_gather(const In& input, Out&& output) {
    return wait_for(typed(Operation::all_gather, input, output));
  }
  template <ElementRange In, ElementRange Out>
  Work all_gather_async(const In& input, Out&& output) {
    return start(typed(Operation::all_gather, input, output));
  }

  // On every rank the values of the root.
  template <ElementRange R>
  Result<void> broadcast(R&& values, int root) {
    return wait_for(broadcast_call(values, root));
  }
  template <ElementRange R>
  Work broadcast_async(R&& values, int root) {
    return start(broadcast_call(values, root));
  }

  // output: at the root, size() blocks of the size of input; empty elsewhere.
  template <ElementRange In, ElementRange Out>
  Result<void> gather(const In& input, Out&& output, int root) {
    return wait_for(typed(Operation::gather, input, output, ReduceOp::sum, root));
  }
  template <ElementRange In, ElementRange Out>
  Work gather_async(const In& input, Out&& output, int root) {
    return start(typed(Operation::gather, input, output, ReduceOp::sum, root));
  }

  // input: at the root, size() blocks of the size of output; empty elsewhere.
  template <ElementRange In, ElementRange Out>
  Result<void> scatter(const In& input, Out&& output, int root) {
    return wait_for(typed(Operation::scatter, input, output, ReduceOp::sum, root));
  }
  template <ElementRange In, ElementRange Out>
  Work scatter_async(const In& input, Out&& output, int root) {
    return start(typed(Operation::scatter, input, output, ReduceOp::sum, root));
  }

  // Both are size() equal blocks and do not overlap: block r of the input becomes block rank() of
  // rank r's output.
  template <ElementRange In, ElementRange Out>
  Result<void> all_to_all(const In& input, Out&& output) {
    return wait_for(typed(Operation::all_to_all, input, output));
  }
  template <ElementRange In, ElementRange Out>
  Work all_to_all_async(const In& input, Out&& output) {
    return start(typed(Operation::all_to_all, input, output));
  }

  // Returns when every rank has called it.
  Result<void> barrier() { return wait_for({.operation = Operation::barrier}); }

  // Matched by (peer, tag), in order; the sizes must be equal, and tag >= 0. A send is done when
  // its buffer may be reused. A send of more than 4 KiB is done only after the peer has matched it.
  template <ElementRange R>
  Result<void> send(const R& values, int peer, int tag = 0) {
    return send_async(values, peer, tag).wait();
  }
  template <ElementRange R>
  Work send_async(const R& values, int peer, int tag = 0) {
    return start(
        {.operation = Operation::send, .input = bytes_of(values), .rank = peer, .tag = tag});
  }
  template <ElementRange R>
  Result<void> recv(R&& values, int peer, int tag = 0) {
    return recv_async(values, peer, tag).wait();
  }
  template <ElementRange R>
  Work recv_async(R&& values, int peer, int tag = 0) {
    return start(
        {.operation = Operation::recv, .output = writable(values), .rank = peer, .tag = tag});
  }

  // All-reduce of elements that have no C++ type (float16, bfloat16), in place.
  Result<void> all_reduce(std::span<std::byte> elements, DataType type, ReduceOp op) {
    return wait_for(
        {.operation = Operation::all_reduce, .output = elements, .type = type, .op = op});
  }

  // Memory for `count` elements of T.
  template <Element T>
  Result<Buffer> allocate(std::size_t count) {
    return allocate_bytes(count * sizeof(T));
  }

  // The group of these of the job's ranks (numbers in the communicator that join() returned), in
  // this order; this rank is among them. All of them call it with the same name, which is used for
  // nothing else.
  Result<Communicator> group(const std::string& name, std::span<const int> ranks);

  // Ends all pending and later calls with this error, here and on the other ranks.
  void abort(Error error);

 private:
  friend LOCKSTEP_EXPORT Result<Communicator> join(const JoinOptions& options);

  enum class Operation {
    all_reduce,
    reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    gather,
    scatter,
    all_to_all,
    barrier,
    send,
    recv,
  };
  // An operation without the types of its buffers.
  struct Call {
    Operation operation;
    std::span<const std::byte> input = {};
    std::span<std::byte> output = {};  // also of operations in place
    DataType type = DataType::uint8;
    ReduceOp op = ReduceOp::sum;
    int rank = 0;  // root or peer
    int tag = 0;
  };

  template <class R>
  static std::span<const std::byte> bytes_of(const R& values) {
    return std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values)));
  }
  template <class R>
  static std::span<std::byte> writable(R& values) {
    return std::as_writable_bytes(std::span(std::ranges::data(values), std::ranges::size(values)));
  }
  template <class R>
  static constexpr DataType type_of() {
    return DataTypeOf<std::ranges::range_value_t<R>>::value;
  }
  template <class R>
  static Call all_reduce_call(R& values, ReduceOp op) {
    return {.operation = Operation::all_reduce,
            .output = writable(values),
            .type = type_of<R>(),
            .op = op};
  }
  template <class R>
  static Call reduce_call(R& values, ReduceOp op, int root) {
    return {.operation = Operation::reduce,
            .output = writable(values),
            .type = type_of<R>(),
            .op = op,
            .rank = root};
  }
  template <class R>
  static Call broadcast_call(R& values, int root) {
    return {.operation = Operation::broadcast, .output = writable(values), .rank = root};
  }
  template <class In, class Out>
  static Call typed(Operation operation, const In& input, Out& output, ReduceOp op = ReduceOp::sum,
                    int root = 0) {
    static_assert(std::is_same_v<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>,
                  "input and output have elements of one type");
    return {.operation = operation,
            .input = bytes_of(input),
            .output = writable(output),
            .type = type_of<In>(),
            .op = op,
            .rank = root};
  }

  Work start(const Call& call);
  Result<void> wait_for(const Call& call);
  Result<Buffer> allocate_bytes(std::size_t bytes);

  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The communicator of all ranks of this job. The rank, the number of ranks and the other ranks'
// addresses come from the environment that lockstep run, torchrun, mpirun or srun sets. Returns
// when all ranks are connected. invalid: no launcher has set them.
//
// Outside of lockstep run the ranks find each other through a file in LOCKSTEP_MEETING_FOLDER, by
// default ~/.local/state/lockstep/meetings, which all hosts must share.
LOCKSTEP_EXPORT Result<Communicator> join(const JoinOptions& options = {});

}  // namespace lockstep
