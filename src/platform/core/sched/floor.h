// Floor: which devices of the map are taken, which hosts are open, and the room that is left.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/host_state.h"
#include "platform/core/sched/policy.h"
#include "platform/core/sched/room.h"
#include "platform/core/sched/taken_list.h"

namespace lockstep {

class Floor {
 public:
  explicit Floor(const HostTable& table);  // outlives it

  const Room& room() const { return room_; }
  // As a run with these needs sees it.
  Room room_for(const Needs& needs) const { return seen_by(needs, room_); }
  bool fits(const Gang& gang) const;
  // Where the gang goes, on avoided hosts only if it fits nowhere else; empty if it has to wait.
  std::vector<int> choose(const Gang& gang, Fit fit) const;

  // The lowest free ones of each host: as many as the shape needs of the i-th.
  TakenList take(const Shape& shape, std::span<const int> hosts);
  // These, as far as the map has them and they are free.
  TakenList take(std::span<const Slice> slices, const Needs& needs);
  void give(const TakenList& taken);
  // These will be taken soon: what is known of their hosts lies anywhere in memory.
  void fetch(std::span<const Slice> slices) const;
  std::vector<Slice> named(const TakenList& taken) const;

  // Why: one clause for people.
  void set(int host, HostState state, std::string why);
  HostState state(int host) const { return states_[as_index(host)]; }
  bool is_open(int host) const {
    return state(host) == HostState::open || state(host) == HostState::avoided;
  }
  const std::string& why(int host) const { return whys_[as_index(host)]; }
  const std::vector<int>& drained() const { return drained_; }  // ascending

 private:
  Taken take_lowest(int host, const Load& load);
  Taken take_these(int host, std::span<const int> devices);
  // Of a host's devices in busy_.
  struct Span {
    std::size_t first = 0;
    int capacity = 0;
  };
  std::size_t place_of(int host, int device) const {
    return spans_[as_index(host)].first + as_index(device);
  }

  const HostTable& table_;
  Room room_;
  std::vector<Span> spans_;             // by host
  std::vector<bool> busy_;              // by device, host after host
  std::vector<HostState> states_;       // by host
  std::vector<std::string> whys_;       // by host
  std::vector<int> avoided_, drained_;  // hosts, ascending
};

}  // namespace lockstep
