#include "comm/algorithm/host/host_copy.h"

#include <algorithm>
#include <cstring>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/host/host_staging.h"
#include "comm/algorithm/host/host_store_mode.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// For more bytes, zero-copy (two waits) is faster than inline (two copies).
constexpr std::size_t kInlineCopyBytes = 16 * 1024;
static_assert(kInlineCopyBytes <= HostGroup::kInlineBytes);

// One block that this rank copies to its output.
struct Fetch {
  std::size_t giver;  // local rank
  std::size_t block;  // of its input
  std::size_t to;     // offset in this rank's output
};

class HostCopy {
 public:
  HostCopy(HostGroup& host, const CollectiveCall& call)
      : host_(host), call_(call), ranks_(host.size()), local_rank_(host.local_rank()) {
    const auto operation = call.operation();
    to_all_ = operation == Operation::all_gather || operation == Operation::broadcast;
    to_each_ = operation == Operation::scatter || operation == Operation::all_to_all;
    from_root_ = operation == Operation::broadcast || operation == Operation::scatter;
    block_ = call.header.bytes;
    blocks_ = to_each_ ? ranks_ : 1;
    for (std::size_t p = 0; p < ranks_; ++p)
      if (host.rank(p) == call.root()) root_ = p;
    takes_ = operation == Operation::gather      ? local_rank_ == root_
             : operation == Operation::broadcast ? local_rank_ != root_
                                                 : true;
  }

  Result<void> run() {
    const auto bytes = blocks_ * block_;
    if (bytes <= kInlineCopyBytes) {
      const auto own = gives(local_rank_) ? call_.input : std::span<const std::byte>();
      TRY(host_.enter_inline(call_.header, own, bytes));
      fetch_all([&](const Fetch& fetch) {
        copy_bytes(call_.output.data() + fetch.to,
                   host_.inline_data(fetch.giver) + fetch.block * block_, block_);
      });
      copy_own_block();
      return {};
    }
    TRY(host_.enter_zero_copy(call_.header, call_.input,
                              to_all_ ? call_.output : std::span<std::byte>()));
    if (PerLocalRank<std::byte*> outputs; find_outputs(outputs))
      return write_to_all_outputs(outputs);
    for (std::size_t p = 0; p < ranks_; ++p)
      if (gives(p) && host_.input(p, bytes) == nullptr) return staged();
    fetch_all([&](const Fetch& fetch) {
      auto* const to = call_.output.data() + fetch.to;
      copy_to_all({&to, 1}, host_.input(fetch.giver, bytes) + fetch.block * block_, block_,
                  stores_of_fetches());
    });
    copy_own_block();
    return host_.barrier();
  }

 private:
  bool gives(std::size_t local_rank) const { return !from_root_ || local_rank == root_; }
  Fetch fetch_from(std::size_t giver) const {
    return {giver, to_each_ ? local_rank_ : 0, from_root_ ? 0 : giver * block_};
  }

  // Copies the blocks of the other ranks; each rank begins with a different one.
  template <class Copy>
  void fetch_all(Copy copy) const {
    for (std::size_t i = 1; takes_ && i < ranks_; ++i)
      if (const auto giver = (local_rank_ + i) % ranks_; gives(giver)) copy(fetch_from(giver));
  }

  StoreMode stores_of_fetches() const {
    const auto givers = from_root_ ? 1 : ranks_;
    const auto takers = call_.operation() == Operation::gather ? 1 : ranks_;
    return store_mode_for_own(2 * givers * takers * block_);
  }

  // Copies the block that this rank gives to itself. A block that is in place already must not be
  // written: others read it.
  void copy_own_block() const {
    if (!takes_ || !gives(local_rank_) || block_ == 0) return;
    const Fetch fetch = fetch_from(local_rank_);
    auto* const to = call_.output.data() + fetch.to;
    const auto* const from = call_.input.data() + fetch.block * block_;
    if (to != from) std::memmove(to, from, block_);
  }

  // For an operation that gives all ranks the same result.
  bool find_outputs(PerLocalRank<std::byte*>& outputs) const {
    for (std::size_t p = 0; p < ranks_; ++p) {
      outputs[p] = to_all_ ? host_.output(p, call_.output.size()) : nullptr;
      if (outputs[p] == nullptr) return false;
    }
    return true;
  }

  // Writes one part of the result to all outputs but the one that holds it already.
  Result<void> write_to_all_outputs(const PerLocalRank<std::byte*>& outputs) {
    const auto whole = call_.output.size();
    const auto own = from_root_ ? slice(whole, ranks_, local_rank_)
                                : ByteRange{local_rank_ * block_, (local_rank_ + 1) * block_};
    const auto* const from = from_root_ ? outputs[root_] + own.begin : call_.input.data();
    PerLocalRank<std::byte*> targets;
    std::size_t count = 0;
    for (std::size_t p = 0; p < ranks_; ++p)
      if (outputs[p] + own.begin != from) targets[count++] = outputs[p] + own.begin;
    copy_to_all(std::span(targets).first(count), from, own.count(),
                store_mode_for_others(ranks_ * whole, [&] { return host_.shares_cache(); }));
    return host_.barrier();
  }

  Result<void> staged() {
    const auto room = HostGroup::kStagingBytes / blocks_ / 64 * 64;
    for (std::size_t begin = 0; begin < block_; begin += room) {
      const auto piece = std::min(room, block_ - begin);
      for (std::size_t block = 0; gives(local_rank_) && block < blocks_; ++block)
        copy_bytes(host_.staging(local_rank_) + block * room,
                   call_.input.data() + block * block_ + begin, piece);
      TRY(host_.barrier());
      fetch_all([&](const Fetch& fetch) {
        auto* const to = call_.output.data() + fetch.to + begin;
        copy_to_all({&to, 1}, host_.staging(fetch.giver) + fetch.block * room, piece,
                    stores_of_fetches());
      });
      host_.next_staging_buffer();
    }
    copy_own_block();
    return {};
  }

  HostGroup& host_;
  const CollectiveCall& call_;
  const std::size_t ranks_, local_rank_;
  bool to_all_ = false, to_each_ = false, from_root_ = false;
  bool takes_ = true;  // this rank receives
  std::size_t root_ = 0;
  std::size_t block_ = 0;   // bytes
  std::size_t blocks_ = 0;  // of each giver's input
};

}  // namespace

Result<void> host_copy(HostGroup& host, const CollectiveCall& call) {
  return HostCopy(host, call).run();
}

}  // namespace lockstep::comm
