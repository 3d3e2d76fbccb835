#include "platform/host/home_identity.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

// Two folders of a file system never have both numbers in common, even if one was deleted before.
// The device number is left out, since it may change with each boot.
struct FolderId {
  std::int64_t inode = 0;
  std::int64_t made = 0;  // in nanoseconds since 1970; 0 if the file system does not store it
  bool operator==(const FolderId&) const = default;
};

struct HomeIdentityFile {
  std::string path;
  std::int64_t inode = 0;
  std::int64_t made = 0;

  static constexpr auto fields() {
    return record<HomeIdentityFile>(
        required(field("path", &HomeIdentityFile::path, "the folder that was served last")),
        required(field("inode", &HomeIdentityFile::inode, "its inode")),
        required(field("made", &HomeIdentityFile::made, "when it was made, in ns since 1970")));
  }
};

fs::path file_of(const Home& home) { return home.folder / "place.json"; }

Result<FolderId> id_of(const fs::path& folder) {
  struct statx info{};
  if (::statx(AT_FDCWD, folder.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0)
    return os_error("looking at " + folder.string(), errno);
  FolderId id{.inode = static_cast<std::int64_t>(info.stx_ino)};
  if ((info.stx_mask & STATX_BTIME) != 0)
    id.made = info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec;
  return id;
}

Result<std::optional<HomeIdentityFile>> read_home_identity(const Home& home) {
  const auto words = read_file(file_of(home), 1 << 16);
  if (!words && words.error().code == Code::not_found) return std::optional<HomeIdentityFile>();
  if (!words) return words.error();
  const auto json = parse_json(*words);
  auto place = json ? from_json<HomeIdentityFile>(*json, UnknownFields::ignore) : json.error();
  if (place) return std::optional(*std::move(place));
  return Error{Code::corrupt,
               format("{} is damaged ({}); remove it if this folder is no copy of another one",
                      file_of(home).string(), place.error().message)};
}

bool is_recorded_folder(const HomeIdentityFile& place, const fs::path& folder) {
  const auto id = id_of(folder);
  return id && *id == FolderId{place.inode, place.made};
}

}  // namespace

Result<HomeIdentity> home_identity_of(const Home& home) {
  const auto place = TRY(read_home_identity(home));
  return !place || is_recorded_folder(*place, home.folder) ? HomeIdentity::same
                                                           : HomeIdentity::copied;
}

Result<std::optional<fs::path>> original_home_of(const Home& home) {
  const auto place = TRY(read_home_identity(home));
  if (!place || is_recorded_folder(*place, home.folder)) return std::optional<fs::path>();
  const fs::path before = place->path;
  if (is_recorded_folder(*place, before)) return std::optional(before);
  for (const fs::path& parent : {before.parent_path(), home.folder.parent_path()})
    for (const fs::path& beside : list_folder(parent).value_or(std::vector<fs::path>()))
      if (is_recorded_folder(*place, beside)) return std::optional(beside);
  return std::optional<fs::path>();
}

Result<void> record_home_identity(const Home& home) {
  const auto id = TRY(id_of(home.folder));
  const HomeIdentityFile place{.path = home.folder.string(), .inode = id.inode, .made = id.made};
  return write_file(file_of(home), dump_json(to_json(place)) + "\n");
}

}  // namespace lockstep::host
