// SchedulingPolicy: what the one pass decides by, as data. Order, place, who may pass a run that
// has to wait and whether runs are moved are values, not code: first come first served, shortest
// job first and ours differ in these fields alone.
#pragma once

#include "base/units.h"

namespace lockstep {

// Who stands ahead of whom, among runs of one priority. Ties: who arrived first, then by id.
//   arrival   first come, first served
//   shortest  the smallest time-out first: Want's limit + used
//   aged      the smallest key first: arrived + aging x min(time-out, aging_cap). The key never
//             changes, so that nobody is passed by those who come much later: a run by others at
//             most `aging` times its own time-out younger.
enum class Order { arrival, shortest, aged };

// Where a run goes among the places that can hold it.
//   first  the lowest hosts by the map's order
//   best   those that leave the large holes whole: see sched/place.h
//   fragmentation  those that leave least of no use to runs of usual sizes, in the pod, then on the
//                  host (FGD)
enum class Fit { first, best, fragmentation };

// Who may start while a run ahead of him, the head, has to wait.
//   nobody    so that the head waits for those who hold devices alone
//   anybody   who fits; the head may wait for ever behind smaller ones
//   backfill  who does not delay the head (EASY): he ends by the time at which the head can start,
//             or leaves it the devices that it needs then
enum class Passing { nobody, anybody, backfill };

// In which order backfill looks at those who stand behind the head.
//   in_turn   as they stand, each once
//   shortest  the smallest time-out first, and once one has started again from the smallest on
enum class Candidates { in_turn, shortest };

// For whom normal runs of one host are paused that may be: they go back to their checkpoint and
// stand again where they stood. Each has run for at least a checkpoint's interval before.
//   nobody
//   debug            for runs in the lane, see below
//   debug_and_large  and for a head that needs whole hosts: those who stand behind it
enum class Pausing { nobody, debug, debug_and_large };

struct SchedulingPolicy {
  // Among runs of one rank; see lane_percent for debug runs. Preemptible ones stand behind all
  // others, and whoever else waits first and would fit in their stead has them evicted.
  Order order = Order::aged;
  int aging = 20;
  Duration aging_cap{};  // zero: none
  Fit fit = Fit::best;
  Passing passing = Passing::backfill;
  Candidates candidates = Candidates::in_turn;
  // Who passes the head may change its reservation so that another could, too. True: a decision
  // goes over the queue again until nobody starts, and is one of the state alone, whatever led
  // there. False: once, as the literature defines EASY.
  bool settles = false;
  // When the head waits though as many devices are free as it needs, small runs (on one host, not
  // all of it) are moved together to make room, if no more devices move than the head gets.
  bool moves = false;
  // The debug lane: as long as debug runs hold no more than this share of the devices, one more
  // stands ahead of all others. Beyond it, and where it is 0, debug runs stand with the normal
  // ones.
  int lane_percent = 0;
  Pausing pausing = Pausing::nobody;
  // For how many of those that have to wait a place is kept, first come first (backfill).
  int reservations = 1;
  // The longest that a run holds devices beyond its limit, to start and to leave: for
  // latest_starts().
  Duration overhead{};
  // Whether the devices of those who are moved or evicted are free at once, as a replay assumes. If
  // not, a decision only says who has to go; whoever he goes for starts when he has gone.
  bool vacates_at_once = true;
  // What a move is reckoned to cost the moved run: what it did since its last checkpoint, which it
  // writes so often after its start, and its restart. It is expected to end later by that.
  Duration checkpoint_interval = std::chrono::minutes(30);
  Duration restart_time = std::chrono::minutes(2);
};

// By the names that the literature and docs/design/scheduler.md have for them. Limits that are the
// true running times make `easy` and `shortest` those with exact estimates.
namespace policies {
inline constexpr SchedulingPolicy kFifo{.order = Order::arrival, .passing = Passing::nobody};
inline constexpr SchedulingPolicy kFifoGreedy{.order = Order::arrival, .passing = Passing::anybody};
inline constexpr SchedulingPolicy kEasy{.order = Order::arrival, .passing = Passing::backfill};
inline constexpr SchedulingPolicy kEasyShortest{.order = Order::arrival,
                                                .candidates = Candidates::shortest};
inline constexpr SchedulingPolicy kShortestStrict{.order = Order::shortest,
                                                  .passing = Passing::nobody};
inline constexpr SchedulingPolicy kShortest{.order = Order::shortest, .passing = Passing::anybody};
// Without moves, large gangs keep too much waiting beside them if long time-outs count in full.
inline constexpr SchedulingPolicy kOurs{.aging_cap = std::chrono::hours(72), .settles = true};
inline constexpr SchedulingPolicy kOursWithMoves{
    .settles = true, .moves = true, .lane_percent = 10, .pausing = Pausing::debug_and_large};
}  // namespace policies

}  // namespace lockstep
