// SchedulingPolicy: the parameters of the scheduler. Order, fit, backfill and moves are values, not
// code. First come first served, shortest job first and the default policy differ in these fields
// alone.
#pragma once

#include "base/units.h"

namespace lockstep::sched {

// Queue order among runs of one tier. Ties: by arrival, then by id.
//   arrival   first come, first served
//   shortest  the smallest time limit first: PendingRun's time_limit + time_used
//   aged      the smallest key first: arrived + aging x min(time limit, aging_cap). The key never
//             changes. So a run is passed only by runs that arrived at most `aging` times its own
//             time limit later.
enum class QueueOrder { arrival, shortest, aged };

// Which hosts a run gets among those that can hold it.
//   first  the lowest hosts by the map's order
//   best   those that preserve large blocks of free devices: see sched/choose_hosts.h
//   fragmentation  those that leave the fewest devices of no use to runs of usual sizes, in the
//                  pod, then on the host (FGD)
enum class Fit { first, best, fragmentation };

// Which runs may start while a run ahead of them, the head, has to wait.
//   none    no run: the head waits only for the runs that hold devices
//   greedy  every run that fits; the head may wait forever behind smaller ones
//   easy    a run that does not delay the head (EASY): it ends before the head can start, or
//           leaves the head the devices that it needs then
enum class BackfillMode { none, greedy, easy };

// In which order backfill considers the runs behind the head.
//   in_queue_order  as they are queued, each once
//   shortest_first  the smallest time limit first; after each start again from the smallest
enum class BackfillOrder { in_queue_order, shortest_first };

// For which runs normal runs of one host are paused, if they may be: they go back to their
// checkpoint and keep their place in the queue. Each has run for at least a checkpoint interval.
//   never
//   debug            for runs in the debug share, see below
//   debug_and_large  also for a head that needs whole hosts: runs that are behind it
enum class PausePolicy { never, debug, debug_and_large };

struct SchedulingPolicy {
  // Among runs of one tier; see debug_share_percent for debug runs. Preemptible runs are behind all
  // others. Any other run that is first in the queue and would fit instead evicts them.
  QueueOrder order = QueueOrder::aged;
  int aging = 20;
  Duration aging_cap{};  // zero: none
  Fit fit = Fit::best;
  BackfillMode backfill_mode = BackfillMode::easy;
  BackfillOrder backfill_order = BackfillOrder::in_queue_order;
  // A backfilled run may change the head's reservation, so that another run could be backfilled,
  // too. True: the pass repeats until no run starts, and its result depends on the state alone.
  // False: one pass, as the literature defines EASY.
  bool repeats_until_stable = false;
  // If enough devices are free for the head but scattered, small runs (on one host, less than all
  // of it) are moved together. No more devices move than the head gets.
  bool moves = false;
  // The debug share: while debug runs hold no more than this share of the devices, the next one is
  // ahead of all others. Beyond it, and if it is 0, debug runs are queued with the normal ones.
  int debug_share_percent = 0;
  PausePolicy pause_policy = PausePolicy::never;
  // For how many waiting runs devices are reserved, in queue order (backfill).
  int reservations = 1;
  // The longest time that a run holds devices beyond its time limit, to start and to end: for
  // latest_start_times().
  Duration overhead{};
  // True: the devices of moved or evicted runs are free at once, as a replay assumes. False: a
  // decision only names the runs that have to leave; the run that needs the devices starts later.
  bool preempts_at_once = true;
  // The assumed cost of a move: the work since the last checkpoint, which a run writes at this
  // interval after its start, and its restart. The expected end of the moved run is later by that.
  Duration checkpoint_interval = std::chrono::minutes(30);
  Duration restart_time = std::chrono::minutes(2);
};

// Named as in the literature and docs/design/scheduler-internals.md. With limits that are the true
// running times, kEasy and kShortest are the policies with exact estimates.
namespace policies {
inline constexpr SchedulingPolicy kFifo{.order = QueueOrder::arrival,
                                        .backfill_mode = BackfillMode::none};
inline constexpr SchedulingPolicy kFifoGreedy{.order = QueueOrder::arrival,
                                              .backfill_mode = BackfillMode::greedy};
inline constexpr SchedulingPolicy kEasy{.order = QueueOrder::arrival,
                                        .backfill_mode = BackfillMode::easy};
inline constexpr SchedulingPolicy kEasyShortest{.order = QueueOrder::arrival,
                                                .backfill_order = BackfillOrder::shortest_first};
inline constexpr SchedulingPolicy kShortestStrict{.order = QueueOrder::shortest,
                                                  .backfill_mode = BackfillMode::none};
inline constexpr SchedulingPolicy kShortest{.order = QueueOrder::shortest,
                                            .backfill_mode = BackfillMode::greedy};
// Without moves, large gangs delay too many runs if long time limits count in full.
inline constexpr SchedulingPolicy kOurs{.aging_cap = std::chrono::hours(72),
                                        .repeats_until_stable = true};
inline constexpr SchedulingPolicy kOursWithMoves{.repeats_until_stable = true,
                                                 .moves = true,
                                                 .debug_share_percent = 10,
                                                 .pause_policy = PausePolicy::debug_and_large};
}  // namespace policies

}  // namespace lockstep::sched
