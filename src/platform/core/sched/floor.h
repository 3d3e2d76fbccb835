// Floor: which devices of the map are taken, and the room that is left.
#pragma once

#include <span>
#include <vector>

#include "platform/core/sched/room.h"

namespace lockstep {

// Devices of one host, by its position in the map.
struct Taken {
  int host = 0;
  std::vector<int> devices;
};

class Floor {
 public:
  explicit Floor(const HostTable& table);  // outlives it

  const Room& room() const { return room_; }
  // The lowest free ones of each host: as many as the shape needs of the i-th.
  std::vector<Taken> take(const Shape& shape, std::span<const int> hosts);
  // These, as far as the map has them and they are free.
  std::vector<Taken> take(std::span<const Slice> slices);
  void give(std::span<const Taken> taken);
  std::vector<Slice> named(std::span<const Taken> taken) const;

 private:
  Taken take_lowest(int host, int devices);
  Taken take_these(int host, std::span<const int> devices);

  const HostTable& table_;
  Room room_;
  std::vector<std::vector<bool>> busy_;  // by host, by device
};

}  // namespace lockstep
