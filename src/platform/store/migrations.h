// The tables, as numbered steps from an empty file to what this Lockstep needs. A step that was
// released is never changed: later ones alter what it made.
#pragma once

#include "base/result.h"

namespace lockstep {

class Database;

// The number of the last step.
int schema_version_known();
// The number of the last step taken in this file; 0 for an empty one. An error for a file with
// tables of somebody else. Writes nothing.
Result<int> schema_version_of(Database& database);
// Takes the steps that are missing, each in one transaction.
Result<void> migrate(Database& database, int version);

}  // namespace lockstep
