// What SQLite says went wrong, as an error that names the file and what to do.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

// `result` is SQLite's code, `os_errno` the system's errno of the last failed call, 0 if there was
// none, `words` what SQLite says itself.
Error sql_error(const std::string& file, int result, int os_errno, std::string_view words);

}  // namespace lockstep
