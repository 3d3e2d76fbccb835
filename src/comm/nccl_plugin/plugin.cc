#include "comm/nccl_plugin/plugin.h"

#include <utility>

#include "base/format.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/nccl_plugin/log.h"
#include "comm/nccl_plugin/ofi_endpoint.h"

namespace lockstep::comm::nccl {
namespace {

constexpr auto kPendingBound = std::chrono::minutes(5);

Result<Host> find_host(const Environment& environment) {
  Host host;
  const auto options = TRY(network_options_from_environment(environment));
  host.address = TRY(choose_address(options)).address;
  host.devices = TRY(find_devices(environment));
  return host;
}

}  // namespace

Result<std::shared_ptr<Port>> Context::port(int device) {
  if (device < 0 || static_cast<std::size_t>(device) >= host_.devices.size())
    return Error{Code::invalid,
                 format("there is no device {}, only {}", device, host_.devices.size())};
  const Lock lock(mutex_);
  if (const auto found = ports_.find(device); found != ports_.end()) return found->second;
  const auto& chosen = host_.devices[static_cast<std::size_t>(device)];
  auto endpoint = TRY(open_endpoint(chosen));
  auto port = std::make_shared<Port>(std::move(endpoint), chosen.provider, chosen.message_limit);
  ports_.emplace(device, port);
  return port;
}

Result<std::unique_ptr<ListenConnection>> Context::listen(int device, Handle& handle) {
  return ListenConnection::open(TRY(port(device)), host_.address, handle);
}

Result<Context::Pending> Context::take_pending(std::uint64_t number) {
  const Lock lock(mutex_);
  std::erase_if(pending_, [](const auto& entry) { return entry.second.deadline.passed(); });
  auto found = pending_.extract(number);
  if (found.empty())
    return Error{Code::timeout, "an unfinished connect was not continued for 5 minutes"};
  return std::move(found.mapped());
}

Result<std::unique_ptr<SendConnection>> Context::connect(int device, Handle& handle) {
  Pending pending{nullptr, Deadline::after(kPendingBound)};
  if (handle.pending == 0)
    pending.connect = TRY(PendingConnect::start(TRY(port(device)), handle));
  else
    pending.connect = TRY(take_pending(handle.pending)).connect;
  auto connection = TRY(pending.connect->continue_connect());
  if (connection) return connection;
  const Lock lock(mutex_);
  if (handle.pending == 0) handle.pending = next_pending_++;
  pending_.emplace(handle.pending, std::move(pending));
  return connection;
}

Plugin& Plugin::get() {
  static auto* const plugin = new Plugin;
  return *plugin;
}

Result<void> Plugin::init(Logger logger) {
  set_logger(logger);
  const Lock lock(mutex_);
  if (host_) return {};
  host_ = std::make_unique<Host>(TRY(find_host(own_environment())));
  shared_context_ = std::make_unique<Context>(*host_);
  for (const auto& device : host_->devices)
    log_info(format("device {} of provider {}, {} Mbit/s, peers connect to {}", device.name,
                    device.provider, device.speed, host_->address));
  return {};
}

int Plugin::device_count() const { return host_ ? static_cast<int>(host_->devices.size()) : 0; }

const Device* Plugin::device(int number) const {
  if (number < 0 || number >= device_count()) return nullptr;
  return &host_->devices[static_cast<std::size_t>(number)];
}

Result<std::unique_ptr<Context>> Plugin::new_context() const {
  if (!host_) return Error{Code::invalid, "the plugin was not initialized"};
  return std::make_unique<Context>(*host_);
}

}  // namespace lockstep::comm::nccl
