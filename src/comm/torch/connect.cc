#include "comm/torch/connect.h"

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "comm/collective/communicator.h"
#include "comm/device/device_backend.h"
#include "comm/fabric/address/network_options.h"
#include "comm/rendezvous/client.h"
#include "comm/torch/backend.h"
#include "comm/torch/launcher_environment.h"
#include "comm/torch/rendezvous_store.h"
#include "comm/torch/store_rendezvous.h"
#include "net/crypto.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Result<int> number_variable(const char* name) {
  const auto value = variable(name);
  if (!value)
    return Error{
        Code::invalid,
        format("{} is not set: start ranks by lockstep run, torchrun, mpirun or srun", name)};
  int number = 0;
  const auto* const end = value->data() + value->size();
  const auto [stop, failure] = std::from_chars(value->data(), end, number);
  if (failure != std::errc() || stop != end || number < 0)
    return Error{Code::invalid, format("{} must be a number, got '{}'", name, *value)};
  return number;
}

// Ranks with equal ids may share memory.
Result<std::string> host_id() {
  if (auto id = variable("LOCKSTEP_HOST_ID")) return *std::move(id);
  auto boot_id = read_file("/proc/sys/kernel/random/boot_id");
  if (!boot_id) return std::move(boot_id).error().with_context("telling hosts apart");
  while (!boot_id->empty() && boot_id->back() == '\n') boot_id->pop_back();
  return boot_id;
}

// Nullopt if the environment names no file.
Result<std::optional<net::Secret>> secret_from_file() {
  const auto path = variable("LOCKSTEP_SECRET_FILE");
  if (!path) return std::optional<net::Secret>();
  auto content = read_file(*path);
  if (!content) return std::move(content).error().with_context("reading LOCKSTEP_SECRET_FILE");
  auto secret = net::Secret::from_hex(*content);
  if (!secret)
    return std::move(secret).error().with_context(format("LOCKSTEP_SECRET_FILE {}", *path));
  return std::optional<net::Secret>(*std::move(secret));
}

Result<net::Secret> secret_of_group(Rendezvous& rendezvous, bool makes_secret,
                                    const Deadline& deadline) {
  if (auto secret = TRY(secret_from_file())) return *std::move(secret);
  if (auto secret = launcher_secret()) return *std::move(secret);
  if (makes_secret) {
    const net::Secret secret = net::Secret::random();
    TRY(rendezvous.set("secret", secret.hex()));
    return secret;
  }
  return net::Secret::from_hex(TRY(rendezvous.get("secret", deadline)));
}

Result<c10::intrusive_ptr<Backend>> connect(const ConnectOptions& options, net::Secret secret,
                                            Rendezvous& rendezvous,
                                            DeviceGroup::OpenStore open_store) {
  CommunicatorOptions communicator{
      .rank = options.rank,
      .size = options.size,
      .host_id = {},
      .secret = std::move(secret),
      .group = options.group,
      .members = options.members,
      .timeout = options.timeout,
      .network = TRY(network_options_from_environment(own_environment())),
      .rendezvous_timeout = options.rendezvous_timeout,
      .membership = options.membership.get()};
  communicator.host_id = TRY(host_id());
  return Backend::create(std::move(communicator), rendezvous,
                         {options.generation, options.rendezvous_timeout, options.membership},
                         std::move(open_store));
}

// The number of uses of the store by this rank. A group made again under the same name, after the
// first was destroyed, must not find the addresses of the first. All ranks count the same.
Result<std::int64_t> count_use(c10d::Store& store, int rank) try {
  return store.add(format("lockstep/uses/{}", rank), 1);
} catch (const std::exception& error) {
  return Error{Code::unavailable, format("writing to torch's store: {}", reason(error))};
}

// Under torchrun, its agent serves the store on MASTER_PORT; else rank 0 does.
Result<c10::intrusive_ptr<c10d::Store>> open_store(const std::string& host, int port,
                                                   const ConnectOptions& options) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(port);
  store.isServer = options.rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  // the ranks wait for each other when they connect, and report the missing ones
  store.waitWorkers = false;
  store.multiTenant = true;
  store.timeout = std::chrono::duration_cast<milliseconds>(options.timeout);
  try {
    const auto attempt = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
    c10::intrusive_ptr<c10d::Store> tcp = c10::make_intrusive<c10d::TCPStore>(host, store);
    return c10::intrusive_ptr<c10d::Store>(
        c10::make_intrusive<c10d::PrefixStore>("lockstep/attempt_" + attempt, std::move(tcp)));
  } catch (const std::exception& error) {
    return Error{Code::unavailable,
                 format("meeting at MASTER_ADDR {}, port {}: {}", host, port, reason(error))};
  }
}

struct OpenStores {
  Mutex mutex;  // guards what follows
  std::map<std::string, c10::intrusive_ptr<c10d::Store>> stores LS_GUARDED_BY(mutex);
};

// Opened once and kept until the process ends. Rank 0's store serves the others, which may still
// read from it when rank 0 is connected to all, or use it for the next group before rank 0 has left
// the last.
Result<c10::intrusive_ptr<c10d::Store>> store_from_environment(const ConnectOptions& options) {
  const auto host = variable("MASTER_ADDR");
  if (!host)
    return Error{Code::invalid,
                 "neither LOCKSTEP_RENDEZVOUS nor MASTER_ADDR is set: start ranks by lockstep run, "
                 "torchrun, mpirun or srun"};
  const int port = TRY(number_variable("MASTER_PORT"));
  if (port > 65535) return Error{Code::invalid, format("MASTER_PORT {} is no port", port)};
  static auto* const open = new OpenStores;  // never destroyed: its threads may outlive statics
  Lock lock(open->mutex);
  auto& store = open->stores[format("{}:{}", *host, port)];
  if (!store) store = TRY(open_store(*host, port, options));
  return store;
}

struct Connections {
  Mutex mutex;                                    // guards what follows
  std::map<int, int> begun LS_GUARDED_BY(mutex);  // by generation
};

// The number of connections that this process has begun in a generation, counting this one.
int count_connection(int generation) {
  static auto* const connections = new Connections;  // as the open stores
  Lock lock(connections->mutex);
  return ++connections->begun[generation];
}

Result<c10::intrusive_ptr<Backend>> connect_at(const std::string& address, ConnectOptions options) {
  auto secret = TRY(secret_from_file());
  if (!secret)
    return Error{Code::invalid, "LOCKSTEP_RENDEZVOUS is set, but LOCKSTEP_SECRET_FILE is not"};
  const auto bound =
      options.rendezvous_timeout > Duration(0) ? options.rendezvous_timeout : options.timeout;
  auto client =
      TRY(RendezvousClient::connect(address, *secret, Deadline::after(bound),
                                    TRY(net::connection_timeout_from(own_environment()))));
  // The rendezvous outlives a group: the next one of this process needs another name.
  const int number = count_connection(options.generation);
  if (options.generation > 0) options.group += format("-g{}", options.generation);
  if (number > 1) options.group += format("-{}", number);
  auto open_store =
      [=, secret = *secret](
          const OperationFuture& group_end) -> Result<c10::intrusive_ptr<c10d::Store>> {
    auto own = TRY(RendezvousClient::connect(address, secret, Deadline::after(bound),
                                             TRY(net::connection_timeout_from(own_environment()))));
    return c10::intrusive_ptr<c10d::Store>(
        c10::make_intrusive<RendezvousStore>(std::move(own), "device/" + options.group,
                                             std::chrono::ceil<milliseconds>(bound), group_end));
  };
  return connect(options, *std::move(secret), *client, std::move(open_store));
}

c10::intrusive_ptr<c10d::ProcessGroup> group_of(c10::intrusive_ptr<c10d::Backend> backend,
                                                c10::intrusive_ptr<c10d::Store> store) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(std::move(store), backend->getRank(),
                                                       backend->getSize());
  const auto custom = c10d::ProcessGroup::BackendType::CUSTOM;
  for (const auto type : device_types_with_backends()) group->setBackend(type, custom, backend);
  group->setBackend(c10::DeviceType::CPU, custom, std::move(backend));
  group->setDefaultBackend(custom);
  group->setGroupName("lockstep");
  return group;
}

}  // namespace

Result<c10::intrusive_ptr<c10d::Backend>> connect_through_store(
    c10::intrusive_ptr<c10d::Store> store, const ConnectOptions& options) {
  const auto uses = TRY(count_use(*store, options.rank));
  const auto prefix = format("lockstep/{}", uses);
  auto open_store = [=](const OperationFuture& /*group_end*/) {
    return Result<c10::intrusive_ptr<c10d::Store>>(
        c10::make_intrusive<c10d::PrefixStore>(prefix + "/device", store));
  };
  StoreRendezvous rendezvous(store, prefix);
  auto secret =
      TRY(secret_of_group(rendezvous, options.rank == 0, Deadline::after(options.timeout)));
  auto backend = TRY(connect(options, std::move(secret), rendezvous, std::move(open_store)));
  return c10::intrusive_ptr<c10d::Backend>(std::move(backend));
}

Result<c10::intrusive_ptr<c10d::Backend>> connect_at_rendezvous(const ConnectOptions& options) {
  const auto address = variable("LOCKSTEP_RENDEZVOUS");
  if (!address)
    return Error{Code::invalid,
                 "LOCKSTEP_RENDEZVOUS is not set, and there is no store to meet in: start ranks by "
                 "lockstep run, or by torchrun"};
  auto backend = TRY(connect_at(*address, options));
  return c10::intrusive_ptr<c10d::Backend>(std::move(backend));
}

Result<c10::intrusive_ptr<c10d::ProcessGroup>> process_group_at_rendezvous(
    const ConnectOptions& options) {
  return group_of(TRY(connect_at_rendezvous(options)), nullptr);
}

Result<RunRendezvous> open_rendezvous(bool makes_secret, Duration timeout) {
  const auto deadline = Deadline::after(timeout);
  if (const auto address = variable("LOCKSTEP_RENDEZVOUS")) {
    auto secret = TRY(secret_from_file());
    if (!secret)
      return Error{Code::invalid, "LOCKSTEP_RENDEZVOUS is set, but LOCKSTEP_SECRET_FILE is not"};
    auto client = TRY(RendezvousClient::connect(
        *address, *secret, deadline, TRY(net::connection_timeout_from(own_environment()))));
    return RunRendezvous{std::move(client), *std::move(secret)};
  }
  const auto numbers = TRY(rank_from_environment(timeout));
  auto store =
      TRY(store_from_environment({.rank = numbers.rank, .size = numbers.size, .timeout = timeout}));
  end_launcher_meeting();
  auto rendezvous = std::make_unique<StoreRendezvous>(std::move(store), "lockstep/groups");
  auto secret = secret_of_group(*rendezvous, makes_secret, deadline);
  if (!secret && secret.error().code == Code::already_exists)  // an earlier call made it
    secret = secret_of_group(*rendezvous, false, deadline);
  if (!secret) return std::move(secret).error();
  return RunRendezvous{std::move(rendezvous), *std::move(secret)};
}

Result<c10::intrusive_ptr<c10d::ProcessGroup>> process_group_by_name(
    Rendezvous& rendezvous, const net::Secret& secret, const ConnectOptions& options) {
  auto backend = TRY(connect(options, secret, rendezvous, [](const OperationFuture& /*end*/) {
    return Result<c10::intrusive_ptr<c10d::Store>>(
        Error{Code::invalid, "this group serves tensors on the CPU only"});
  }));
  return group_of(std::move(backend), nullptr);
}

Result<RankNumbers> rank_from_environment(Duration timeout) {
  for (const auto& [name, value] : TRY(meet_by_launcher(timeout)))
    ::setenv(name.c_str(), value.c_str(), 1);
  const RankNumbers numbers{TRY(number_variable("RANK")), TRY(number_variable("WORLD_SIZE"))};
  if (numbers.rank >= numbers.size)
    return Error{Code::invalid,
                 format("RANK {} is not below WORLD_SIZE {}", numbers.rank, numbers.size)};
  return numbers;
}

Result<c10::intrusive_ptr<c10d::ProcessGroup>> connect_from_environment(Duration timeout) {
  const auto numbers = TRY(rank_from_environment(timeout));
  const ConnectOptions options{.rank = numbers.rank, .size = numbers.size, .timeout = timeout};
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::Store> store;
  if (variable("LOCKSTEP_RENDEZVOUS")) {
    backend = TRY(connect_at_rendezvous(options));
  } else {
    store = TRY(store_from_environment(options));
    auto connected = connect_through_store(store, options);
    end_launcher_meeting();
    backend = TRY(std::move(connected));
  }
  return group_of(std::move(backend), std::move(store));
}

}  // namespace lockstep::comm
