// Errors of SQLite, as errors that name the file and say what to do.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::store {

// `result` is SQLite's code, `os_errno` the system's errno of the last failed call or 0,
// `sqlite_message` its own text.
Error sql_error(const std::string& file, int result, int os_errno, std::string_view sqlite_message);

}  // namespace lockstep::store
