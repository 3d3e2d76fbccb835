// The tables, as numbered steps from an empty file to the current schema. A released step is never
// changed: later steps alter its result.
#pragma once

#include "base/result.h"

namespace lockstep::store {

class Database;

// The number of the last step.
int schema_version_latest();
// The number of the last applied step in this file; 0 for an empty one. An error for a file with
// tables of another program. Writes nothing.
Result<int> schema_version_of(Database& database);
// Applies the missing steps, each in one transaction.
Result<void> migrate(Database& database, int version);

}  // namespace lockstep::store
