#include "base/os/file_limit.h"

#include <cerrno>

#include <sys/resource.h>

#include "base/format.h"

namespace lockstep {

namespace {

constexpr rlim_t kLeast = 256;

}  // namespace

Result<void> raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return os_error("reading the limit of open files", errno);
  if (limit.rlim_max < kLeast)
    return Error{Code::exhausted,
                 format("this process may open {} files at most, and Lockstep needs {}; raise the "
                        "limit, as by `ulimit -n 1024` or in /etc/security/limits.conf",
                        limit.rlim_max, kLeast)};
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return os_error("raising the limit of open files", errno);
  return {};
}

}  // namespace lockstep
