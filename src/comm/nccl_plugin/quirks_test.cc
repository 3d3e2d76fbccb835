// Providers that differ: EFA's rules, busy and unordered providers, and memory that must be
// registered.
#include "comm/nccl_plugin/quirks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "comm/nccl_plugin/gpu_endpoint_for_test.h"
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

struct GpuPort {
  static GpuPort open() {
    auto found = find_devices(kLoopback);
    REQUIRE(found.has_value());
    auto endpoint = open_endpoint(found->front());
    REQUIRE(endpoint.has_value());
    auto gpu = std::make_unique<GpuEndpoint>(std::move(*endpoint));
    GpuPort opened;
    opened.endpoint = gpu.get();
    opened.port = std::make_shared<Port>(std::move(gpu), "tcp;ofi_rxm", kLimit);
    return opened;
  }
  std::shared_ptr<Port> port;
  GpuEndpoint* endpoint = nullptr;
};

// Memory of a GPU: exported in a file, at an offset.
struct GpuMemory {
  static constexpr std::uint64_t kOffset = 8192;
  static constexpr std::size_t kBytes = 64 << 10;
  GpuMemory() { REQUIRE(::ftruncate(file.get(), kOffset + kBytes) == 0); }
  MemoryCache::Region* register_with(const GpuPort& gpu) const {
    auto region = gpu.port->memory().add_user(*gpu.endpoint, addresses.data(), kBytes,
                                              DmaBuf{file.get(), kOffset});
    REQUIRE(region.has_value());
    return *region;
  }
  const Fd file{::memfd_create("gpu", MFD_CLOEXEC)};
  const Pages addresses{kBytes, -1, 0};
  std::unique_ptr<Pages> content() const {
    return std::make_unique<Pages>(kBytes, file.get(), kOffset);
  }
};

struct Connected {
  std::unique_ptr<SendConnection> sender;
  std::unique_ptr<ReceiveConnection> receiver;
};

template <class AnyPort>
Connected connect(const AnyPort& from, const AnyPort& to) {
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

TEST(MemoryOfAGpu, TravelsByDmaBufAndIsFlushed) {
  in_child([] {
    const auto from = GpuPort::open(), to = GpuPort::open();
    auto [sender, receiver] = connect(from, to);
    const GpuMemory sent, received;
    const auto content = sent.content();
    for (std::size_t i = 0; i < GpuMemory::kBytes; ++i)
      content->data()[i] = static_cast<char>(i * 31);
    const auto* const from_region = sent.register_with(from);
    const auto* const to_region = received.register_with(to);
    constexpr std::size_t kAt = 5000, kSize = 20'000;  // a part of the registered memory
    const Buffer source{sent.addresses.data() + kAt, kSize, 0, from_region};
    const Buffer target{received.addresses.data() + kAt, kSize, 0, to_region};
    auto* const arriving = start([&] { return receiver->receive({&target, 1}); });
    auto* const leaving = start([&] {
      REQUIRE(!*receiver->test(*arriving, nullptr));  // the provider connects
      return sender->send(source);
    });
    finish({{receiver.get(), arriving}, {sender.get(), leaving}});
    finish({{receiver.get(), start([&] { return receiver->flush(target); })}});
    REQUIRE(to.endpoint->flushed == 1);
    REQUIRE(std::equal(content->data() + kAt, content->data() + kAt + kSize,
                       received.content()->data() + kAt));
  });
}

TEST(MemoryOfAGpu, IsRefusedByAProviderThatWouldCopyIt) {
  in_child([] {
    auto found = find_devices(kLoopback);
    REQUIRE(found.has_value() && !found->front().takes_gpu_memory);
    auto endpoint = open_endpoint(found->front());
    REQUIRE(endpoint.has_value() && !(*endpoint)->takes_gpu_memory());
    const GpuMemory memory;
    const auto refused = (*endpoint)->register_dma_buf(memory.addresses.data(), GpuMemory::kBytes,
                                                       DmaBuf{memory.file.get(), 0});
    REQUIRE(!refused.has_value() && refused.error().code == Code::unavailable);
    REQUIRE(refused.error().message.find("'tcp;ofi_rxm' takes no memory of a GPU") !=
            std::string::npos);
  });
}

// The flush itself, by a provider that this host has, of the host's memory.
TEST(MemoryOfAGpu, IsFlushedByAReadOfTheNic) {
  in_child([] {
    auto found = find_devices(kLoopback);
    REQUIRE(found.has_value());
    auto& device = found->front();
    const InfoPtr hints(libfabric().dupinfo(device.info.get()));
    hints->caps |= FI_RMA;
    fi_info* capable = nullptr;
    REQUIRE(libfabric().getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, hints.get(), &capable) ==
            0);
    device.info.reset(capable);
    device.takes_gpu_memory = true;
    auto endpoint = open_endpoint(device);
    REQUIRE(endpoint.has_value());
    std::vector<char> memory(100);
    const auto registration = (*endpoint)->register_memory(memory.data(), memory.size());
    REQUIRE(registration.has_value());
    Operation operation;
    const auto deadline = Deadline::after(std::chrono::seconds(10));
    bool posted = false, ended = false;
    while (!ended) {
      REQUIRE(!deadline.passed());
      if (!posted) {
        const auto flushed = (*endpoint)->flush(**registration, memory.data() + 50, operation);
        REQUIRE(flushed.has_value());
        posted = *flushed == Posted::yes;
      }
      Completion completion;
      const auto count = (*endpoint)->poll({&completion, 1});
      REQUIRE(count.has_value() && (*count == 0 || completion.failure == nullptr));
      ended = *count == 1 && completion.operation == &operation;
    }
  });
}

TEST(CostsOfTheMap, AreThoseOfADeviceOfTheSameNetwork) {
  in_child([] {
    Environment environment = kLoopback;
    environment["LOCKSTEP_COSTS"] = "1e-6 1e-7 1e-10 12e-6 1e-6 1e-9 1e-10";
    const auto of_map = find_devices(environment);
    REQUIRE(of_map.has_value() && of_map->front().latency == 12.0F);
    environment["LOCKSTEP_FABRIC_PROVIDER"] = "shm";
    const auto within_host = find_devices(environment);
    REQUIRE(within_host.has_value());
    REQUIRE(within_host->front().latency == quirks_of("shm").latency);
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
