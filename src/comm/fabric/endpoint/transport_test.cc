// The common guarantees of both transports, and how ranks agree on one. Host ids simulate hosts;
// ranks are threads.
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/fabric/endpoint/endpoint.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/local.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

using Endpoints = std::vector<Result<std::unique_ptr<Endpoint>>>;

const net::Secret kGroupSecret = net::Secret::random();

// Each rank is on its own host.
Endpoints meet(const std::vector<NetworkOptions>& networks, Rendezvous& place) {
  Endpoints endpoints;
  for (std::size_t rank = 0; rank < networks.size(); ++rank) endpoints.emplace_back(Error{});
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < networks.size(); ++rank)
    threads.emplace_back([&, rank] {
      endpoints[rank] = Endpoint::create({.rank = static_cast<int>(rank),
                                          .size = static_cast<int>(networks.size()),
                                          .host_id = format("host-{}", rank),
                                          .secret = kGroupSecret,
                                          .group = "test",
                                          .timeout = 20s,
                                          .network = networks[rank]},
                                         place);
    });
  for (auto& thread : threads) thread.join();
  return endpoints;
}

Endpoints meet(const std::vector<NetworkOptions>& networks) {
  LocalRendezvous place;
  return meet(networks, place);
}

NetworkOptions network(const std::string& provider) {
  return {.provider = provider, .address = "127.0.0.1"};
}

void publish(Link& link, LinkChannel lane, std::uint64_t number, std::size_t bytes) {
  auto* const slot = link.claim(lane);
  ASSERT_NE(slot, nullptr);
  std::memset(slot, static_cast<int>(number % 251), bytes);
  link.publish(lane, {.sequence = number, .payload = static_cast<std::uint32_t>(bytes)});
}

void expect_message(const IncomingMessage& message, std::uint64_t number, std::size_t bytes) {
  EXPECT_EQ(message.header.sequence, number);
  ASSERT_EQ(message.header.payload, bytes);
  const auto byte = static_cast<std::byte>(number % 251);
  for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(message.payload[i], byte) << "at " << i;
}

class Between : public testing::TestWithParam<const char*> {
 protected:
  Between() : endpoints_(meet({network(GetParam()), network(GetParam())})) {
    for (const auto& endpoint : endpoints_) LS_CHECK(endpoint.has_value());
  }
  Endpoint& end(std::size_t rank) { return **endpoints_[rank]; }
  Link& link(std::size_t rank) { return end(rank).link(1 - static_cast<int>(rank)); }
  void poll_until(const std::function<bool()>& ready) {
    const auto deadline = Deadline::after(10s);
    while (!ready()) {
      ASSERT_FALSE(deadline.passed());
      for (const auto& endpoint : endpoints_) ASSERT_TRUE((*endpoint)->poll_all().has_value());
    }
  }

  Endpoints endpoints_;
};

TEST_P(Between, MessagesOfAllSizesArriveInOrderOnBothLanesAndBothWays) {
  std::uint64_t number = 0;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{8}, std::size_t{4096}, std::size_t{70'000}, kSlotBytes})
    for (const auto lane : kLinkChannels)
      for (const std::size_t from : {0U, 1U}) {
        publish(link(from), lane, ++number, bytes);
        publish(link(from), lane, ++number, bytes);
        for (const auto expected : {number - 1, number}) {
          poll_until([&] { return link(1 - from).front(lane).has_value(); });
          expect_message(*link(1 - from).front(lane), expected, bytes);
          link(1 - from).release(lane);
        }
      }
  EXPECT_EQ(link(0).sent(LinkChannel::collective), 10U);
  EXPECT_EQ(link(0).arrived(LinkChannel::collective), 10U);
}

TEST_P(Between, ALaneThatNobodyReadsHoldsUpItselfAndNotTheOther) {
  std::uint64_t published = 0;
  const auto deadline = Deadline::after(10s);
  for (int idle = 0; idle < 1000 && !deadline.passed(); ++idle) {
    if (link(0).claim(LinkChannel::collective) != nullptr) {
      publish(link(0), LinkChannel::collective, published++, kSlotBytes);
      idle = 0;
    }
    for (const auto& endpoint : endpoints_) ASSERT_TRUE((*endpoint)->poll().has_value());
  }
  EXPECT_GE(published, kSlots);
  publish(link(0), LinkChannel::point_to_point, 7, 100);
  poll_until([&] { return link(1).front(LinkChannel::point_to_point).has_value(); });
  expect_message(*link(1).front(LinkChannel::point_to_point), 7, 100);
  for (std::uint64_t number = 0; number < published; ++number) {
    poll_until([&] { return link(1).front(LinkChannel::collective).has_value(); });
    expect_message(*link(1).front(LinkChannel::collective), number, kSlotBytes);
    link(1).release(LinkChannel::collective);
  }
}

TEST_P(Between, WhatWasSentBeforeLeavingIsReceivedAfterIt) {
  publish(link(0), LinkChannel::collective, 1, 1000);
  end(0).start_leaving();
  poll_until([&] { return end(0).leave_acknowledged(); });
  endpoints_[0] = Error{};
  const auto deadline = Deadline::after(10s);
  while (!end(1).is_drained(0) && !deadline.passed()) ASSERT_TRUE(end(1).poll_all().has_value());
  EXPECT_TRUE(end(1).is_drained(0));
  ASSERT_TRUE(link(1).front(LinkChannel::collective).has_value());
  expect_message(*link(1).front(LinkChannel::collective), 1, 1000);
  EXPECT_EQ(link(1).claim(LinkChannel::collective), nullptr) << "nobody is there";
}

TEST_P(Between, APeerThatVanishesIsLost) {
  endpoints_[0] = Error{};
  Result<void> polled;
  for (const auto deadline = Deadline::after(10s); polled && !deadline.passed();)
    polled = end(1).poll_all();
  ASSERT_FALSE(polled.has_value());
  EXPECT_EQ(polled.error().code, Code::peer_lost);
  EXPECT_NE(polled.error().message.find("rank 0"), std::string::npos) << polled.error().message;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Between, testing::Values("tcp", "tcp;ofi_rxm"),
                         [](const auto& provider) {
                           return std::string(provider.param) == "tcp" ? "Tcp" : "Libfabric";
                         });

TEST(Provider, MustBeOneForAllRanks) {
  const auto endpoints = meet({network("tcp"), network("tcp;ofi_rxm")});
  ASSERT_FALSE(endpoints[1].has_value());
  EXPECT_NE(endpoints[1].error().message.find("it has the fabric provider 'tcp', rank 1 has "
                                              "'tcp;ofi_rxm': set LOCKSTEP_FABRIC_PROVIDER alike"),
            std::string::npos)
      << endpoints[1].error().message;
}

TEST(Provider, ThatThisHostLacksIsNamedAtTheStartWithThoseThatItHas) {
  const auto endpoints = meet({network("carrier-pigeon"), network("carrier-pigeon")});
  const auto& message = endpoints[0].error().message;
  EXPECT_NE(message.find("has no provider 'carrier-pigeon', only "), std::string::npos) << message;
  EXPECT_NE(message.find("set LOCKSTEP_FABRIC_PROVIDER=tcp"), std::string::npos) << message;
}

TEST(Interface, ThatThisHostLacksEndsTheMeetingAtOnce) {
  const auto endpoints = meet({{.interface = "nowhere0"}, {.interface = "nowhere0"}});
  for (const auto& endpoint : endpoints)
    EXPECT_NE(endpoint.error().message.find("no interface 'nowhere0'"), std::string::npos);
}

TEST(Meeting, IsNotDelayedByAStrangerWithManySilentConnections) {
  LocalRendezvous place;
  const auto options = [](int rank) {
    return EndpointOptions{.rank = rank,
                           .size = 2,
                           .host_id = format("host-{}", rank),
                           .secret = kGroupSecret,
                           .group = "test",
                           .timeout = 20s,
                           .network = network("tcp")};
  };
  Result<std::unique_ptr<Endpoint>> first = Error{}, second = Error{};
  std::thread rank_0([&] { first = Endpoint::create(options(0), place); });
  const auto entry = place.get("fabric/test/rank-0", Deadline::after(10s)).value();
  const auto address = net::parse_host_port(split_fields(entry, 4).value()[2]).value();
  std::vector<net::Socket> strangers;
  for (int i = 0; i < 120; ++i)
    strangers.push_back(
        net::Socket::connect_tcp(address.host, address.port, Deadline::after(10s)).value());
  const auto bound = Deadline::after(10s);
  std::thread rank_1([&] { second = Endpoint::create(options(1), place); });
  rank_0.join();
  rank_1.join();
  EXPECT_TRUE(first.has_value() && second.has_value());
  EXPECT_GT(bound.remaining(), 5s);
}

// A range whose first ports are used by this test, so no other process's ports are tried.
struct TakenPorts {
  net::Listener first = net::Listener::tcp("127.0.0.1", 0).value();
  PortRange alone{first.port(), first.port()};
};

TEST(Ports, ThatAreAllHeldAreNamedWithTheRemedy) {
  const TakenPorts taken;
  const NetworkOptions options{.address = "127.0.0.1", .ports = taken.alone};
  const auto endpoints = meet({options, options});
  EXPECT_EQ(endpoints[0].error().code, Code::exhausted);
  const auto expected = format("no port of {} is free on 127.0.0.1", text(taken.alone));
  EXPECT_NE(endpoints[0].error().message.find(expected), std::string::npos)
      << endpoints[0].error().message;
}

// Below the kernel's ephemeral ports, and different from this test's range in other processes.
PortRange own_range() {
  const auto first = static_cast<std::uint16_t>(12'000 + ::getpid() % 180 * 60);
  return {first, static_cast<std::uint16_t>(first + 59)};
}

TEST(Ports, AreOfTheRangeThatIsSetAndFreeAgainAfterTheMeeting) {
  const auto range = own_range();
  const NetworkOptions options{.address = "127.0.0.1", .ports = range};
  LocalRendezvous place;
  const auto endpoints = meet({options, options, options}, place);
  std::set<std::uint16_t> ports;
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(endpoints[static_cast<std::size_t>(rank)].has_value());
    const auto entry = place.get(format("fabric/test/rank-{}", rank), Deadline::after(10s)).value();
    const auto port = net::parse_host_port(split_fields(entry, 4).value()[2])->port;
    EXPECT_GE(port, range.first);
    EXPECT_LE(port, range.last);
    ports.insert(port);
    EXPECT_FALSE(net::Socket::connect_tcp("127.0.0.1", port, Deadline::after(10s)).has_value());
  }
  EXPECT_EQ(ports.size(), 3U);
}

}  // namespace
}  // namespace lockstep::comm
