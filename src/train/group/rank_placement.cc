#include "train/group/rank_placement.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/os/files.h"

namespace lockstep::train {

RankPlacement::RankPlacement(const std::vector<std::int64_t>& host_of_rank) {
  std::unordered_map<std::int64_t, std::size_t> index;
  std::vector<std::vector<int>> ranks_of_host;
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto host = index.emplace(host_of_rank[rank], ranks_of_host.size()).first->second;
    if (host == ranks_of_host.size()) ranks_of_host.emplace_back();
    ranks_of_host[host].push_back(static_cast<int>(rank));
  }
  for (const auto& ranks : ranks_of_host) {
    ranks_by_host_.insert(ranks_by_host_.end(), ranks.begin(), ranks.end());
    sizes_.push_back(static_cast<int>(ranks.size()));
  }
}

int RankPlacement::ranks_per_host_max() const {
  return *std::max_element(sizes_.begin(), sizes_.end());
}

std::vector<int> RankPlacement::host_of_rank() const {
  std::vector<int> hosts_of(ranks_by_host_.size());
  auto next = ranks_by_host_.begin();
  for (int host = 0; host < hosts(); ++host)
    for (int i = 0; i < sizes_[static_cast<std::size_t>(host)]; ++i)
      hosts_of[static_cast<std::size_t>(*next++)] = host;
  return hosts_of;
}

RankPlacement::Group RankPlacement::group_of(int rank, int size) const {
  LS_CHECK(size >= 1 && ranks() % size == 0);
  const auto found = std::find(ranks_by_host_.begin(), ranks_by_host_.end(), rank);
  LS_CHECK(found != ranks_by_host_.end());
  const auto at = static_cast<int>(found - ranks_by_host_.begin());
  const auto first = ranks_by_host_.begin() + at / size * size;
  return {{first, first + size}, at % size, at / size};
}

bool RankPlacement::fits_hosts(int group) const {
  std::vector<int> host_at;  // by position in the order
  for (std::size_t host = 0; host < sizes_.size(); ++host)
    host_at.insert(host_at.end(), static_cast<std::size_t>(sizes_[host]), static_cast<int>(host));
  host_at.push_back(hosts());
  const auto border = [&](std::size_t at) { return at == 0 || host_at[at] != host_at[at - 1]; };
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t begin = 0; begin + size < host_at.size(); begin += size) {
    const auto end = begin + size;
    const bool within = host_at[begin] == host_at[end - 1];
    if (!within && !(border(begin) && border(end))) return false;
  }
  return true;
}

std::string RankPlacement::describe_groups(int group) const {
  if (group == 1) return "no groups";
  if (group == ranks()) return format("one group, of {} hosts", hosts());
  std::size_t most = 1;  // hosts of a group
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t begin = 0; begin < ranks_by_host_.size(); begin += size) {
    std::size_t count = 0;
    std::size_t at = 0;
    for (int on_host : sizes_) {
      const auto end = at + static_cast<std::size_t>(on_host);
      if (at < begin + size && end > begin) ++count;
      at = end;
    }
    most = std::max(most, count);
  }
  return most == 1 ? "groups within hosts" : format("groups of {} hosts", most);
}

Result<std::string> own_host_id() {
  if (const char* id = std::getenv("LOCKSTEP_HOST_ID"); id && *id) return std::string(id);
  auto id = read_file("/proc/sys/kernel/random/boot_id");
  if (!id) return std::move(id).error().with_context("telling hosts apart");
  return id;
}

std::int64_t hash_host_id(const std::string& id) { return static_cast<std::int64_t>(fnv1a(id)); }

}  // namespace lockstep::train
