// The plugin as a library, driven as NCCL drives it, between two processes.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "comm/nccl_plugin/handshake.h"
#include "comm/nccl_plugin/loaded_plugin.h"
#include "comm/nccl_plugin/two_processes_for_test.h"

namespace lockstep::comm::nccl {
namespace {

using namespace std::chrono_literals;
using namespace testing_plugin;

constexpr auto kBound = 15s;  // of every wait in a child

std::string& last_warning() {
  static std::string text;
  return text;
}

void keep_warning(LogLevel level, unsigned long, const char*, int, const char* form, ...) {
  if (level != LogLevel::warn) return;
  std::array<char, 1024> text{};
  std::va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(text.data(), text.size(), form, arguments);
  va_end(arguments);
  last_warning() = text.data();
}

struct Network {
  std::string provider;
  int version = 12;
};

std::unique_ptr<Net> open_net(const Network& network) {
  ::setenv("LOCKSTEP_FABRIC_PROVIDER", network.provider.c_str(), 1);
  ::setenv("LOCKSTEP_ADDRESS", "127.0.0.1", 1);
  auto net = open_plugin(LOCKSTEP_NCCL_PLUGIN, network.version);
  REQUIRE(net != nullptr);
  REQUIRE(net->init(keep_warning) == Status::success);
  REQUIRE(net->devices() >= 1);
  return net;
}

// Calls until done() is true.
template <class Done>
void until(Done done) {
  for (const auto deadline = Deadline::after(kBound); !done();) REQUIRE(!deadline.passed());
}

// One direction of a connection between the two processes.
struct Receiver {
  static Receiver open(Net& net, Side& side) {
    HandleBytes handle{};
    Receiver opened{net};
    void* listener = nullptr;
    REQUIRE(net.listen(0, handle, &listener) == Status::success && listener != nullptr);
    side.tell(handle);
    until([&] {
      REQUIRE(net.accept(listener, &opened.connection) == Status::success);
      return opened.connection != nullptr;
    });
    REQUIRE(net.close_listen(listener) == Status::success);
    return opened;
  }
  void* start(std::vector<void*> data, std::vector<std::size_t> sizes, std::vector<int> tags) {
    void* request = nullptr;
    std::vector<void*> memories(data.size(), nullptr);
    until([&] {
      REQUIRE(net.receive(connection, data, sizes, tags, memories, &request) == Status::success);
      return request != nullptr;
    });
    return request;
  }
  // As NCCL, whose proxy tests requests all the time.
  void progress_until_told(Side& side) {
    std::vector<char> unused(1);
    void* request = nullptr;
    until([&] {
      int done = 0;
      if (request != nullptr)
        (void)net.test(request, &done, nullptr);
      else
        (void)receive(unused, 7, &request);  // fails if the peer has closed already
      return side.can_hear();
    });
  }
  // The peer's end lets the receive fail at once, or later.
  Status failure_of_receive(std::vector<char>& data) {
    auto status = Status::success;
    void* request = nullptr;
    until([&] {
      int done = 0;
      status = request != nullptr ? net.test(request, &done, nullptr) : receive(data, 1, &request);
      REQUIRE(done == 0);
      return status != Status::success;
    });
    return status;
  }
  Status receive(std::vector<char>& data, int tag, void** request) {
    std::array<void*, 1> to = {data.data()}, memory = {nullptr};
    std::array<std::size_t, 1> size = {data.size()};
    std::array<int, 1> tags = {tag};
    return net.receive(connection, to, size, tags, memory, request);
  }
  Net& net;
  void* connection = nullptr;
};

struct Sender {
  static Sender open(Net& net, Side& side) {
    auto handle = side.hear<HandleBytes>();
    Sender opened{net};
    until([&] {
      REQUIRE(net.connect(0, handle, &opened.connection) == Status::success);
      return opened.connection != nullptr;
    });
    return opened;
  }
  void* start(void* data, std::size_t size, int tag = 0) {
    void* request = nullptr;
    until([&] {
      REQUIRE(net.send(connection, data, size, tag, nullptr, &request) == Status::success);
      return request != nullptr;
    });
    return request;
  }
  Net& net;
  void* connection = nullptr;
};

int wait_for(Net& net, void* request, int* sizes) {
  int done = 0;
  until([&] {
    REQUIRE(net.test(request, &done, sizes) == Status::success);
    return done != 0;
  });
  return done;
}

// The error that ends the request, within the bound.
Status failure_of(Net& net, void* request) {
  auto status = Status::success;
  int done = 0;
  until([&] {
    status = net.test(request, &done, nullptr);
    REQUIRE(done == 0);
    return status != Status::success;
  });
  return status;
}

std::vector<char> pattern(std::size_t size, std::size_t seed) {
  std::vector<char> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + seed * 7 + i / 251);
  return bytes;
}

const std::vector<std::size_t> kOddSizes = {
    0, 1, 3, 63, 64, 65, 4095, 4097, 16384, 65537, 262145, (1 << 20) + 7, 8 << 20};

class PluginOfVersion : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  static Network network() { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(PluginOfVersion, CarriesMessagesOfOddSizesInOrder) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto sender = Sender::open(*net, side);
        void* memory = nullptr;
        for (std::size_t i = 0; i < kOddSizes.size(); ++i) {
          auto bytes = pattern(kOddSizes[i] + 1, i);
          REQUIRE(net->register_memory(sender.connection, bytes.data(), bytes.size(), kHostMemory,
                                       &memory) == Status::success);
          int size = -1;
          wait_for(*net, sender.start(bytes.data(), kOddSizes[i]), &size);
          REQUIRE(size == static_cast<int>(kOddSizes[i]));
          REQUIRE(net->deregister(sender.connection, memory) == Status::success);
        }
        side.barrier();
        REQUIRE(net->close_send(sender.connection) == Status::success);
        REQUIRE(net->finalize() == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        for (std::size_t i = 0; i < kOddSizes.size(); ++i) {
          std::vector<char> bytes(kOddSizes[i] + 1000, '#');
          int size = -1;
          wait_for(*net, receiver.start({bytes.data()}, {bytes.size()}, {0}), &size);
          REQUIRE(size == static_cast<int>(kOddSizes[i]));
          auto expected = pattern(kOddSizes[i] + 1, i);
          expected.resize(kOddSizes[i]);
          expected.resize(bytes.size(), '#');
          REQUIRE(bytes == expected);
        }
        side.barrier();
        REQUIRE(net->close_receive(receiver.connection) == Status::success);
        REQUIRE(net->finalize() == Status::success);
      });
}

const std::vector<std::string> kProviders = {"tcp;ofi_rxm", "shm"};

INSTANTIATE_TEST_SUITE_P(Versions, PluginOfVersion,
                         testing::Combine(testing::Values("tcp", "shm"),
                                          testing::Values(7, 8, 9, 10, 11, 12)));

class PluginOver : public testing::TestWithParam<std::string> {
 protected:
  static Network network() { return {GetParam(), 12}; }
};
INSTANTIATE_TEST_SUITE_P(Providers, PluginOver, testing::ValuesIn(kProviders));

TEST_P(PluginOver, ConnectsManyTimesAndKeepsTransfersOfAllUnderWay) {
  constexpr std::size_t kConnections = 64, kDepth = 8, kRounds = 3, kBytes = 20'000;
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        std::vector<Sender> senders;
        for (std::size_t i = 0; i < kConnections; ++i) senders.push_back(Sender::open(*net, side));
        for (std::size_t round = 0; round < kRounds; ++round) {
          std::vector<std::vector<char>> data;
          std::vector<void*> requests;
          for (std::size_t d = 0; d < kDepth; ++d)
            for (std::size_t i = 0; i < kConnections; ++i) {
              data.push_back(pattern(kBytes, i + d * 1000));
              requests.push_back(senders[i].start(data.back().data(), kBytes));
            }
          for (auto* request : requests) wait_for(*net, request, nullptr);
        }
        side.barrier();
        for (auto& sender : senders) REQUIRE(net->close_send(sender.connection) == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(network());
        std::vector<Receiver> receivers;
        for (std::size_t i = 0; i < kConnections; ++i)
          receivers.push_back(Receiver::open(*net, side));
        for (std::size_t round = 0; round < kRounds; ++round) {
          std::vector<std::vector<char>> data(kConnections * kDepth, std::vector<char>(kBytes));
          std::vector<void*> requests;
          for (std::size_t n = 0; n < data.size(); ++n)
            requests.push_back(receivers[n % kConnections].start({data[n].data()}, {kBytes}, {0}));
          for (auto* request : requests) wait_for(*net, request, nullptr);
          for (std::size_t n = 0; n < data.size(); ++n)
            REQUIRE(data[n] == pattern(kBytes, n % kConnections + n / kConnections * 1000));
        }
        side.barrier();
        for (auto& one : receivers) REQUIRE(net->close_receive(one.connection) == Status::success);
      });
}

TEST_P(PluginOver, PutsEachSendOfAGroupIntoTheBufferWithItsTag) {
  constexpr std::size_t kGroups = 5;
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto sender = Sender::open(*net, side);
        std::vector<std::vector<char>> data;
        std::vector<void*> requests;
        for (std::size_t group = 0; group < kGroups; ++group)
          for (const int tag : {5, 2, 9, 0, 1, 3, 5, 8}) {  // 5 twice: in the order of the buffers
            const auto seed = group * 100 + data.size() % 8;
            data.push_back(pattern(1000 + seed, seed));
            requests.push_back(sender.start(data.back().data(), data.back().size(), tag));
          }
        for (auto* request : requests) wait_for(*net, request, nullptr);
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        constexpr std::array<std::size_t, 8> kPlace = {3, 4, 1, 5, 0, 7, 2, 6};  // of the send
        for (std::size_t group = 0; group < kGroups; ++group) {
          std::vector<std::vector<char>> buffers(8, std::vector<char>(9000));
          std::vector<void*> data;
          for (auto& buffer : buffers) data.push_back(buffer.data());
          auto* const request =
              receiver.start(data, std::vector<std::size_t>(8, 9000), {0, 1, 2, 3, 5, 8, 9, 5});
          std::array<int, 8> sizes{};
          wait_for(*net, request, sizes.data());
          for (std::size_t i = 0; i < 8; ++i) {
            const auto seed = group * 100 + kPlace[i];
            REQUIRE(sizes[i] == static_cast<int>(1000 + seed));
            buffers[i].resize(1000 + seed);
            REQUIRE(buffers[i] == pattern(1000 + seed, seed));
          }
        }
        side.barrier();
      });
}

TEST_P(PluginOver, ReportsAKilledReceiverToASenderWhichWaits) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto sender = Sender::open(*net, side);
        auto bytes = pattern(8 << 20, 1);
        auto* const request = sender.start(bytes.data(), bytes.size());
        side.tell(char{1});
        REQUIRE(failure_of(*net, request) == Status::remote_error);
        void* next = nullptr;
        REQUIRE(net->send(sender.connection, bytes.data(), 1, 0, nullptr, &next) ==
                Status::remote_error);
        REQUIRE(last_warning().find("127.0.0.1") != std::string::npos);
        REQUIRE(net->close_send(sender.connection) == Status::success);
        REQUIRE(net->finalize() == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        receiver.progress_until_told(side);
        ::raise(SIGKILL);
      },
      {0, kKilled});
}

TEST_P(PluginOver, ReportsAKilledSenderToAReceiverWhichWaits) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        std::vector<char> bytes(1 << 20);
        auto* const request = receiver.start({bytes.data()}, {bytes.size()}, {0});
        side.tell(char{1});
        REQUIRE(failure_of(*net, request) == Status::remote_error);
        REQUIRE(last_warning().find("died") != std::string::npos);
        REQUIRE(net->close_receive(receiver.connection) == Status::success);
        REQUIRE(net->finalize() == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(network());
        [[maybe_unused]] const auto sender = Sender::open(*net, side);
        (void)side.hear<char>();
        ::raise(SIGKILL);
      },
      {0, kKilled});
}

TEST_P(PluginOver, ClosesWithTransfersUnderWayAndTellsThePeer) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto sender = Sender::open(*net, side);
        auto bytes = pattern(8 << 20, 1);
        (void)sender.start(bytes.data(), bytes.size());
        REQUIRE(net->close_send(sender.connection) == Status::success);
        bytes = {};
        side.barrier();
        auto again = Sender::open(*net, side);  // the port still works
        auto small = pattern(100, 2);
        wait_for(*net, again.start(small.data(), small.size()), nullptr);
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        receiver.progress_until_told(side);
        side.barrier();
        std::vector<char> other(100);
        REQUIRE(receiver.failure_of_receive(other) == Status::remote_error);
        REQUIRE(net->close_receive(receiver.connection) == Status::success);
        auto again = Receiver::open(*net, side);
        int size = 0;
        wait_for(*net, again.start({other.data()}, {other.size()}, {0}), &size);
        REQUIRE(size == 100 && other == pattern(100, 2));
        void* flushed = &again;
        REQUIRE(net->flush(again.connection, other.data(), 100, nullptr, &flushed) ==
                Status::success);
        REQUIRE(flushed == nullptr);  // the host's memory needs none
        side.barrier();
      });
}

TEST_P(PluginOver, ClosesAReceiveThatWasPostedAndNeverSent) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        auto bytes = std::make_unique<std::array<char, 1000>>();
        (void)receiver.start({bytes->data()}, {bytes->size()}, {0});
        const auto before = Deadline::after(kBound);
        REQUIRE(net->close_receive(receiver.connection) == Status::success);
        REQUIRE(!before.passed());
        bytes.reset();
        side.barrier();
        REQUIRE(net->finalize() == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(network());
        [[maybe_unused]] const auto sender = Sender::open(*net, side);
        side.barrier();
      });
}

TEST_P(PluginOver, RefusesAMessageThatIsLongerThanItsBuffer) {
  run_two(
      [](Side& side) {
        const auto net = open_net(network());
        auto sender = Sender::open(*net, side);
        auto bytes = pattern(2000, 1);
        auto* const request = sender.start(bytes.data(), bytes.size());
        until([&] {
          int done = 0;
          (void)net->test(request, &done, nullptr);  // the peer may refuse it first
          return done != 0 || side.can_hear();
        });
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(network());
        auto receiver = Receiver::open(*net, side);
        std::vector<char> bytes(1000, '#');
        auto* const request = receiver.start({bytes.data()}, {500}, {0});
        REQUIRE(failure_of(*net, request) == Status::invalid_usage);
        REQUIRE(std::count(bytes.begin() + 500, bytes.end(), '#') == 500);
        side.barrier();
      });
}

// The rest does not depend on the provider.
const Network kTcp{"tcp", 12};

TEST(Plugin, AConnectThatIsGivenUpDisturbsNoOther) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        const auto handle = side.hear<HandleBytes>();
        for (int i = 0; i < 3; ++i) {
          auto given_up = handle;
          void* connection = nullptr;
          REQUIRE(net->connect(0, given_up, &connection) == Status::success);
          REQUIRE(connection == nullptr);
        }
        auto kept = handle;
        Sender sender{*net};
        side.barrier();
        until([&] {
          REQUIRE(net->connect(0, kept, &sender.connection) == Status::success);
          return sender.connection != nullptr;
        });
        char byte = 'x';
        wait_for(*net, sender.start(&byte, 1), nullptr);
        side.barrier();
        REQUIRE(net->close_send(sender.connection) == Status::success);
        REQUIRE(net->finalize() == Status::success);
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        HandleBytes handle{};
        void* listener = nullptr;
        REQUIRE(net->listen(0, handle, &listener) == Status::success);
        side.tell(handle);
        side.barrier();
        std::vector<Receiver> accepted;
        std::vector<void*> requests;
        char byte = 0;
        until([&] {
          void* connection = nullptr;
          REQUIRE(net->accept(listener, &connection) == Status::success);
          if (connection != nullptr) {
            accepted.push_back({*net, connection});
            requests.push_back(accepted.back().start({&byte}, {1}, {0}));
          }
          int done = 0;
          for (auto* request : requests)
            if (done == 0) REQUIRE(net->test(request, &done, nullptr) == Status::success);
          return done != 0;
        });
        REQUIRE(byte == 'x');
        side.barrier();
      });
}

TEST(Plugin, AConnectToAClosedListenerIsAnError) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        auto early = side.hear<HandleBytes>();
        auto late = early;
        void* connection = nullptr;
        REQUIRE(net->connect(0, early, &connection) == Status::success);
        side.barrier();
        side.barrier();
        for (auto* handle : {&early, &late})
          until([&] {
            const auto status = net->connect(0, *handle, &connection);
            REQUIRE(connection == nullptr);
            REQUIRE(status == Status::success || status == Status::remote_error);
            return status == Status::remote_error;
          });
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        HandleBytes handle{};
        void* listener = nullptr;
        REQUIRE(net->listen(0, handle, &listener) == Status::success);
        side.tell(handle);
        side.barrier();
        REQUIRE(net->close_listen(listener) == Status::success);
        side.barrier();
      });
}

TEST(Plugin, AStrangerIsClosedAndTheSenderConnects) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        Handle handle;
        const auto bytes = side.hear<HandleBytes>();
        std::memcpy(&handle, bytes.data(), sizeof handle);
        std::vector<Fd> strangers;
        for (int i = 0; i < 5; ++i) {
          strangers.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
          sockaddr_in address{};
          address.sin_family = AF_INET;
          address.sin_port = htons(handle.port);
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          REQUIRE(::connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address),
                            sizeof address) == 0);
          const std::vector<char> noise(i == 0 ? 0 : sizeof(Greeting), 'n');
          REQUIRE(::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(noise.size()));
        }
        auto again = bytes;
        Sender sender{*net};
        until([&] {
          REQUIRE(net->connect(0, again, &sender.connection) == Status::success);
          return sender.connection != nullptr;
        });
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        [[maybe_unused]] const auto receiver = Receiver::open(*net, side);
        side.barrier();
      });
}

TEST(Plugin, HasRoomForTheRequestsThatNcclKeepsInFlightAndThenAsksToWait) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        auto sender = Sender::open(*net, side);
        char byte = 'x';
        for (int i = 0; i < kRequestsInFlight; ++i) wait_for(*net, sender.start(&byte, 1), nullptr);
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        auto receiver = Receiver::open(*net, side);
        char byte = 0;
        std::vector<void*> requests;
        for (int i = 0; i < kRequestsInFlight; ++i)
          requests.push_back(receiver.start({&byte}, {1}, {0}));
        void* data = &byte;
        void* memory = nullptr;
        void* one_more = &byte;
        std::size_t size = 1;
        int tag = 0;
        REQUIRE(net->receive(receiver.connection, {&data, 1}, {&size, 1}, {&tag, 1}, {&memory, 1},
                             &one_more) == Status::success);
        REQUIRE(one_more == nullptr);
        for (auto* request : requests) wait_for(*net, request, nullptr);
        side.barrier();
      });
}

TEST(Plugin, WithoutDescriptorsItReportsAnErrorAndWorksAgainLater) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        [[maybe_unused]] const auto first = Sender::open(*net, side);
        rlimit limit{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
        const rlimit none{3, limit.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
        HandleBytes handle{};
        void* listener = nullptr;
        REQUIRE(net->listen(0, handle, &listener) == Status::system_error);
        REQUIRE(listener == nullptr);
        REQUIRE(last_warning().find("Too many open files") != std::string::npos);
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
        REQUIRE(net->listen(0, handle, &listener) == Status::success);
        REQUIRE(net->close_listen(listener) == Status::success);
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        [[maybe_unused]] const auto receiver = Receiver::open(*net, side);
        side.barrier();
      });
}

TEST(Plugin, RefusesWrongArgumentsWithAnErrorAndAMessage) {
  run_two(
      [](Side& side) {
        const auto net = open_net(kTcp);
        auto sender = Sender::open(*net, side);
        HandleBytes handle{};
        void* out = nullptr;
        char byte = 0;
        REQUIRE(net->listen(99, handle, &out) == Status::invalid_usage);
        REQUIRE(last_warning().find("no device 99") != std::string::npos);
        REQUIRE(net->connect(0, handle, &out) == Status::invalid_usage);
        REQUIRE(net->register_memory(sender.connection, &byte, 1, kCudaMemory, &out) ==
                Status::invalid_usage);
        REQUIRE(net->register_dma_buf(sender.connection, &byte, 1, 0, &out) ==
                Status::system_error);
        REQUIRE(last_warning().find("takes no memory of a GPU") != std::string::npos);
        REQUIRE(net->deregister(sender.connection, &byte) == Status::invalid_usage);
        REQUIRE(net->send(sender.connection, &byte, 1, -1, nullptr, &out) == Status::invalid_usage);
        void* data = &byte;
        void* memory = nullptr;
        std::size_t size = 1;
        int tag = 0;
        REQUIRE(net->receive(sender.connection, {&data, 1}, {&size, 1}, {&tag, 1}, {&memory, 1},
                             &out) == Status::invalid_usage);
        side.barrier();
      },
      [](Side& side) {
        const auto net = open_net(kTcp);
        [[maybe_unused]] const auto receiver = Receiver::open(*net, side);
        side.barrier();
      });
}

TEST(Plugin, TellsItsPropertiesAndRefusesAProviderThatTheHostLacks) {
  const Body knows = [](Side& side) {
    for (const int version : kVersions) {
      const auto net = open_net({"tcp", version});
      const auto properties = net->properties(0);
      REQUIRE(properties.name == "lo" && properties.pointer_support == kHostMemory);
      REQUIRE(properties.speed > 0 && properties.latency > 0 && properties.max_receives == 8);
      REQUIRE(version < 9 || properties.message_limit > (1 << 30));
      REQUIRE(net->finalize() == Status::success);
    }
    side.barrier();
  };
  const Body lacks = [](Side& side) {
    ::setenv("LOCKSTEP_FABRIC_PROVIDER", "efa", 1);
    const auto net = open_plugin(LOCKSTEP_NCCL_PLUGIN, 12);
    REQUIRE(net->init(keep_warning) != Status::success);
    REQUIRE(last_warning().find("'efa'") != std::string::npos);
    REQUIRE(net->devices() == 0);
    side.barrier();
  };
  run_two(knows, lacks);
}

TEST(Plugin, ShowsItsTablesAndNoCollectiveOffload) {
  const Body looks = [](Side& side) {
    void* const library = ::dlopen(LOCKSTEP_NCCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    for (const int version : kVersions) {
      REQUIRE(::dlsym(library, format("ncclNetPlugin_v{}", version).c_str()) != nullptr);
      REQUIRE(::dlsym(library, format("ncclCollNetPlugin_v{}", version).c_str()) == nullptr);
    }
    side.barrier();
  };
  run_two(looks, looks);
}

}  // namespace
}  // namespace lockstep::comm::nccl
