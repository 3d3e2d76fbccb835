#include "platform/agent/stream/stream_service.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "net/socket.h"
#include "net/stream/relay.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kStreamsMax = 128;  // the daemon has a lower limit for a run
constexpr std::size_t kKnownMax = 1000;
constexpr Duration kPortPatience = std::chrono::seconds(5);
constexpr Duration kPortSilence = std::chrono::minutes(1);

// A program that listens at `localhost` may do so at either address.
Result<net::Socket> connect_port(int port) {
  const auto number = static_cast<std::uint16_t>(port);
  auto socket = net::Socket::connect_tcp("127.0.0.1", number, Deadline::after(kPortPatience));
  if (socket) return socket;
  auto other = net::Socket::connect_tcp("::1", number, Deadline::after(kPortPatience));
  return other ? std::move(other) : std::move(socket);
}

}  // namespace

StreamService::~StreamService() { stop_.request_stop(); }

bool StreamService::open(const std::vector<api::StreamOrder>& orders) {
  bool is_new = false;
  std::erase_if(streams_, [](const auto& stream) {
    return stream.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  for (const api::StreamOrder& order : orders) {
    if (std::ranges::find(known_, order.id) != known_.end()) continue;
    if (streams_.size() >= kStreamsMax) break;  // the order comes again
    known_.push_back(order.id);
    if (known_.size() > kKnownMax) known_.pop_front();
    streams_.push_back(std::async(std::launch::async, [this, order] { serve(order); }));
    is_new = true;
  }
  return is_new;
}

void StreamService::serve(const api::StreamOrder& order) const {
  auto connection = connect_(order.id);
  if (!connection) {
    LS_LOG(warning, "opening stream {}: {}", order.id, connection.error().message);
    return;
  }
  auto local = local_end(order);
  if (!local) return net::reset_stream(*std::move(connection), local.error().message);
  const auto ended = net::relay(*std::move(connection), *std::move(local), stop_.get_token());
  if (!ended) LS_LOG(debug, "stream {}: {}", order.id, ended.error().message);
}

Result<Fd> StreamService::local_end(const api::StreamOrder& order) const {
  if (order.shell) return shell_();
  auto socket = connect_port(order.port);
  if (!socket)
    return Error{socket.error().code, format("nothing answers at port {} of the node: {}",
                                             order.port, socket.error().message)};
  socket->set_keepalive(kPortSilence);
  return std::move(*socket).release();
}

}  // namespace lockstep::agent
