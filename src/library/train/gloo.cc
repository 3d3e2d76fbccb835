#include "library/train/gloo.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/format.h"

namespace lockstep {
namespace {

Result<std::string> variable(const char* name) {
  if (const char* value = std::getenv(name)) return std::string(value);
  return Error{Code::invalid,
               format("{} is not set: start the program with lockstep run or torchrun", name)};
}

Result<int> number(const char* name, int least, int most) {
  const std::string text = TRY(variable(name));
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return Error{Code::invalid,
                 format("{}={}: expected a number from {} to {}", name, text, least, most)};
  return value;
}

// A new store, without entries of earlier calls of this program.
c10::intrusive_ptr<c10d::Store> open_store(const std::string& host, int port, int rank,
                                           std::chrono::milliseconds bound) {
  c10d::TCPStoreOptions where;
  where.port = static_cast<std::uint16_t>(port);
  where.isServer = rank == 0;
  where.waitWorkers = false;
  where.multiTenant = true;
  where.timeout = bound;
  static int calls = 0;
  return c10::make_intrusive<c10d::PrefixStore>(format("lockstep-{}", calls++),
                                                c10::make_intrusive<c10d::TCPStore>(host, where));
}

c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const std::string& host, int port, int rank,
                                                  int size, std::chrono::milliseconds bound) {
  auto store = open_store(host, port, rank, bound);
  auto options = c10d::ProcessGroupGloo::Options::create(bound);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool local = host == "localhost" || host.rfind("127.", 0) == 0;
  options->devices.push_back(interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                             : local   ? c10d::ProcessGroupGloo::createDeviceForHostname(host)
                                       : c10d::ProcessGroupGloo::createDefaultDevice());
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);

  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

}  // namespace

Result<c10::intrusive_ptr<c10d::ProcessGroup>> connect_gloo(Duration timeout) {
  const auto host = TRY(variable("MASTER_ADDR"));
  const int port = TRY(number("MASTER_PORT", 1, 65535));
  const int size = TRY(number("WORLD_SIZE", 1, 1 << 20));
  const int rank = TRY(number("RANK", 0, size - 1));
  try {
    return gloo_group(host, port, rank, size,
                      std::chrono::ceil<std::chrono::milliseconds>(timeout));
  } catch (const std::exception& exception) {
    const std::string message = exception.what();
    return Error{Code::unavailable,
                 format("rank {} of {} connecting over Gloo at {}:{}: {}", rank, size, host, port,
                        message.substr(0, message.find('\n')))};
  }
}

}  // namespace lockstep
