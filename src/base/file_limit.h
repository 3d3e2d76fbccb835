// How many files and connections this process may have open.
#pragma once

#include "base/result.h"

namespace lockstep {

// As many as the system lets it have: the soft limit becomes the hard one. Code::exhausted where
// that is fewer than 256, with which neither daemon nor agents could work.
Result<void> raise_file_limit();

}  // namespace lockstep
