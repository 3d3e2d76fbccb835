#include "comm/algorithm/host_move.h"

#include <algorithm>
#include <cstring>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/host_staging.h"
#include "comm/algorithm/host_stores.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// More is faster lent, though that waits twice, than brought, which copies twice.
constexpr std::size_t kBroughtBytes = 16 * 1024;
static_assert(kBroughtBytes <= HostGroup::kBringBytes);

// One block that this rank fetches.
struct Fetch {
  std::size_t giver;  // place
  std::size_t block;  // of its input
  std::size_t to;     // offset in this rank's output
};

class HostMove {
 public:
  HostMove(HostGroup& host, const Call& call)
      : host_(host), call_(call), ranks_(host.size()), place_(host.place()) {
    const auto operation = call.operation();
    to_all_ = operation == Operation::all_gather || operation == Operation::broadcast;
    to_each_ = operation == Operation::scatter || operation == Operation::all_to_all;
    from_root_ = operation == Operation::broadcast || operation == Operation::scatter;
    block_ = call.header.bytes;
    blocks_ = to_each_ ? ranks_ : 1;
    for (std::size_t p = 0; p < ranks_; ++p)
      if (host.rank(p) == call.root()) root_ = p;
    takes_ = operation == Operation::gather      ? place_ == root_
             : operation == Operation::broadcast ? place_ != root_
                                                 : true;
  }

  Result<void> run() {
    const auto bytes = blocks_ * block_;
    if (bytes <= kBroughtBytes) {
      const auto own = gives(place_) ? call_.input : std::span<const std::byte>();
      TRY(host_.bring(call_.header, own, bytes));
      fetch_all([&](const Fetch& fetch) {
        copy_bytes(call_.output.data() + fetch.to,
                   host_.brought(fetch.giver) + fetch.block * block_, block_);
      });
      keep_own();
      return {};
    }
    TRY(host_.lend(call_.header, call_.input, to_all_ ? call_.output : std::span<std::byte>()));
    if (PerPlace<std::byte*> outputs; find_outputs(outputs)) return push(outputs);
    for (std::size_t p = 0; p < ranks_; ++p)
      if (gives(p) && host_.input(p, bytes) == nullptr) return staged();
    fetch_all([&](const Fetch& fetch) {
      auto* const to = call_.output.data() + fetch.to;
      copy_to_all({&to, 1}, host_.input(fetch.giver, bytes) + fetch.block * block_, block_,
                  stores_of_fetches());
    });
    keep_own();
    return host_.meet();
  }

 private:
  bool gives(std::size_t place) const { return !from_root_ || place == root_; }
  Fetch fetch_from(std::size_t giver) const {
    return {giver, to_each_ ? place_ : 0, from_root_ ? 0 : giver * block_};
  }

  // What others give; each rank begins with another.
  template <class Copy>
  void fetch_all(Copy copy) const {
    for (std::size_t i = 1; takes_ && i < ranks_; ++i)
      if (const auto giver = (place_ + i) % ranks_; gives(giver)) copy(fetch_from(giver));
  }

  Stores stores_of_fetches() const {
    const auto givers = from_root_ ? 1 : ranks_;
    const auto takers = call_.operation() == Operation::gather ? 1 : ranks_;
    return stores_into_own(2 * givers * takers * block_);
  }

  // The block that this rank gives to itself. Where it lies already it must not be written: others
  // read it.
  void keep_own() const {
    if (!takes_ || !gives(place_) || block_ == 0) return;
    const Fetch fetch = fetch_from(place_);
    auto* const to = call_.output.data() + fetch.to;
    const auto* const from = call_.input.data() + fetch.block * block_;
    if (to != from) std::memmove(to, from, block_);
  }

  // Of an operation that gives all ranks the same.
  bool find_outputs(PerPlace<std::byte*>& outputs) const {
    for (std::size_t p = 0; p < ranks_; ++p) {
      outputs[p] = to_all_ ? host_.output(p, call_.output.size()) : nullptr;
      if (outputs[p] == nullptr) return false;
    }
    return true;
  }

  // One part of the result into all outputs but the one where it lies already.
  Result<void> push(const PerPlace<std::byte*>& outputs) {
    const auto whole = call_.output.size();
    const auto own = from_root_ ? slice(whole, ranks_, place_)
                                : ByteRange{place_ * block_, (place_ + 1) * block_};
    const auto* const from = from_root_ ? outputs[root_] + own.begin : call_.input.data();
    PerPlace<std::byte*> targets;
    std::size_t count = 0;
    for (std::size_t p = 0; p < ranks_; ++p)
      if (outputs[p] + own.begin != from) targets[count++] = outputs[p] + own.begin;
    copy_to_all(std::span(targets).first(count), from, own.count(),
                stores_into_others(ranks_ * whole, [&] { return host_.near(); }));
    return host_.meet();
  }

  Result<void> staged() {
    const auto room = HostGroup::kStagingBytes / blocks_ / 64 * 64;
    for (std::size_t begin = 0; begin < block_; begin += room) {
      const auto piece = std::min(room, block_ - begin);
      for (std::size_t block = 0; gives(place_) && block < blocks_; ++block)
        copy_bytes(host_.staging(place_) + block * room,
                   call_.input.data() + block * block_ + begin, piece);
      TRY(host_.meet());
      fetch_all([&](const Fetch& fetch) {
        auto* const to = call_.output.data() + fetch.to + begin;
        copy_to_all({&to, 1}, host_.staging(fetch.giver) + fetch.block * room, piece,
                    stores_of_fetches());
      });
      host_.flip();
    }
    keep_own();
    return {};
  }

  HostGroup& host_;
  const Call& call_;
  const std::size_t ranks_, place_;
  bool to_all_ = false, to_each_ = false, from_root_ = false;
  bool takes_ = true;  // this rank
  std::size_t root_ = 0;
  std::size_t block_ = 0;   // bytes
  std::size_t blocks_ = 0;  // of each giver's input
};

}  // namespace

Result<void> host_move(HostGroup& host, const Call& call) { return HostMove(host, call).run(); }

}  // namespace lockstep
