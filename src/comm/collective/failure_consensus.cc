#include "comm/collective/failure_consensus.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/log.h"
#include "comm/flight/summary.h"

namespace lockstep::comm {
namespace {

// The time for a rank to send its report, and for the deciding rank to send the failure reason.
constexpr auto kFailureReportTimeout = std::chrono::milliseconds(400);
constexpr auto kFailureReasonTimeout = std::chrono::milliseconds(500);
// In a large group a rank may know that a process has died, which others only lost.
constexpr auto kDeathTimeout = std::chrono::milliseconds(100);
// In a large group, for each rank whose report the deciding ones receive and read.
constexpr auto kReasonTimeoutPerRank = std::chrono::milliseconds(1);
constexpr std::size_t kNamedRanks = 8;

static_assert(kSummaryBytes <= kFailureReportLimit);

}  // namespace

FailureReason FailureConsensus::agree_on_reason(const Error& cause) {
  const bool lost = cause.code == Code::peer_lost && endpoint_.connection_loss();
  if (lost && !endpoint_.is_full_mesh())
    await_reason_of_loss();
  else
    await_reason_by_reports(cause);
  const bool is_told = has_reason();
  auto end = is_told ? *endpoint_.failure_reason() : decide_reason(cause);
  if (!is_told || lost || !endpoint_.is_full_mesh()) endpoint_.send_failure_reason(end);
  return end;
}

void FailureConsensus::await_reason_of_loss() {
  endpoint_.send_failure_notice(*endpoint_.connection_loss());
  endpoint_.collect_failure_reports(Deadline::after(kDeathTimeout), [&] {
    return has_reason() || endpoint_.connection_loss()->process_died;
  });
  wait_for_deciding_ranks([&](int rank) { return !endpoint_.is_disconnected(rank); });
}

void FailureConsensus::await_reason_by_reports(const Error& cause) {
  const auto brief = summarize_flight_record(recorder_.snapshot());
  own_report_.assign(reinterpret_cast<const char*>(brief.data()), brief.size());
  const bool lost = cause.code == Code::peer_lost && endpoint_.connection_loss();
  endpoint_.send_failure_report(lost ? *endpoint_.connection_loss() : FailureReason{cause},
                                own_report_);
  endpoint_.collect_failure_reports(Deadline::after(kFailureReportTimeout), [&] {
    return has_reason() || all_reported() || is_loss_known();
  });
  if (endpoint_.is_full_mesh()) return wait_for_deciding_rank();
  wait_for_deciding_ranks([&](int rank) {
    const bool is_silent = endpoint_.receives_reports() && !has_report(rank) && !is_loss_known();
    return !endpoint_.is_disconnected(rank) && !is_silent;
  });
}

void FailureConsensus::wait_for_deciding_rank() {
  const auto bound = Deadline::after(kFailureReasonTimeout);
  while (!has_reason() && deciding_rank() != endpoint_.rank() && !bound.passed())
    endpoint_.collect_failure_reports(bound, [&, now = deciding_rank()] {
      return has_reason() || endpoint_.is_disconnected(now);
    });
}

// One after the other: ranks that decide at the same time may find different reasons.
void FailureConsensus::wait_for_deciding_ranks(const std::function<bool(int)>& awaits) {
  for (const int decider : deciding_ranks(endpoint_.size())) {
    if (has_reason() || decider == endpoint_.rank()) return;
    endpoint_.collect_failure_reports(
        Deadline::after(kFailureReasonTimeout + endpoint_.size() * kReasonTimeoutPerRank),
        [&] { return has_reason() || !awaits(decider); });
  }
}

bool FailureConsensus::has_report(int rank) const {
  return rank == endpoint_.rank() || endpoint_.failure_report(rank).has_value();
}

bool FailureConsensus::all_reported() const {
  if (!endpoint_.receives_reports()) return false;
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (!has_report(rank) && !endpoint_.is_disconnected(rank)) return false;
  return true;
}

int FailureConsensus::deciding_rank() const {
  for (int rank = 0; rank < endpoint_.rank(); ++rank)
    if (has_report(rank) && !endpoint_.is_disconnected(rank)) return rank;
  return endpoint_.rank();
}

// For calls that do not match, the error explains itself. On a time-out, the late rank's report is
// more informative than those of the waiting ranks, which may wait for each other. In all other
// cases the cause comes first.
FailureReason FailureConsensus::decide_reason(const Error& cause) const {
  if (is_loss_known() || (cause.code == Code::peer_lost && endpoint_.connection_loss()))
    return reason_for_loss();
  const auto group = failure_reports();
  if (auto description = describe_mismatch(group);
      cause.code == Code::invalid && !description.empty())
    return {{cause.code, std::move(description)}};
  const auto where = describe_all_ranks(group);
  if (cause.code != Code::timeout)
    return {{cause.code, where.empty() ? cause.message : format("{}: {}", cause.message, where)}};
  const auto quiet = unresponsive_ranks();
  const int late = quiet.empty() ? find_late_rank(group) : endpoint_.global_rank(quiet.front());
  return {{cause.code, where.empty() ? cause.message : format("{}; {}", where, cause.message)},
          late};
}

FailureReason FailureConsensus::reason_for_loss() const {
  FailureReason end = *endpoint_.connection_loss();
  if (is_cut_off()) {
    end.rank_at_fault = endpoint_.global_rank(endpoint_.rank());
    end.error.message +=
        format("; no other rank answers: rank {} is cut off from all of them", end.rank_at_fault);
    return end;
  }
  blame_disconnected_peer(end);
  if (!endpoint_.is_full_mesh()) return end;
  if (const auto where = describe_all_ranks(failure_reports()); !where.empty())
    end.error.message += ": " + where;
  return end;
}

// In a group of two ranks, each is as disconnected as the other.
bool FailureConsensus::is_cut_off() const {
  if (endpoint_.size() == 2 || endpoint_.connection_loss()->process_died) return false;
  if (!endpoint_.is_full_mesh())
    return std::ranges::all_of(endpoint_.connected(),
                               [this](int peer) { return endpoint_.is_disconnected(peer); });
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (rank != endpoint_.rank() && has_report(rank) && !endpoint_.is_disconnected(rank))
      return false;
  return true;
}

// A rank whose connections are cut one after the other blames the first of its peers, and others
// may receive that report. If other ranks still answer the blamed peer, its own report is right: it
// lost that rank.
void FailureConsensus::blame_disconnected_peer(FailureReason& end) const {
  if (!answers(end.rank_at_fault)) return;
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (!endpoint_.is_disconnected(rank)) continue;
    end.rank_at_fault = endpoint_.global_rank(rank);
    end.error.message = format("lost the connection to {}", text(endpoint_.peer(rank)));
    return;
  }
}

bool FailureConsensus::answers(int global_rank) const {
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (endpoint_.global_rank(rank) == global_rank)
      return has_report(rank) && !endpoint_.is_disconnected(rank);
  return false;
}

std::vector<int> FailureConsensus::unresponsive_ranks() const {
  std::vector<int> ranks;
  if (!endpoint_.receives_reports()) return ranks;
  for (int rank = 0; rank < endpoint_.size(); ++rank)
    if (!has_report(rank) && !endpoint_.is_disconnected(rank)) ranks.push_back(rank);
  return ranks;
}

std::string FailureConsensus::describe_all_ranks(const FlightGroup& group) const {
  std::vector<std::string> parts;
  const auto quiet = unresponsive_ranks();
  for (std::size_t i = 0; i < std::min(quiet.size(), kNamedRanks); ++i)
    parts.push_back(format("{} does not answer: it is stopped, hung or cut off",
                           text(endpoint_.peer(quiet[i]))));
  if (quiet.size() > kNamedRanks)
    parts.push_back(format("neither do {} more", quiet.size() - kNamedRanks));
  if (auto description = describe_stall(group, std::chrono::system_clock::now());
      !description.empty())
    parts.push_back(std::move(description));
  return joined(parts, "; ");
}

FlightGroup FailureConsensus::failure_reports() const {
  FlightGroup group;
  group.size = endpoint_.size();
  group.members = endpoint_.members().ranks;
  for (int rank = 0; rank < endpoint_.size(); ++rank) {
    if (!has_report(rank)) continue;
    const auto& report = rank == endpoint_.rank() ? own_report_ : *endpoint_.failure_report(rank);
    auto log = parse_flight(std::as_bytes(std::span(report)));
    // A record that is damaged, or of another rank, contains no information.
    if (!log || log->rank != endpoint_.global_rank(rank)) continue;
    log->process = endpoint_.is_disconnected(rank) ? ProcessState::ended : ProcessState::runs;
    group.name = log->name;
    group.logs.push_back(*std::move(log));
  }
  return group;
}

}  // namespace lockstep::comm
