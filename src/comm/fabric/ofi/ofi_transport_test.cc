// Links over libfabric with registered memory, as networks with RDMA need it. The common guarantees
// of all transports are tested in comm/fabric/endpoint/transport_test.cc.
#include "comm/fabric/ofi/ofi_transport.h"

#include <cstring>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

struct Side {
  std::unique_ptr<OfiTransport> transport;
  Link* link = nullptr;  // to the other side

  static Side open(int rank) {
    return {OfiTransport::create({.provider = "tcp;ofi_rxm",
                                  .address = "127.0.0.1",
                                  .rank = rank,
                                  .salt = 17,
                                  .registers_always = true})
                .value()};
  }
};

struct Pair {
  Side sides[2] = {Side::open(0), Side::open(1)};

  Pair() {
    for (const int rank : {0, 1})
      sides[rank].link =
          sides[rank].transport->link(1 - rank, sides[1 - rank].transport->address()).value();
  }
  void poll_until(const std::function<bool()>& ready) {
    for (const auto deadline = Deadline::after(10s); !ready();) {
      ASSERT_FALSE(deadline.passed());
      for (const auto& side : sides) {
        const auto polled = side.transport->poll();
        ASSERT_TRUE(polled.has_value()) << polled.error().message;
      }
    }
  }
};

void publish(Link& link, std::uint64_t number, std::size_t bytes) {
  auto* const slot = link.claim(LinkChannel::collective);
  ASSERT_NE(slot, nullptr);
  std::memset(slot, static_cast<int>(number), bytes);
  link.publish(LinkChannel::collective,
               {.sequence = number, .payload = static_cast<std::uint32_t>(bytes)});
}

TEST(RegisteredSlots, CarryMessagesOfAllSizesBothWays) {
  Pair pair;
  std::uint64_t number = 0;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{100}, std::size_t{20'000}, kSlotBytes})
    for (const int from : {0, 1}) {
      publish(*pair.sides[from].link, ++number, bytes);
      auto& link = *pair.sides[1 - from].link;
      pair.poll_until([&] { return link.front(LinkChannel::collective).has_value(); });
      const auto message = *link.front(LinkChannel::collective);
      EXPECT_EQ(message.header.sequence, number);
      ASSERT_EQ(message.header.payload, bytes);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(message.payload[i], static_cast<std::byte>(number));
      link.release(LinkChannel::collective);
    }
}

TEST(RegisteredSlots, AreFilledAgainAndAgain) {
  Pair pair;
  constexpr std::uint64_t kMessages = 10 * kSlots;
  std::uint64_t sent = 0, received = 0;
  pair.poll_until([&] {
    if (sent < kMessages && pair.sides[0].link->claim(LinkChannel::collective) != nullptr)
      publish(*pair.sides[0].link, sent++, kSlotBytes);
    if (const auto message = pair.sides[1].link->front(LinkChannel::collective)) {
      EXPECT_EQ(message->header.sequence, received);
      EXPECT_EQ(message->payload[kSlotBytes - 1], static_cast<std::byte>(received));
      pair.sides[1].link->release(LinkChannel::collective);
      ++received;
    }
    return received == kMessages;
  });
  EXPECT_EQ(received, kMessages);
}

}  // namespace
}  // namespace lockstep::comm
