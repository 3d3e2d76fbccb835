// predict: the time of a collective for each plan that can execute it, by the alpha-beta-gamma
// model. So choose.h can select the cheapest without running any.
//
// The model. A single message of b bytes takes latency + b * per_byte (Hockney 1994, "The
// communication challenge for MPP"). Each end is busy with it for `overhead` (the o of LogP, Culler
// et al. 1993), which is the limit when a rank sends many messages at once. A byte that is reduced
// takes `reduction`. Data is sent in pieces. Each piece of a stream but the first costs only the
// slowest of wire, processors, arithmetic and, over a long distance, the kernels' buffers of a
// connection (kSocketBufferBytes in one round trip). Ranks of one host share its wire: where c of
// them send to other hosts at the same time, each has 1 / c of it.
//
// In the formulas n ranks, S bytes, alpha = latency, o = overhead, beta = per_byte, gamma =
// reduction, L = log2 n rounded up. The lower bound for an all-reduce is L alpha + 2 (n - 1) / n S
// beta + (n - 1) / n S gamma.
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
// Between ranks of a host, messages use slots, into and out of which each byte is copied.
// hierarchical: among the H hosts the same with S / m bytes for each of a host's m leaders, which
// share its wire (where ranks exchange in pairs, one part after the other). Before and after it,
// within the host, it adds 2 alpha + S (beta + gamma) of that level; for large data only the first
// and the last part count. Collectives in blocks repeat this as often as the ranks of the smallest
// host must also serve missing local ranks (rail.h).
//
// Sources: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
// in MPICH" (ring, recursive doubling, halving and doubling, and ranks that are no power of two);
// Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan". comm/simulated compares the predictions with the algorithms' code on a simulated network.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/cost/costs.h"

namespace lockstep::comm {

using Seconds = std::chrono::duration<double>;

// bytes: of the call header, for one rank's share. The plan must fit (algorithm.h). piece_bytes: as
// MessageExchange::piece_bytes(); nullopt: as over TCP.
Seconds predict(const CallPlan& plan, Operation operation, std::size_t bytes,
                const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> piece_bytes = std::nullopt);

}  // namespace lockstep::comm
