// The copy of the store that is made before a newer Lockstep changes its tables
// (docs/design/upgrade.md).
#pragma once

#include <filesystem>

#include "base/result.h"

namespace lockstep::store {

class Database;

// lockstep.db.tables-11 beside lockstep.db, whose tables are of that version.
std::filesystem::path tables_copy_path(const std::filesystem::path& file, int version);

// Copies the database in `file`, durably, and removes the copies of earlier updates. Fails without
// a change if the disk has no space for it.
Result<void> copy_tables(Database& database, const std::filesystem::path& file, int version);

}  // namespace lockstep::store
