#include "train/checkpoint/host_folders.h"

#include <algorithm>
#include <cstddef>

#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/text_collectives.h"

namespace lockstep::train {

Result<HostFolders> HostFolders::gather(const std::string& host, Comm& group) {
  HostFolders folders;
  if (host.empty()) return folders;
  folders.rank_ = group.rank();
  folders.hosts_ = TRY(all_gather_text(group, host, "the hosts of the checkpoints"));
  folders.keeper_ =
      static_cast<int>(std::ranges::find(folders.hosts_, host) - folders.hosts_.begin());
  return folders;
}

std::set<std::string> HostFolders::files_elsewhere() const {
  std::set<std::string> names;
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank)
    if (hosts_[rank] != hosts_[static_cast<std::size_t>(rank_)])
      names.insert(data_file_name(static_cast<std::int64_t>(rank)));
  return names;
}

}  // namespace lockstep::train
