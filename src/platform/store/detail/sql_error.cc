#include "platform/store/detail/sql_error.h"

#include <cerrno>
#include <filesystem>

#include <sqlite3.h>

#include "base/format.h"

namespace lockstep::store {
namespace {

std::string folder_of(const std::string& file) {
  return std::filesystem::path(file).parent_path().string();
}

bool is_full(int result, int os_errno) {
  return result == SQLITE_FULL ||
         (result == SQLITE_IOERR && (os_errno == ENOSPC || os_errno == EDQUOT));
}

}  // namespace

Error sql_error(const std::string& file, int result, int os_errno,
                std::string_view sqlite_message) {
  const int primary = result & 0xff;  // the higher bits give the place in SQLite
  if (is_full(primary, os_errno))
    return {Code::exhausted,
            format("{}: no space is left; make room in {} and it continues by itself", file,
                   folder_of(file))};
  switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::unavailable,
              format("{}: another program (a backup, a database shell) keeps it locked; end that "
                     "one",
                     file)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {
          Code::corrupt,
          format("{}: it is damaged, or is not a store of Lockstep ({}); put back a copy of it, or "
                 "move it away to begin with an empty one: runs that the copy does not know go "
                 "on, `lockstep orphan ls` lists them, and no number of a run is given again",
                 file, sqlite_message)};
    case SQLITE_CANTOPEN:
      return {Code::denied, format("{}: it cannot be opened ({}); it must be a file that this user "
                                   "may read and write, in a folder of which that is true too",
                                   file, os_errno != 0 ? errno_text(os_errno) : sqlite_message)};
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return {Code::denied, format("{}: it cannot be written; give this user write access to it "
                                   "and to its folder, or choose another by LOCKSTEP_HOME",
                                   file)};
    case SQLITE_IOERR:
      return {Code::internal,
              format("{}: reading or writing it failed ({}); see to the disk of {}", file,
                     os_errno != 0 ? errno_text(os_errno) : sqlite_message, folder_of(file))};
    default:
      return {Code::internal, format("{}: {}", file, sqlite_message)};
  }
}

}  // namespace lockstep::store
