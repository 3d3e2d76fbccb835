// A second place for the log of this process, such as the output of its container.
#pragma once

namespace lockstep {

// From now on each line is also written to `fd`, which stays open. A line that does not fit at once
// is lost there: a reader that does not read does not delay the program. Call it once, at the
// start.
void copy_log_to(int fd);

}  // namespace lockstep
