// Moves: the head waits although as many devices are free as it needs, because they are scattered.
// Small runs are moved together, and the head starts.
//
// Example: four hosts of eight devices; a, b and c hold two devices each of h0, h1 and h2, and h3
// is full. The head needs sixteen on two hosts; eighteen are free. With a moved beside c and b too,
// h0 and h1 are empty: four devices move, for a head of sixteen.
//
// For each pod by itself: the hosts that take the fewest moved devices to make room for a node of
// the head are freed, and the runs on them go where they fit most tightly, anywhere on the map but
// on the head's hosts. Of the pods' plans the one that moves the fewest devices is taken, the
// lowest pod's among equals; none that moves more devices than the head gets.
//
// Only runs of one host that do not fill it, that may still be moved, are not leaving, and that
// were not placed or moved just now, are.
//
// Cost: holders + for each pod its hosts x log hosts, and a search for a place for each moved run.
#pragma once

#include <vector>

#include "platform/core/sched/holders.h"

namespace lockstep {

struct Relocation {
  RunId run;
  int host = 0;  // where it goes
};

// Whether the holder may be moved at all. Preemptible ones are evicted instead.
bool is_movable(const Holder& holder, Time now);
// What it takes with it.
Shape shape_of(const Holder& holder);

// Carried out in this order, they let the head fit; empty if there is no such way.
// room: what there will be when those have left who were asked to. free_now: what there is, where
// runs go.
std::vector<Relocation> relocations_for(const Room& room, const Room& free_now, const Gang& head,
                                        Holders& holders, Time now);

}  // namespace lockstep
