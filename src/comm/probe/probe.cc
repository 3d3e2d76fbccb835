#include "comm/probe/probe.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/format.h"
#include "comm/rendezvous/local.h"
#include "net/crypto.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kWaysMost = 4, kHostsAtOnce = 4;
constexpr auto kAloneTimeout = std::chrono::seconds(20);

std::optional<map::MeasuredLevel> measured_level(const std::optional<LevelCost>& cost) {
  constexpr double kLeastPerByte = 1e-13;  // the resolution of the clock
  if (!cost) return std::nullopt;
  return map::MeasuredLevel{cost->latency * 1e6, cost->overhead * 1e6,
                            1 / std::max(cost->per_byte, kLeastPerByte) / 125e6};
}

double gbyte_per_second(double seconds_per_byte) {
  return 1e-9 / std::max(seconds_per_byte, 1e-13);
}

LevelCost slower(const LevelCost& a, const LevelCost& b) {
  return {std::max(a.latency, b.latency), std::max(a.overhead, b.overhead),
          std::max(a.per_byte, b.per_byte)};
}

// Sends the result of the ranks that measured to all ranks.
Result<std::optional<LevelCost>> share_cost(Communicator& world,
                                            const std::optional<LevelCost>& found) {
  std::array<double, 4> values{};
  if (found) values = {1, found->latency, found->overhead, found->per_byte};
  TRY(world
          .all_reduce(std::as_writable_bytes(std::span(values)), DataType::float64, ReduceOp::max,
                      CallMode::blocking)
          .wait());
  if (values[0] == 0) return std::optional<LevelCost>();
  return std::optional(LevelCost{values[1], values[2], values[3]});
}

class ProbeRun {
 public:
  ProbeRun(const JoinedWorld& joined, const ProbeProgress& progress)
      : joined_(joined), world_(*joined.world), progress_(progress) {}

  Result<ProbeResult> run() {
    const auto hosts = world_.hosts();
    ProbeResult probed{{}, static_cast<int>(hosts.size()), world_.size()};
    probed.measured.within_host = measured_level(TRY(within_host(hosts)));
    probed.measured.between_hosts = measured_level(TRY(between_hosts(hosts)));
    if (probed.measured.between_hosts) probed.measured.fabric = world_.fabric();
    progress_("measuring how fast ranks add");
    probed.measured.reduction_gbyte_per_second = gbyte_per_second(TRY(measure_reduction(world_)));
    return probed;
  }

 private:
  using Hosts = std::span<const std::vector<int>>;

  // Measured by the two ranks, while others do the same or wait for them.
  Result<LevelCost> pair_cost(int a, int b) {
    const std::array<int, 2> ranks = {std::min(a, b), std::max(a, b)};
    const auto pair = TRY(joined_.group(format("probe-{}-{}", ranks[0], ranks[1]), ranks));
    return measure_messages(*pair, progress_);
  }

  Result<std::optional<LevelCost>> within_host(Hosts hosts) {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [](const auto& ranks) { return ranks.size() > 1; });
    if (found == hosts.end()) return std::optional<LevelCost>();
    const int a = (*found)[0], b = (*found)[1];
    std::optional<LevelCost> cost;
    if (world_.rank() == a || world_.rank() == b) cost = TRY(pair_cost(a, b));
    return share_cost(world_, cost);
  }

  // The first ranks of all hosts measure in pairs, at the same time. As in a collective, they then
  // share switches and other resources. Then they measure in other pairs.
  Result<std::optional<LevelCost>> between_hosts(Hosts hosts) {
    const auto own = std::find_if(hosts.begin(), hosts.end(), [this](const auto& ranks) {
      return ranks.front() == world_.rank();
    });
    const auto host = static_cast<std::size_t>(own - hosts.begin());
    std::optional<LevelCost> slowest;
    for (std::size_t round = 0; round < kWaysMost && 1U << round < hosts.size(); ++round) {
      const auto other = host ^ 1U << round;
      if (own != hosts.end() && other < hosts.size())
        slowest = slower(slowest.value_or(LevelCost{0, 0, 0}),
                         TRY(pair_cost(world_.rank(), hosts[other].front())));
      TRY(world_.barrier().wait());
    }
    auto cost = TRY(share_cost(world_, slowest));
    if (cost && hosts.size() > 2) TRY(measure_several_hosts(hosts, *cost));
    return cost;
  }

  // The first ranks of up to four hosts measure at once; with more hosts, some may be farther
  // apart.
  Result<void> measure_several_hosts(Hosts hosts, LevelCost& cost) {
    std::vector<int> firsts;
    for (const auto& ranks : hosts.first(std::min(hosts.size(), kHostsAtOnce)))
      firsts.push_back(ranks.front());
    std::optional<LevelCost> found;
    if (std::ranges::find(firsts, world_.rank()) != firsts.end()) {
      const auto flat = TRY(joined_.group("probe-flat", firsts, "flat"));
      const auto doubling = TRY(joined_.group("probe-doubling", firsts, "recursive_doubling"));
      found = TRY(measure_concurrent_messages(*flat, *doubling, progress_));
    }
    const auto among = TRY(share_cost(world_, found));
    if (!among) return {};
    cost.latency =
        hosts.size() > kHostsAtOnce ? std::max(cost.latency, among->latency) : among->latency;
    cost.overhead = std::min(std::max(cost.overhead, among->overhead), cost.latency / 2);
    return {};
  }

  const JoinedWorld& joined_;
  Communicator& world_;
  const ProbeProgress& progress_;
};

Result<ProbeResult> probe_as(int rank, LocalRendezvous& meeting_place, const net::Secret& secret,
                             const ProbeProgress& progress) {
  const auto pair = TRY(Communicator::create({.rank = rank,
                                              .size = 2,
                                              .host_id = "here",
                                              .secret = secret,
                                              .group = "probe",
                                              .timeout = kAloneTimeout,
                                              .network = {.address = "127.0.0.1"}},
                                             meeting_place));
  ProbeResult probed;
  probed.measured.within_host = measured_level(TRY(measure_messages(*pair, progress)));
  probed.measured.reduction_gbyte_per_second = gbyte_per_second(TRY(measure_reduction(*pair)));
  return probed;
}

}  // namespace

Result<ProbeResult> probe(const JoinedWorld& joined, const ProbeProgress& progress) {
  return ProbeRun(joined, progress).run();
}

Result<ProbeResult> probe_this_host(const ProbeProgress& progress) {
  LocalRendezvous meeting_place;
  const auto secret = net::Secret::random();
  // A failure of one thread ends the other, too.
  std::thread other([&] { (void)probe_as(1, meeting_place, secret, [](std::string_view) {}); });
  auto first = probe_as(0, meeting_place, secret, progress);
  other.join();
  return first;
}

}  // namespace lockstep::comm
