// Groups that share ranks: their calls run beside each other, in any order on each rank.
#include <algorithm>
#include <deque>
#include <latch>
#include <map>

#include "base/random.h"
#include "comm/collective/thread_group_for_test.h"

namespace lockstep::comm {
namespace {

using namespace testing_groups;
using Values = std::vector<std::int64_t>;

constexpr int kRanks = 4;

struct OverlappingGroup {
  std::string name;
  std::vector<int> members;
};
const std::vector<OverlappingGroup> kGroups = {{"world", {0, 1, 2, 3}}, {"left", {0, 1}},
                                               {"right", {2, 3}},       {"even", {0, 2}},
                                               {"odd", {1, 3}},         {"three", {0, 1, 3}}};

// Calls `live(rank)` on all ranks at once.
template <class Live>
void on_all_ranks(Live live) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back([&live, rank] { live(rank); });
  for (auto& thread : threads) thread.join();
}

class OverlappingGroups {
 public:
  explicit OverlappingGroups(const GroupOptions& options) : members_(kRanks) {
    const auto secret = net::Secret::random();
    on_all_ranks([&](int rank) {
      for (const auto& [name, members] : kGroups) {
        const auto place = std::find(members.begin(), members.end(), rank) - members.begin();
        if (place == std::ssize(members)) continue;
        auto comm = Communicator::create({.rank = static_cast<int>(place),
                                          .size = static_cast<int>(members.size()),
                                          .host_id = options.hosts[static_cast<std::size_t>(rank)],
                                          .secret = secret,
                                          .group = name,
                                          .timeout = options.timeout,
                                          .network = {.address = "127.0.0.1"}},
                                         rendezvous_);
        ASSERT_TRUE(comm.has_value()) << comm.error().message;
        of_rank(rank).emplace(name, *std::move(comm));
      }
    });
  }
  ~OverlappingGroups() {
    on_all_ranks([&](int rank) { of_rank(rank).clear(); });
  }

  std::map<std::string, std::unique_ptr<Communicator>>& of_rank(int rank) {
    return members_[static_cast<std::size_t>(rank)];
  }

 private:
  LocalRendezvous rendezvous_;
  std::vector<std::map<std::string, std::unique_ptr<Communicator>>> members_;
};

// Some calls are small, some take long.
std::size_t size_of_call(const std::string& group, std::uint64_t seed, int call) {
  constexpr std::size_t kSizes[] = {1, 3, 500, 5000, 200'000};
  Random random(seed * 1000 + static_cast<std::uint64_t>(call) * 10 + group.size());
  return kSizes[random.below(std::size(kSizes))];
}

// Starts `calls` calls of each group that the rank is in, in an order of its own; then waits.
void live(std::map<std::string, std::unique_ptr<Communicator>>& groups, std::uint64_t seed,
          int rank, int calls) {
  struct Call {
    std::string group;
    Values values;
    OperationFuture pending;
  };
  std::vector<std::string> order;
  for (const auto& [name, comm] : groups)
    order.insert(order.end(), static_cast<std::size_t>(calls), name);
  Random random(seed * 100 + static_cast<std::uint64_t>(rank));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);

  std::map<std::string, int> made;
  std::deque<Call> all;
  for (const auto& name : order) {
    auto& comm = *groups.at(name);
    const int number = made[name]++;
    auto& call =
        all.emplace_back(Call{name, Values(size_of_call(name, seed, number), comm.rank() + number),
                              OperationFuture::completed({})});
    call.pending = comm.all_reduce(bytes_of(call.values), DataType::int64, ReduceOp::sum);
  }
  std::map<std::string, int> checked;
  for (const auto& call : all) {
    const auto done = call.pending.wait();
    ASSERT_TRUE(done.has_value()) << call.group << ": " << done.error().message;
    const int n = groups.at(call.group)->size(), number = checked[call.group]++;
    EXPECT_EQ(call.values, Values(call.values.size(), n * (n - 1) / 2 + n * number)) << call.group;
  }
}

class Interleavings : public testing::TestWithParam<bool> {};

TEST_P(Interleavings, OfGroupsThatShareRanksEndWellInAnyOrder) {
  OverlappingGroups crossings(GetParam() ? one_host(kRanks) : two_hosts(kRanks));
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    on_all_ranks([&](int rank) { live(crossings.of_rank(rank), seed, rank, 6); });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Interleavings, testing::Bool(),
                         [](const auto& one) { return one.param ? "one_host" : "two_hosts"; });

void expect_sum(const OperationFuture& pending, const Values& values) {
  EXPECT_TRUE(pending.wait().has_value());
  EXPECT_EQ(values.back(), 2);
}

TEST(Interleaving, AGroupWhoseCallWaitsForARankDelaysNoOther) {
  OverlappingGroups crossings(one_host(kRanks));
  std::latch others_are_done(1);
  on_all_ranks([&](int rank) {
    if (rank == 3) return;
    auto& groups = crossings.of_rank(rank);
    Values values(1'000'000, 1);
    if (rank == 1) others_are_done.wait();
    auto pending =
        rank == 2 ? OperationFuture::completed({})
                  : groups.at("left")->all_reduce(bytes_of(values), DataType::int64, ReduceOp::sum);
    if (rank == 1) return expect_sum(pending, values);
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(groups.at("even")->barrier(CallMode::blocking).wait().has_value());
    EXPECT_EQ(pending.done(), rank == 2) << "before rank 1 has called it";
    if (rank == 0) others_are_done.count_down();
    if (rank == 0) expect_sum(pending, values);
  });
}

}  // namespace
}  // namespace lockstep::comm
