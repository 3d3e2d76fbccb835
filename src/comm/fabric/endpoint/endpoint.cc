#include "comm/fabric/endpoint/endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/epoll.h>

#include "base/format.h"

namespace lockstep {
namespace {

// A failed connection is often the first sign of a loss of which the lifeline tells a moment
// later, and better.
constexpr auto kDeathBound = std::chrono::milliseconds(500);
constexpr auto kListenNap = std::chrono::milliseconds(1);
// Who does not wake for what comes from other hosts looks after it so often.
constexpr auto kDeafNap = std::chrono::milliseconds(20);
// Every wait has a bound, also that for work; the waiter looks again and goes on.
constexpr auto kNapLimit = std::chrono::seconds(60);

}  // namespace

Endpoint::Endpoint(Peer self, Members members, Doorbell bell, Fd people)
    : self_(std::move(self)),
      members_(std::move(members)),
      bell_(std::move(bell)),
      people_(std::move(people)) {
  const auto count = members_.ranks.size();
  links_.resize(count);
  lifelines_.resize(count);
  gone_.resize(count);
  may_leave_.resize(count);
  leaving_.resize(count);
  together_.resize(count);
  testimonies_.resize(count);
}

Endpoint::~Endpoint() = default;

const Peer& Endpoint::peer(int rank) const {
  return rank == self_.rank ? self_ : lifelines_[static_cast<std::size_t>(rank)]->peer();
}

Result<void> Endpoint::watch(const Fd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return os_error("watching a descriptor", errno);
  return {};
}

Result<void> Endpoint::poll() {
  return transport_ ? unless_it_left(transport_->poll()) : Result<void>();
}

Result<void> Endpoint::poll_for(int peer) {
  return transport_ ? unless_it_left(transport_->poll_for(peer)) : Result<void>();
}

Result<void> Endpoint::unless_it_left(Result<void> polled) {
  if (polled || polled.error().code != Code::peer_lost) return polled;
  const auto gone_before = gone_;
  const auto deadline = Deadline::after(kDeathBound);
  while (!deadline.passed()) {
    TRY(listen());
    if (gone_ != gone_before) return {};  // it had left in order
    wait_for_events(Ears::deaf, kListenNap);
  }
  const int peer = transport_->failed_peer();
  if (peer < 0) return polled;
  Error error{Code::peer_lost, format("lost the connection to {}: {}", text(this->peer(peer)),
                                      polled.error().message)};
  keep_loss({error, number_of(peer), false});
  return error;
}

Result<void> Endpoint::poll_all() {
  TRY(listen());
  TRY(poll());
  answer_leaving();
  return {};
}

Result<void> Endpoint::listen() {
  for (int peer = 0; peer < size(); ++peer) {
    const auto& lifeline = lifelines_[static_cast<std::size_t>(peer)];
    if (!lifeline) continue;  // this rank, or one that is not met yet
    while (auto notice = lifeline->hear()) TRY(heard(peer, *std::move(notice)));
  }
  return {};
}

Result<void> Endpoint::befallen(Error error) const {
  if (failing_) return {};
  return error;
}

Result<void> Endpoint::heard(int peer, Notice notice) {
  const auto index = static_cast<std::size_t>(peer);
  auto& lifeline = *lifelines_[index];
  if (lifeline.over()) ::epoll_ctl(people_.get(), EPOLL_CTL_DEL, lifeline.fd(), nullptr);
  switch (notice.kind) {
    case Notice::Kind::leaving:
      leaving_[index] = Leaving{{notice.sent[0], notice.sent[1]}};
      return {};
    case Notice::Kind::may_leave:
      may_leave_[index] = true;
      return {};
    case Notice::Kind::closed:
      gone_[index] = true;
      if (transport_) transport_->forget(peer);
      return {};
    case Notice::Kind::together:
    case Notice::Kind::apart:
      together_[index] = notice.kind == Notice::Kind::together;
      return {};
    case Notice::Kind::failing:
      testimonies_[index] = std::move(notice.testimony);
      if (notice.end.error.code == Code::peer_lost && notice.end.at_fault >= 0)
        keep_loss(notice.end);
      return befallen(std::move(notice.end.error));
    case Notice::Kind::verdict:
      if (!verdict_) verdict_ = std::move(notice.end);
      return befallen(verdict_->error);
    case Notice::Kind::gave_up:
      if (!verdict_) {
        verdict_ = std::move(notice.end);
        verdict_->error.message =
            format("rank {} gave up: {}", number_of(peer), verdict_->error.message);
      }
      return befallen(verdict_->error);
    case Notice::Kind::lost:
      gone_[index] = true;
      return befallen(lost(peer));
  }
  return {};
}

Error Endpoint::lost(int peer) {
  const auto& lifeline = *lifelines_[static_cast<std::size_t>(peer)];
  const bool died = lifeline.has_died();
  const auto words = died ? format("{} died", text(lifeline.peer()))
                          : format("lost the connection to {}", text(lifeline.peer()));
  keep_loss({{Code::peer_lost, words}, number_of(peer), died});
  return {Code::peer_lost, words};
}

void Endpoint::keep_loss(const GroupEnd& end) {
  if (!loss_ || (end.saw_death && !loss_->saw_death)) loss_ = end;
}

void Endpoint::answer_leaving() {
  for (std::size_t peer = 0; peer < leaving_.size(); ++peer) {
    if (!leaving_[peer]) continue;
    const bool all = std::all_of(std::begin(kLanes), std::end(kLanes), [&](Lane lane) {
      return links_[peer]->arrived(lane) >= leaving_[peer]->sent[static_cast<std::size_t>(lane)];
    });
    if (!all) continue;
    lifelines_[peer]->tell({Notice::Kind::may_leave});
    leaving_[peer].reset();
  }
}

void Endpoint::set_sleeping(Lane lane, bool sleeping) {
  for (auto* link : links_)
    if (link != nullptr) link->set_sleeping(lane, sleeping);
}

// Not by one epoll of both: the transport's would then tell it of each message, also while nobody
// sleeps.
bool Endpoint::wait_for_events(Ears ears, Duration bound) const {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(bound);
  if (transport_)
    left = std::min(left, std::chrono::ceil<std::chrono::milliseconds>(transport_->nap_max()));
  const bool transport_too = transport_ && ears == Ears::all;
  std::array<pollfd, 2> waited{
      {{people_.get(), POLLIN, 0}, {transport_too ? transport_->wait_fd() : -1, POLLIN, 0}}};
  ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
  return waited[0].revents != 0;
}

// The flag of the point-to-point lane is taken back by who rings, and by nobody else: a thread that
// dozes may still need it when one that slept is up again.
Result<void> Endpoint::sleep(Deadline deadline, const std::function<bool()>& ready) {
  ++sleeping_;
  for (const auto lane : kLanes) set_sleeping(lane, true);
  bool people_stir = false;
  if (!ready() && (!transport_ || transport_->may_sleep()))
    people_stir = wait_for_events(Ears::all, std::min<Duration>(deadline.left(), kNapLimit));
  set_sleeping(Lane::collective, false);
  --sleeping_;
  if (people_stir) {
    bell_.quiet();
    TRY(listen());
  }
  TRY(poll());
  answer_leaving();
  return {};
}

bool Endpoint::lie_down(Doze how, const std::function<bool()>& ready) {
  ++sleeping_;
  set_sleeping(Lane::point_to_point, true);
  if (!ready() && (!transport_ || how == Doze::deaf || transport_->may_sleep())) return true;
  --sleeping_;
  return false;
}

void Endpoint::doze(Doze how) const {
  if (how == Doze::light)
    wait_for_events(Ears::all, kNapLimit);
  else
    wait_for_events(Ears::deaf, transport_ ? Duration(kDeafNap) : Duration(kNapLimit));
}

Result<void> Endpoint::get_up() {
  --sleeping_;
  bell_.quiet();
  return poll_all();
}

void Endpoint::wake() {
  if (sleeping_.load() > 0) bell_.ring();
}

void Endpoint::tell_all(const Notice& notice) {
  for (const auto& lifeline : lifelines_)
    if (lifeline) lifeline->tell(notice);
}

void Endpoint::tell_giving_up(const GroupEnd& end) { tell_all({Notice::Kind::gave_up, {}, end}); }

void Endpoint::tell_failing(const GroupEnd& cause, const std::string& testimony) {
  failing_ = true;
  tell_all({Notice::Kind::failing, {}, cause, testimony});
}

void Endpoint::tell_verdict(const GroupEnd& verdict) {
  tell_all({Notice::Kind::verdict, {}, verdict});
}

bool Endpoint::all_know_of_failure() const {
  return std::any_of(testimonies_.begin(), testimonies_.end(),
                     [](const auto& one) { return one.has_value(); });
}

void Endpoint::hear_out(Deadline deadline, const std::function<bool()>& ready) {
  for (;;) {
    (void)listen();  // nothing is an error now
    if (ready() || deadline.passed()) return;
    wait_for_events(Ears::deaf, deadline.left());
    bell_.quiet();
  }
}

void Endpoint::start_leaving() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    lifelines_[static_cast<std::size_t>(peer)]->tell(
        {Notice::Kind::leaving, {link(peer).sent(kLanes[0]), link(peer).sent(kLanes[1])}});
  }
}

bool Endpoint::may_leave() const {
  for (std::size_t peer = 0; peer < links_.size(); ++peer)
    if (links_[peer] != nullptr && !may_leave_[peer] && !gone_[peer]) return false;
  return true;
}

}  // namespace lockstep
