// Providers that differ: EFA's rules, busy and unordered providers, and memory that must be
// registered.
#include "comm/nccl_plugin/quirks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "comm/nccl_plugin/handshake.h"
#include "comm/nccl_plugin/ofi_endpoint.h"
#include "comm/nccl_plugin/rough_endpoint_for_test.h"
#include "comm/nccl_plugin/two_processes_for_test.h"

namespace lockstep::comm::nccl {
namespace {

using namespace testing_plugin;

constexpr std::size_t kLimit = 64 << 10;

const Environment kLoopback = {{"LOCKSTEP_FABRIC_PROVIDER", "tcp;ofi_rxm"},
                               {"LOCKSTEP_ADDRESS", "127.0.0.1"}};

struct RoughPort {
  static RoughPort open(std::uint64_t seed) {
    auto found = find_devices(kLoopback);
    REQUIRE(found.has_value());
    auto endpoint = open_endpoint(found->front());
    REQUIRE(endpoint.has_value());
    auto rough = std::make_unique<RoughEndpoint>(std::move(*endpoint), seed);
    RoughPort opened;
    opened.endpoint = rough.get();
    opened.port = std::make_shared<Port>(std::move(rough), "tcp;ofi_rxm", kLimit);
    return opened;
  }
  std::shared_ptr<Port> port;
  RoughEndpoint* endpoint = nullptr;
};

struct Connected {
  std::unique_ptr<SendConnection> sender;
  std::unique_ptr<ReceiveConnection> receiver;
};

Connected connect(const RoughPort& from, const RoughPort& to) {
  Handle handle;
  auto listener = ListenConnection::open(to.port, "127.0.0.1", handle);
  REQUIRE(listener.has_value());
  auto pending = PendingConnect::start(from.port, handle);
  REQUIRE(pending.has_value());
  Connected made;
  const auto deadline = Deadline::after(std::chrono::seconds(10));
  while (!made.sender || !made.receiver) {
    REQUIRE(!deadline.passed());
    if (!made.receiver) {
      auto accepted = (*listener)->accept();
      REQUIRE(accepted.has_value());
      made.receiver = std::move(*accepted);
    }
    if (!made.sender) {
      auto continued = (*pending)->continue_connect();
      REQUIRE(continued.has_value());
      made.sender = std::move(*continued);
    }
  }
  return made;
}

struct Under {
  Connection* connection;
  Request* request;
};

// Tests all until they have ended.
void finish(std::vector<Under> under_way) {
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (!under_way.empty()) {
    REQUIRE(!deadline.passed());
    std::erase_if(under_way, [](const Under& one) {
      const auto ended = one.connection->test(*one.request, nullptr);
      REQUIRE(ended.has_value());
      return *ended;
    });
  }
}

std::vector<char> message_of(int number) {
  std::vector<char> bytes(static_cast<std::size_t>(1 + number * 4801 % 60'000));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i + static_cast<std::size_t>(number));
  return bytes;
}

template <class Start>
Request* start(Start call) {
  const auto deadline = Deadline::after(std::chrono::seconds(10));
  for (;;) {
    REQUIRE(!deadline.passed());
    auto request = call();
    REQUIRE(request.has_value());
    if (*request != nullptr) return *request;
  }
}

void in_child(const std::function<void()>& body) {
  run_two([&](Side&) { body(); }, [](Side&) {});
}

TEST(RoughProvider, CarriesEveryMessageToItsReceiveInAnyOrderOfDelivery) {
  in_child([] {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto from = RoughPort::open(seed), to = RoughPort::open(seed + 100);
      auto [sender, receiver] = connect(from, to);
      constexpr int kMessages = 30;
      std::vector<std::vector<char>> sent, received;
      std::vector<Under> under_way;
      for (int i = 0; i < kMessages; ++i) {
        sent.push_back(message_of(i));
        received.emplace_back(kLimit, '#');
      }
      for (int i = 0; i < kMessages; i += 3) {
        std::vector<Buffer> group;
        for (int j = i; j < i + 3; ++j)
          group.push_back({received[static_cast<std::size_t>(j)].data(), kLimit, j - i, nullptr});
        under_way.push_back({receiver.get(), start([&] { return receiver->receive(group); })});
      }
      for (int i = 0; i < kMessages; ++i) {
        auto& bytes = sent[static_cast<std::size_t>(i)];
        const Buffer buffer{bytes.data(), bytes.size(), i % 3, nullptr};
        under_way.push_back({sender.get(), start([&] { return sender->send(buffer); })});
      }
      finish(under_way);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        received[i].resize(sent[i].size());
        REQUIRE(received[i] == sent[i]);
      }
      REQUIRE(from.endpoint->reordered() > 0 && to.endpoint->busy() > 0);
      sender->close();
      receiver->close();
    }
  });
}

TEST(RoughProvider, RefusesAMessageAboveTheLimitOfTheProvider) {
  in_child([] {
    const auto from = RoughPort::open(1), to = RoughPort::open(2);
    auto [sender, receiver] = connect(from, to);
    std::vector<char> bytes(kLimit + 1);
    const auto refused = sender->send({bytes.data(), bytes.size(), 0, nullptr});
    REQUIRE(!refused.has_value() && refused.error().code == Code::invalid);
    REQUIRE(refused.error().message.find("65537 bytes") != std::string::npos);
  });
}

TEST(RoughProvider, WithoutMemoryToRegisterReportsItAndGoesOn) {
  in_child([] {
    const auto rough = RoughPort::open(1);
    auto& memory = rough.port->memory();
    std::vector<char> bytes(100'000);
    rough.endpoint->out_of_memory = true;
    const auto refused = memory.add_user(*rough.endpoint, bytes.data(), bytes.size());
    REQUIRE(!refused.has_value() && refused.error().code == Code::exhausted);
    REQUIRE(memory.size() == 0);
    rough.endpoint->out_of_memory = false;
    REQUIRE(memory.add_user(*rough.endpoint, bytes.data(), bytes.size()).has_value());
  });
}

TEST(MemoryCache, RegistersARangeOnceForAllOfItsParts) {
  in_child([] {
    const auto rough = RoughPort::open(1);
    auto& memory = rough.port->memory();
    std::vector<char> bytes(1 << 20);
    const auto whole = memory.add_user(*rough.endpoint, bytes.data(), bytes.size());
    const auto part = memory.add_user(*rough.endpoint, bytes.data() + 70'000, 1000);
    REQUIRE(whole.has_value() && part.has_value() && *whole == *part);
    REQUIRE(rough.endpoint->registered == 1);
    REQUIRE(memory.remove_user(*whole).has_value());
    REQUIRE(memory.size() == 1);
    REQUIRE(memory.remove_user(*part).has_value());
    REQUIRE(memory.size() == 0);
    REQUIRE(!memory.remove_user(*part).has_value());
    const auto smaller = memory.add_user(*rough.endpoint, bytes.data() + 70'000, 1000);
    const auto larger = memory.add_user(*rough.endpoint, bytes.data(), bytes.size());
    REQUIRE(smaller.has_value() && larger.has_value() && *smaller != *larger);
    REQUIRE(rough.endpoint->registered == 3);
  });
}

TEST(ProviderQuirks, PreferEfaAndKnowProvidersByTheNameOfTheirCore) {
  EXPECT_LT(preference("efa"), preference("tcp;ofi_rxm"));
  EXPECT_LT(preference("verbs;ofi_rxm"), preference("tcp"));
  EXPECT_GT(preference("a_new_one"), preference("shm"));
  EXPECT_EQ(&quirks_of("verbs;ofi_rxm"), &quirks_of("verbs"));
  EXPECT_TRUE(quirks_of("verbs;ofi_rxm").nccl_has_its_own);
  EXPECT_FALSE(quirks_of("efa").nccl_has_its_own);
  EXPECT_GT(quirks_of("a_new_one").speed, 0);
}

TEST(ProviderQuirks, EfaMakesNoCudaCallsAndGoesWithoutOptionsThatAreUnknown) {
  in_child([] {
    REQUIRE(load_libfabric().has_value());
    std::vector<int> names;
    const auto keep = [&](int name, bool value) {
      REQUIRE(!value);
      names.push_back(name);
      return names.size() == 1 ? 0L : long{-FI_ENOPROTOOPT};
    };
    REQUIRE(apply_options(quirks_of("efa"), keep).has_value());
    REQUIRE((names == std::vector<int>{10, 11}));
    const auto refused =
        apply_options(quirks_of("efa"), [](int, bool) { return long{-FI_EINVAL}; });
    REQUIRE(!refused.has_value());
    REQUIRE(refused.error().message.find("efa") != std::string::npos);
    REQUIRE(
        apply_options(quirks_of("tcp"), [](int, bool) { return long{-FI_EINVAL}; }).has_value());
  });
}

}  // namespace
}  // namespace lockstep::comm::nccl
