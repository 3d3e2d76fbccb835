#include "base/os/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep {

Result<Fd> open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return os_error("opening " + path.string(), errno);
  return Fd(fd);
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  Fd file = TRY(open_file(path, O_RDONLY));
  std::string content;
  char buffer[1 << 16];
  while (true) {
    ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading " + path.string(), errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit)
      return Error{Code::invalid, format("reading {}: larger than {} bytes", path.string(), limit)};
  }
}

Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> found;
  std::error_code failed;
  std::filesystem::directory_iterator entry(path, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) found.push_back(entry->path());
  if (failed) return os_error("listing " + path.string(), failed.value());
  std::sort(found.begin(), found.end());
  return found;
}

Result<void> sync_folder(const std::filesystem::path& path) {
  Fd folder = TRY(open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(folder.get()) != 0) return os_error("syncing " + path.string(), errno);
  return {};
}

namespace {

// In the folder of the file. Other users cannot guess the name, and so cannot create a link there.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::uint64_t number = 0;
  LS_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  std::filesystem::path temporary = path;
  temporary += format(".{:016x}.tmp", number);
  return temporary;
}

}  // namespace

Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        unsigned mode) {
  const std::filesystem::path temporary = temporary_name(path);
  auto write = [&]() -> Result<void> {
    Fd file = TRY(open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
    TRY(write_all(file.get(), content));
    if (::fsync(file.get()) != 0) return os_error("syncing", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return os_error("renaming", errno);
    return {};
  };
  if (auto written = write(); !written) {
    ::unlink(temporary.c_str());
    return std::move(written).error().with_context("writing " + path.string());
  }
  return sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

Result<void> make_folders(const std::filesystem::path& path) {
  if (path.empty() || ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return os_error("making the folder " + path.string(), errno);
  TRY(make_folders(path.parent_path()));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("making the folder " + path.string(), errno);
  return {};
}

}  // namespace lockstep
