#include "platform/agent/external/job_ranks.h"

#include <algorithm>

#include <sys/wait.h>

#include "base/format.h"

namespace lockstep::agent {
namespace {

bool is_running(const model::Rank& rank) { return rank.state == model::RankState::running; }

struct End {
  model::RankState state = model::RankState::killed;
  int code = 0;  // of a killed rank: the signal, 0 if it is not known
};

End end_of(const RankFarewell& farewell, bool leaving, bool has_error) {
  using model::RankState;
  if (farewell.code) return {RankState::exited, *farewell.code};
  if (farewell.wait_status && WIFSIGNALED(*farewell.wait_status))
    return {RankState::killed, WTERMSIG(*farewell.wait_status)};
  if (farewell.wait_status) return {RankState::exited, WEXITSTATUS(*farewell.wait_status)};
  if (leaving) return {RankState::exited, has_error ? 1 : 0};
  return {};
}

}  // namespace

void JobRanks::join(int rank, std::optional<int> local_rank, std::int64_t pid) {
  model::Rank* known = find(rank);
  if (known != nullptr && is_running(*known)) {
    ++processes_[rank].connections;
    return;
  }
  processes_[rank] = {.connections = 1};
  if (known == nullptr) {
    ranks_.push_back({.rank = rank, .local_rank = free_local_rank(local_rank), .pid = pid});
    return;
  }
  model::Rank next{.rank = rank, .local_rank = known->local_rank, .pid = pid};
  next.restarts = known->restarts + 1;
  *known = next;
}

void JobRanks::record_leaving(int rank, const std::string& error) {
  Process& process = processes_[rank];
  process.leaving = true;
  if (!error.empty()) process.error = error;
}

void JobRanks::record_end(int rank, const RankFarewell& farewell, Duration moment) {
  model::Rank* known = find(rank);
  Process& process = processes_[rank];
  if (known == nullptr || !is_running(*known) || --process.connections > 0) return;
  const End end = end_of(farewell, process.leaving, !process.error.empty());
  known->state = end.state;
  known->code = end.code;
  known->ended = zero_ + moment;
  if (message_.empty() && !process.error.empty() && model::ended_badly(*known))
    message_ = format("rank {}: {}", rank, process.error);
}

void JobRanks::record_step(int rank, std::int64_t step) {
  model::Rank* known = find(rank);
  if (known == nullptr || step <= known->step) return;
  known->step = step;
  known->fault = report::Fault::none;
  known->fault_rank = -1;
  known->fault_text.clear();
}

void JobRanks::record_fault(int rank, report::Fault fault, int at_fault, const std::string& text) {
  model::Rank* known = find(rank);
  if (known == nullptr || !is_running(*known) || known->fault != report::Fault::none) return;
  known->fault = fault;
  known->fault_rank = at_fault;
  known->fault_text = text;
}

bool JobRanks::has(int rank) const {
  return std::ranges::find(ranks_, rank, &model::Rank::rank) != ranks_.end();
}

bool JobRanks::any_running() const { return std::ranges::any_of(ranks_, is_running); }

model::Rank* JobRanks::find(int rank) {
  const auto found = std::ranges::find(ranks_, rank, &model::Rank::rank);
  return found == ranks_.end() ? nullptr : &*found;
}

int JobRanks::free_local_rank(std::optional<int> wanted) const {
  const auto is_taken = [this](int local) {
    return std::ranges::find(ranks_, local, &model::Rank::local_rank) != ranks_.end();
  };
  if (wanted && *wanted >= 0 && !is_taken(*wanted)) return *wanted;
  int local = 0;
  while (is_taken(local)) ++local;
  return local;
}

}  // namespace lockstep::agent
