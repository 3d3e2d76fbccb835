#include "comm/collective/inquest.h"

#include <chrono>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "comm/flight/brief.h"
#include "comm/flight/log.h"
#include "comm/flight/verdict/verdict.h"

namespace lockstep {
namespace {

// What a rank may take to say where it is, and the judge besides to say what it makes of that.
constexpr auto kTestimonyBound = std::chrono::milliseconds(400);
constexpr auto kVerdictBound = std::chrono::milliseconds(500);
constexpr int kNamedRanks = 8;

static_assert(kBriefBytes <= kTestimonyLimit);

}  // namespace

Error Inquest::hold(const Error& cause) {
  const auto brief = brief_flight(recorder_.snapshot());
  own_.assign(reinterpret_cast<const char*>(brief.data()), brief.size());
  endpoint_.tell_failing(cause, own_);
  await_verdict();
  if (endpoint_.verdict()) return *endpoint_.verdict();
  Error error{cause.code, verdict(cause)};
  endpoint_.tell_verdict(error);
  return error;
}

void Inquest::await_verdict() {
  const auto told = [&] { return endpoint_.verdict().has_value(); };
  endpoint_.hear_out(Deadline::after(kTestimonyBound), [&] { return told() || all_heard(); });
  const auto bound = Deadline::after(kVerdictBound);
  while (!told() && judge() != endpoint_.rank() && !bound.passed())
    endpoint_.hear_out(bound, [&, now = judge()] { return told() || endpoint_.parted(now); });
}

bool Inquest::is_heard(int rank) const {
  return rank == endpoint_.rank() || endpoint_.testimony(rank).has_value();
}

bool Inquest::all_heard() const {
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (!is_heard(rank) && !endpoint_.parted(rank)) return false;
  return true;
}

int Inquest::judge() const {
  for (int rank = 0; rank < endpoint_.rank(); ++rank)
    if (is_heard(rank) && !endpoint_.parted(rank)) return rank;
  return endpoint_.rank();
}

// Calls that do not match explain themselves. At a time-out, who is late says more than who waited
// for whom, who may be waiting himself; of all else the cause comes first.
std::string Inquest::verdict(const Error& cause) const {
  const auto group = records();
  if (auto words = mismatch_of(group); cause.code == Code::invalid && !words.empty()) return words;
  std::vector<std::string> parts;
  add_silent(parts);
  if (auto words = holdup_of(group, std::chrono::system_clock::now()); !words.empty())
    parts.push_back(std::move(words));
  if (parts.empty()) return cause.message;
  const auto where = joined(parts, "; ");
  return cause.code == Code::timeout ? format("{}; {}", where, cause.message)
                                     : format("{}: {}", cause.message, where);
}

FlightGroup Inquest::records() const {
  FlightGroup group;
  group.size = endpoint_.size();
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (!is_heard(rank)) continue;
    const auto& testimony = rank == endpoint_.rank() ? own_ : *endpoint_.testimony(rank);
    auto log = parse_flight(std::as_bytes(std::span(testimony)));
    // A record that is damaged, or another's, says nothing.
    if (!log || log->rank != rank) continue;
    log->process = endpoint_.parted(rank) ? ProcessState::ended : ProcessState::runs;
    group.name = log->group;
    group.logs.push_back(*std::move(log));
  }
  return group;
}

void Inquest::add_silent(std::vector<std::string>& parts) const {
  int silent = 0;
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (is_heard(rank) || endpoint_.parted(rank) || ++silent > kNamedRanks) continue;
    parts.push_back(
        format("{} does not answer: it is stopped, hung or cut off", text(endpoint_.peer(rank))));
  }
  if (silent > kNamedRanks) parts.push_back(format("neither do {} more", silent - kNamedRanks));
}

}  // namespace lockstep
