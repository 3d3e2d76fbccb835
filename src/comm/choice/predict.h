// predict: how long a collective takes by each plan that can carry it out, by the alpha-beta-gamma
// model: so that the cheapest can be chosen (choose.h) without trying any.
//
// The model. A lone message of b bytes takes latency + b * per_byte (Hockney 1994, "The
// communication challenge for MPP"); each end is busy with it for `overhead` (the o of LogP, Culler
// et al. 1993), which is what counts when a rank sends many at once; a byte that is reduced takes
// `reduction`. Data travels in pieces; of a stream of pieces each but the first costs only the
// slowest of wire, processors, arithmetic and, on a long way, what kernels hold of a connection
// (kHeldBytes in the time there and back). Ranks of one host share its wire: where c of them
// send to other hosts at the same time, each has 1 / c of it.
//
// In the formulas n ranks, S bytes, alpha = latency, o = overhead, beta = per_byte, gamma =
// reduction, L = log2 n rounded up. The least that an all-reduce can cost is L alpha + 2 (n - 1) /
// n S beta + (n - 1) / n S gamma.
//
//   all-reduce
//     flat                 alpha + 2 (n - 2) o + (n - 1) S (beta + gamma)
//     ring                 2 (n - 1) alpha + 2 (n - 1) / n S beta + (n - 1) / n S gamma
//     recursive_doubling   L (alpha + S beta + S gamma)
//     halving_doubling     2 L alpha + 2 (n - 1) / n S beta + (n - 1) / n S gamma
//     double_tree          (2 L + P - 1) max(alpha + q beta, 4 q beta), P pieces of q = S / 2 P
//   reduce-scatter, all-gather (blocks of B bytes)
//     ring                 (n - 1) (alpha + B beta)
//   broadcast, reduce
//     ring (a chain)       (n - 1) (alpha + q beta) + S beta
//     double_tree          (L + P - 1) max(alpha + q beta, 2 q beta)
//   barrier                L alpha
// Between ranks of a host messages go by slots, into and out of which each byte is copied.
// hierarchical: among the H hosts the same with S / m bytes of each of a host's m leaders, which
// share its wire (where ranks meet in pairs, one part after the other); and before and after it,
// within the host, 2 alpha + S (beta + gamma) of that level, of which much data shows only the
// first and the last part. Of blocks, so often as the ranks of the smallest host must stand in for
// others (lane.h).
//
// Sources: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
// in MPICH" (ring, recursive doubling, halving and doubling, and ranks that are no power of two);
// Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan". How near it is to the algorithms' code on a simulated network: comm/simulated.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/cost/costs.h"

namespace lockstep {

using Seconds = std::chrono::duration<double>;

// bytes: the call header's, of a rank's share. The plan must fit (algorithm.h). piece_bytes: as
// Exchange::piece_bytes(); nothing: as it is over TCP.
Seconds predict(const CallPlan& plan, Operation operation, std::size_t bytes,
                const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> piece_bytes = std::nullopt);

}  // namespace lockstep
