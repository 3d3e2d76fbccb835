#include "platform/agent/fetch/earlier_copies.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/files.h"
#include "net/crypto.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEarlierCopiesMax = 4;
constexpr std::size_t kCopyBlock = 256 << 10;

// 12 of attempt-12; 0: it is none.
int attempt_of(const fs::path& folder) {
  constexpr std::string_view kPrefix = "attempt-";
  const std::string name = folder.filename().string();
  int epoch = 0;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), epoch);
  return epoch;
}

// Without a wait, and no link: a program may have put a pipe there.
Fd open_copied_file(const fs::path& path, std::int64_t size) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != size)
    return Fd();
  return file;
}

bool copy_unchanged(const Fd& from, const fs::path& to, const model::UploadEntry& entry) {
  const auto made =
      open_file(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, entry.executable ? 0700 : 0600);
  if (!made) return false;
  net::Sha256 digest;
  std::string block(kCopyBlock, '\0');
  for (;;) {
    const ssize_t size = ::read(from.get(), block.data(), block.size());
    if (size < 0) return false;
    if (size == 0) return digest.hex() == entry.sha256;
    const std::string_view part(block.data(), static_cast<std::size_t>(size));
    digest.add(part);
    if (!write_all(made->get(), part)) return false;
  }
}

}  // namespace

std::vector<fs::path> earlier_copies(const fs::path& node_folder) {
  std::vector<fs::path> attempts =
      list_folder(node_folder.parent_path().parent_path()).value_or(std::vector<fs::path>());
  std::erase_if(attempts, [](const fs::path& folder) { return attempt_of(folder) == 0; });
  std::ranges::sort(attempts, std::greater(), attempt_of);
  std::vector<fs::path> copies;
  for (const fs::path& attempt : attempts)
    for (const fs::path& node : list_folder(attempt).value_or(std::vector<fs::path>())) {
      std::error_code failed;
      const fs::path copy = host::NodeFiles{node}.upload();
      if (copies.size() < kEarlierCopiesMax && node != node_folder &&
          fs::is_directory(copy, failed))
        copies.push_back(copy);
    }
  return copies;
}

bool take_from_earlier(const std::vector<fs::path>& copies, const model::UploadEntry& entry,
                       const fs::path& to) {
  for (const fs::path& copy : copies) {
    const Fd from = open_copied_file(copy / entry.path, entry.size.count());
    if (!from || !make_folders(to.parent_path())) continue;
    if (copy_unchanged(from, to, entry)) return true;
    std::error_code ignored;
    fs::remove(to, ignored);
  }
  return false;
}

}  // namespace lockstep::agent
