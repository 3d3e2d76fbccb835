#include "comm/collective/inquest.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "comm/flight/brief.h"
#include "comm/flight/log.h"
#include "comm/flight/verdict/verdict.h"

namespace lockstep {
namespace {

// The time for a rank to say where it is, and for the judge to say its verdict.
constexpr auto kTestimonyBound = std::chrono::milliseconds(400);
constexpr auto kVerdictBound = std::chrono::milliseconds(500);
constexpr std::size_t kNamedRanks = 8;

static_assert(kBriefBytes <= kTestimonyLimit);

}  // namespace

GroupEnd Inquest::hold(const Error& cause) {
  const auto brief = brief_flight(recorder_.snapshot());
  own_.assign(reinterpret_cast<const char*>(brief.data()), brief.size());
  const bool lost = cause.code == Code::peer_lost && endpoint_.loss();
  endpoint_.tell_failing(lost ? *endpoint_.loss() : GroupEnd{cause}, own_);
  await_verdict();
  const bool is_told = endpoint_.verdict().has_value();
  auto end = is_told ? *endpoint_.verdict() : verdict(cause);
  if (!is_told || lost) endpoint_.tell_verdict(end);
  return end;
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

// Calls that do not match explain themselves. At a time-out, the rank that is late says more than
// the ranks that waited, which may wait for each other; of all else the cause comes first.
GroupEnd Inquest::verdict(const Error& cause) const {
  if (cause.code == Code::peer_lost && endpoint_.loss()) return verdict_on_loss(cause);
  const auto group = records();
  if (auto words = mismatch_of(group); cause.code == Code::invalid && !words.empty())
    return {{cause.code, std::move(words)}};
  const auto where = where_all_are(group);
  if (cause.code != Code::timeout)
    return {{cause.code, where.empty() ? cause.message : format("{}: {}", cause.message, where)}};
  const auto quiet = silent();
  const int late = quiet.empty() ? late_rank_of(group) : endpoint_.number_of(quiet.front());
  return {{cause.code, where.empty() ? cause.message : format("{}; {}", where, cause.message)},
          late};
}

GroupEnd Inquest::verdict_on_loss(const Error& cause) const {
  GroupEnd end = *endpoint_.loss();
  end.error.code = cause.code;
  if (is_cut_off()) {
    end.at_fault = endpoint_.number_of(endpoint_.rank());
    end.error.message +=
        format("; no other rank answers: rank {} is cut off from all of them", end.at_fault);
    return end;
  }
  blame_the_lost(end);
  if (const auto where = where_all_are(records()); !where.empty())
    end.error.message += ": " + where;
  return end;
}

// Of two ranks, each is as much cut off as the other.
bool Inquest::is_cut_off() const {
  if (endpoint_.size() == 2 || endpoint_.loss()->saw_death) return false;
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (rank != endpoint_.rank() && is_heard(rank) && !endpoint_.parted(rank)) return false;
  return true;
}

// A rank whose connections are cut one after the other blames the first of its peers, and others
// may hear so. A peer that is blamed and that others answer knows better: it lost that rank.
void Inquest::blame_the_lost(GroupEnd& end) const {
  if (end.at_fault != endpoint_.number_of(endpoint_.rank())) return;
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (!endpoint_.parted(rank)) continue;
    end.at_fault = endpoint_.number_of(rank);
    end.error.message = format("lost the connection to {}", text(endpoint_.peer(rank)));
    return;
  }
}

std::vector<int> Inquest::silent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (!is_heard(rank) && !endpoint_.parted(rank)) ranks.push_back(rank);
  return ranks;
}

std::string Inquest::where_all_are(const FlightGroup& group) const {
  std::vector<std::string> parts;
  const auto quiet = silent();
  for (std::size_t i = 0; i < std::min(quiet.size(), kNamedRanks); ++i)
    parts.push_back(format("{} does not answer: it is stopped, hung or cut off",
                           text(endpoint_.peer(quiet[i]))));
  if (quiet.size() > kNamedRanks)
    parts.push_back(format("neither do {} more", quiet.size() - kNamedRanks));
  if (auto words = holdup_of(group, std::chrono::system_clock::now()); !words.empty())
    parts.push_back(std::move(words));
  return joined(parts, "; ");
}

FlightGroup Inquest::records() const {
  FlightGroup group;
  group.size = endpoint_.size();
  group.members = endpoint_.members().ranks;
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (!is_heard(rank)) continue;
    const auto& testimony = rank == endpoint_.rank() ? own_ : *endpoint_.testimony(rank);
    auto log = parse_flight(std::as_bytes(std::span(testimony)));
    // A record that is damaged, or another's, says nothing.
    if (!log || log->rank != endpoint_.number_of(rank)) continue;
    log->process = endpoint_.parted(rank) ? ProcessState::ended : ProcessState::runs;
    group.name = log->name;
    group.logs.push_back(*std::move(log));
  }
  return group;
}

}  // namespace lockstep
