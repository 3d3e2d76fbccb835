#include "comm/collective/host_move.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/collective/copy.h"

namespace lockstep {
namespace {

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
    const bool to_each = operation == Operation::scatter || operation == Operation::all_to_all;
    const bool from_root = operation == Operation::broadcast || operation == Operation::scatter;
    const bool to_root = operation == Operation::gather;
    block_ = call.header.bytes;
    blocks_ = to_each ? ranks_ : 1;
    for (std::size_t p = 0; p < ranks_; ++p) {
      if (host.rank(p) == call.root()) root_ = p;
      if (!from_root || host.rank(p) == call.root()) givers_.push_back(p);
    }
    if (to_root && place_ != root_) return;
    if (operation == Operation::broadcast && place_ == root_) return;
    for (std::size_t i = 0; i < givers_.size(); ++i) {  // each begins with another
      const auto giver = givers_[(place_ + i) % givers_.size()];
      fetches_.push_back({giver, to_each ? place_ : 0, from_root ? 0 : giver * block_});
    }
  }

  Result<void> run() {
    const auto bytes = blocks_ * block_;
    if (bytes <= HostGroup::kBringBytes) {
      TRY(host_.bring(call_.header, gives() ? call_.input : std::span<const std::byte>(), bytes));
      for (const auto& fetch : fetches_) {
        if (fetch.giver == place_) continue;
        copy_bytes(call_.output.data() + fetch.to,
                   host_.brought(fetch.giver) + fetch.block * block_, block_);
      }
      keep_own();
      return {};
    }
    TRY(host_.lend(call_.header, call_.input, {}));
    for (const auto giver : givers_)
      if (host_.input(giver, bytes) == nullptr) return staged();
    for (const auto& fetch : fetches_) {
      if (fetch.giver == place_) continue;
      copy_bytes(call_.output.data() + fetch.to,
                 host_.input(fetch.giver, bytes) + fetch.block * block_, block_);
    }
    keep_own();
    return host_.meet();
  }

 private:
  bool gives() const { return std::find(givers_.begin(), givers_.end(), place_) != givers_.end(); }

  // The block that this rank gives to itself. Where it lies already it must not be written: others
  // read it.
  void keep_own() {
    for (const auto& fetch : fetches_) {
      if (fetch.giver != place_ || block_ == 0) continue;
      auto* const to = call_.output.data() + fetch.to;
      const auto* const from = call_.input.data() + fetch.block * block_;
      if (to != from) std::memmove(to, from, block_);
    }
  }

  Result<void> staged() {
    const auto room = HostGroup::kStagingBytes / blocks_ / 64 * 64;
    for (std::size_t begin = 0; begin < block_; begin += room) {
      const auto piece = std::min(room, block_ - begin);
      for (std::size_t block = 0; gives() && block < blocks_; ++block)
        copy_bytes(host_.staging(place_) + block * room,
                   call_.input.data() + block * block_ + begin, piece);
      TRY(host_.meet());
      for (const auto& fetch : fetches_) {
        if (fetch.giver == place_) continue;
        copy_bytes(call_.output.data() + fetch.to + begin,
                   host_.staging(fetch.giver) + fetch.block * room, piece);
      }
      host_.flip();
    }
    keep_own();
    return {};
  }

  HostGroup& host_;
  const Call& call_;
  const std::size_t ranks_, place_;
  std::size_t root_ = 0;
  std::size_t block_ = 0;   // bytes
  std::size_t blocks_ = 0;  // of each giver's input
  std::vector<std::size_t> givers_;
  std::vector<Fetch> fetches_;
};

}  // namespace

Result<void> host_move(HostGroup& host, const Call& call) { return HostMove(host, call).run(); }

}  // namespace lockstep
