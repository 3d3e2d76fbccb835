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
              const api::HostCheckpoint& listed, const std::set<DamagedFile>& damaged) {
  for (const api::CheckpointFile& file : listed.files)
    if (std::ranges::find(listed.missing, file.name) == listed.missing.end() &&
        !damaged.contains({listed.step, listed.manifest, file.name, host}))
      candidate.hosts[file.name].push_back(host);
}

bool is_whole(const CheckpointChoice& candidate) {
  return std::ranges::all_of(candidate.checkpoint.files, [&](const api::CheckpointFile& file) {
    return candidate.hosts.contains(file.name);
  });
}

constexpr std::size_t kDamagedNamed = 3;

// Why the checkpoint of that step is not whole.
std::string why_not_whole(const HostLists& known, std::int64_t step) {
  std::vector<std::string> reasons;
  for (const auto& [host, reason] : known.silent) reasons.push_back(format("{}: {}", host, reason));
  std::size_t named = 0;
  for (const DamagedFile& file : known.damaged)
    if (file.step == step && ++named <= kDamagedNamed)
      reasons.push_back(format("{} is damaged on host {}", file.name, file.host));
  return reasons.empty() ? "all hosts of the run have answered" : joined(reasons, "; ");
}

}  // namespace

Result<CheckpointChoice> choose_checkpoint(const HostLists& known) {
  std::map<CheckpointKey, CheckpointChoice> candidates;
  for (const auto& [host, list] : known.lists)
    for (const api::HostCheckpoint& listed : list) {
      const CheckpointKey key{listed.step, listed.epoch, listed.manifest};
      add_host(candidates.try_emplace(key, candidate_of(listed)).first->second, host, listed,
               known.damaged);
    }
  std::int64_t newest = known.reported.value_or(0);
  if (!candidates.empty()) newest = std::max(newest, candidates.rbegin()->first.step);
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    if (!is_whole(candidate->second)) continue;
    const std::int64_t step = candidate->first.step;
    if (step < newest)
      candidate->second.checkpoint.note =
          format("goes on from the checkpoint of step {}: that of step {} is not whole ({})", step,
                 newest, why_not_whole(known, newest));
    return std::move(candidate->second);
  }
  if (candidates.empty() && !known.reported) return CheckpointChoice{};
  return Error{
      Code::peer_lost,
      format("no host has the whole checkpoint of step {} or an earlier one ({}); bring "
             "the missing hosts back and use `lockstep resume`, or submit the run again to "
             "begin from nothing",
             newest, why_not_whole(known, newest))};
}

}  // namespace lockstep::server
