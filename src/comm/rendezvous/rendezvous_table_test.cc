// Large groups, without connections: the table alone.
#include "comm/rendezvous/rendezvous_table.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr int kRanks = 16'384;
constexpr int kBlock = 256;  // as in gather.h

struct TableForTest {
  struct Answers {
    int count = 0;
    std::string last;
  };
  std::vector<Answers> answers = std::vector<Answers>(kRanks);
  RendezvousTable table{1 << 20, 64_KiB,
                        [this](RendezvousTable::ClientId client, const std::string&,
                               std::string_view status, std::string_view value) {
                          EXPECT_EQ(status, "ok") << value;
                          ++answers[client].count;
                          answers[client].last = value.substr(0, 8);
                        }};

  void request(int rank, const char* verb, const std::string& key, const std::string& value = {}) {
    table.handle(static_cast<RendezvousTable::ClientId>(rank), {"1", verb, key, value});
  }
  Answers& of(int rank) { return answers[static_cast<std::size_t>(rank)]; }
};

// Each rank waits for all blocks before any rank has set its value.
TEST(RendezvousTable, GathersTheAddressesOf16384Ranks) {
  TableForTest place;
  for (int rank = 0; rank < kRanks; ++rank)
    for (int block = 0; block < kRanks / kBlock; ++block)
      place.request(rank, "G", format("block-{}", block));
  for (int rank = 0; rank < kRanks; ++rank)
    place.request(rank, "S", format("{}", rank), std::string(100, 'a'));
  for (int block = 0; block < kRanks / kBlock; ++block) {
    for (int i = 0; i < kBlock; ++i)
      place.request(block * kBlock, "G", format("{}", block * kBlock + i));
    place.request(block * kBlock, "S", format("block-{}", block), std::string(kBlock * 104, 'b'));
  }
  EXPECT_EQ(place.of(1).count, 1 + kRanks / kBlock);
  EXPECT_EQ(place.of(kRanks - 1).last, "bbbbbbbb");
  EXPECT_EQ(place.of(0).count, 2 + kBlock + kRanks / kBlock);
}

TEST(RendezvousTable, TellsAll16384RanksOfADeath) {
  TableForTest place;
  for (int rank = 0; rank < kRanks; ++rank) {
    place.request(rank, "W", format("crew/1/{}", rank), "-");
    place.request(rank, "N", "crew/1/");
  }
  place.table.remove(7);
  for (const int rank : {0, 6, 8, kRanks - 1}) EXPECT_EQ(place.of(rank).last, "crew/1/7");
  EXPECT_EQ(place.of(7).count, 1) << "the answer to its request";
}

TEST(RendezvousTable, SendsNothingToAClientThatLeftWhileItWaited) {
  TableForTest place;
  place.request(1, "G", "key");
  place.table.remove(1);
  place.request(2, "S", "key", "value");
  EXPECT_EQ(place.of(1).count, 0);
  EXPECT_EQ(place.of(2).count, 1);
}

}  // namespace
}  // namespace lockstep::comm
