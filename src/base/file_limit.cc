#include "base/file_limit.h"

#include <cerrno>

#include <sys/resource.h>

namespace lockstep {

Result<void> raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return os_error("reading the limit of open files", errno);
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return os_error("raising the limit of open files", errno);
  return {};
}

}  // namespace lockstep
