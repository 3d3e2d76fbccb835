#include "platform/agent/link/failure_notifier.h"

#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/membership.h"

namespace lockstep::agent {
namespace {

constexpr auto kNotifyTimeout = std::chrono::seconds(5);

Result<void> notify_failure(const std::string& rendezvous, const net::Secret& secret, int rank) {
  const auto client =
      TRY(comm::RendezvousClient::connect(rendezvous, secret, Deadline::after(kNotifyTimeout)));
  return comm::Membership::report_death(*client, rank);
}

}  // namespace

void FailureNotifier::send(const std::string& rendezvous, const net::Secret& secret, int rank) {
  senders_.emplace_back([=] {
    if (auto notified = notify_failure(rendezvous, secret, rank); !notified)
      LS_LOG(warning, "telling the others that rank {} was killed: {}", rank,
             notified.error().message);
  });
}

}  // namespace lockstep::agent
