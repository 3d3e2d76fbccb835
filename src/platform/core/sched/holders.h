// Holders: who holds which devices, in the order in which they are expected to end.
#pragma once

#include <map>
#include <vector>

#include "platform/core/sched/floor.h"
#include "platform/core/sched/sorted.h"

namespace lockstep {

struct Holder {
  RunId run;
  std::vector<Taken> taken;
  Time expected_end{};
  int moves_left = 0;
  Time started{};
};

class Holders {
 public:
  // Of a holder, by when it ends; the pointer lives until the holder is removed.
  struct End {
    Time time{};
    const Holder* holder = nullptr;
  };

  Holders() : ends_(Sooner{}) {}

  void add(Holder holder);
  // It holds devices.
  Holder remove(const RunId& run);
  bool contains(const RunId& run) const { return by_run_.contains(run); }
  // By their end, then by their run.
  const std::vector<End>& by_end() { return ends_.items(); }

 private:
  struct Sooner {
    bool operator()(const End& a, const End& b) const;
  };

  std::map<RunId, Holder> by_run_;
  SortedItems<End, Sooner> ends_;
};

}  // namespace lockstep
