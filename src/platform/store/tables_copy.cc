#include "platform/store/tables_copy.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/units.h"
#include "platform/store/database.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tables-";

Result<void> check_space(const fs::path& folder, Bytes needed) {
  std::error_code failure;
  const fs::space_info space = fs::space(folder, failure);
  if (failure) return os_error("asking for the free space of " + folder.string(), failure.value());
  const Bytes free(static_cast<std::int64_t>(space.available));
  if (free >= needed) return {};
  return Error{Code::exhausted,
               format("a newer Lockstep copies the store before it changes its tables, which needs "
                      "{}, and {} is free in {}: make room there, then start the daemon again",
                      text(needed), text(free), folder.string())};
}

// SQLite writes into an existing file if it is empty. It does not sync it.
Result<void> write_copy(Database& database, const fs::path& copy) {
  const Fd file = TRY(open_file(copy, O_RDWR | O_CREAT | O_TRUNC));
  TRY(database.execute("vacuum into :path", copy.string()));
  if (::fsync(file.get()) != 0) return os_error("writing " + copy.string(), errno);
  return {};
}

Result<void> remove_other_copies(const fs::path& file, const fs::path& kept) {
  const std::string prefix = file.filename().string() + std::string(kSuffix);
  for (const fs::path& path : TRY(list_folder(file.parent_path()))) {
    if (path == kept || !path.filename().string().starts_with(prefix)) continue;
    if (::unlink(path.c_str()) != 0) return os_error("removing " + path.string(), errno);
  }
  return {};
}

}  // namespace

fs::path tables_copy_path(const fs::path& file, int version) {
  return format("{}{}{}", file.string(), kSuffix, version);
}

Result<void> copy_tables(Database& database, const fs::path& file, int version) {
  const fs::path copy = tables_copy_path(file, version);
  const fs::path unfinished = copy.string() + ".unfinished";
  TRY(check_space(file.parent_path(), TRY(database.used())));
  LS_LOG(info, "copying the store to {} before its tables are changed", copy.string());
  if (auto written = write_copy(database, unfinished); !written) {
    ::unlink(unfinished.c_str());
    return std::move(written).error().with_context("copying the store before its tables change");
  }
  if (::rename(unfinished.c_str(), copy.c_str()) != 0)
    return os_error("renaming " + unfinished.string(), errno);
  TRY(sync_folder(file.parent_path()));
  return remove_other_copies(file, copy);
}

}  // namespace lockstep::store
