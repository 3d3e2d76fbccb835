#include "platform/agent/death_notices.h"

#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/crew.h"

namespace lockstep {
namespace {

constexpr auto kBound = std::chrono::seconds(5);

Result<void> tell(const std::string& rendezvous, const Secret& secret, int rank) {
  const auto place = TRY(RendezvousClient::connect(rendezvous, secret, Deadline::after(kBound)));
  return Crew::tell_death(*place, rank);
}

}  // namespace

void DeathNotices::send(const std::string& rendezvous, const Secret& secret, int rank) {
  senders_.emplace_back([=] {
    if (auto told = tell(rendezvous, secret, rank); !told)
      LS_LOG(warning, "telling the others that rank {} was killed: {}", rank, told.error().message);
  });
}

}  // namespace lockstep
