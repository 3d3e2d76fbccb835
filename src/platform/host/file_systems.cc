#include "platform/host/file_systems.h"

#include <array>

#include <sys/vfs.h>

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

struct Kind {
  std::uint32_t magic;
  const char* name;
};

// From statfs(2), and from each file system's own sources where that page lacks it.
constexpr std::array kShared = {
    Kind{0x00006969, "NFS"},    Kind{0x0bd00bd0, "Lustre"}, Kind{0x47504653, "GPFS"},
    Kind{0x00c36400, "CephFS"}, Kind{0x19830326, "BeeGFS"}, Kind{0x0000517b, "SMB"},
    Kind{0xff534d42, "CIFS"},   Kind{0xfe534d42, "SMB2"},   Kind{0x01021997, "9p"},
    Kind{0x65735546, "FUSE"},   Kind{0x5346414f, "AFS"},    Kind{0x6b414653, "AFS"},
    Kind{0x7461636f, "OCFS2"},  Kind{0x01161970, "GFS2"},   Kind{0xaad7aaea, "PanFS"},
    Kind{0x73757245, "Coda"},
};

}  // namespace

std::string shared_file_system(std::uint32_t magic) {
  for (const Kind& kind : kShared)
    if (kind.magic == magic) return kind.name;
  return "";
}

std::string shared_file_system_of(const fs::path& path) {
  struct statfs info{};
  for (fs::path there = path; !there.empty(); there = there.parent_path()) {
    if (::statfs(there.c_str(), &info) == 0)
      return shared_file_system(static_cast<std::uint32_t>(info.f_type));
    if (there == there.parent_path()) break;
  }
  return "";
}

}  // namespace lockstep::host
