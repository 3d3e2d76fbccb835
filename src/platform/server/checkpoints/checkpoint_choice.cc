#include "platform/server/checkpoints/checkpoint_choice.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/format.h"

namespace lockstep::server {
namespace {

// Checkpoints of one step may differ: two attempts wrote them.
struct CheckpointKey {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string manifest{};

  auto operator<=>(const CheckpointKey&) const = default;
};

CheckpointChoice candidate_of(const api::HostCheckpoint& listed) {
  return {.checkpoint = {.step = listed.step, .manifest = listed.manifest, .files = listed.files}};
}

void add_host(CheckpointChoice& candidate, const std::string& host,
              const api::HostCheckpoint& listed) {
  for (const api::CheckpointFile& file : listed.files)
    if (std::ranges::find(listed.missing, file.name) == listed.missing.end())
      candidate.hosts[file.name].push_back(host);
}

bool is_whole(const CheckpointChoice& candidate) {
  return std::ranges::all_of(candidate.checkpoint.files, [&](const api::CheckpointFile& file) {
    return candidate.hosts.contains(file.name);
  });
}

std::string silent_hosts_text(const HostLists& known) {
  std::vector<std::string> hosts;
  for (const auto& [host, reason] : known.silent) hosts.push_back(format("{}: {}", host, reason));
  return hosts.empty() ? "all hosts of the run have answered" : joined(hosts, "; ");
}

}  // namespace

Result<CheckpointChoice> choose_checkpoint(const HostLists& known) {
  std::map<CheckpointKey, CheckpointChoice> candidates;
  for (const auto& [host, list] : known.lists)
    for (const api::HostCheckpoint& listed : list) {
      const CheckpointKey key{listed.step, listed.epoch, listed.manifest};
      add_host(candidates.try_emplace(key, candidate_of(listed)).first->second, host, listed);
    }
  std::int64_t newest = known.reported.value_or(0);
  if (!candidates.empty()) newest = std::max(newest, candidates.rbegin()->first.step);
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    if (!is_whole(candidate->second)) continue;
    const std::int64_t step = candidate->first.step;
    if (step < newest)
      candidate->second.checkpoint.note =
          format("goes on from the checkpoint of step {}: that of step {} is not whole ({})", step,
                 newest, silent_hosts_text(known));
    return std::move(candidate->second);
  }
  if (candidates.empty() && !known.reported) return CheckpointChoice{};
  return Error{
      Code::peer_lost,
      format("no host has the whole checkpoint of step {} or an earlier one ({}); bring "
             "the missing hosts back and use `lockstep resume`, or submit the run again to "
             "begin from nothing",
             newest, silent_hosts_text(known))};
}

}  // namespace lockstep::server
