#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace lockstep {

std::string errno_text(int errno_value) { return std::system_category().message(errno_value); }

Error os_error(std::string_view what, int errno_value) {
  Code code = Code::internal;
  switch (errno_value) {
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
      code = Code::not_found;
      break;
    case EEXIST:
    case EADDRINUSE:
      code = Code::already_exists;
      break;
    case EACCES:
    case EPERM:
      code = Code::denied;
      break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ECONNABORTED:
      code = Code::unavailable;
      break;
    case ETIMEDOUT:
      code = Code::timeout;
      break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = Code::exhausted;
      break;
    default:
      break;
  }
  return {code, format("{}: {}", what, errno_text(errno_value))};
}

void check_failed(std::string_view condition, std::string_view details, const char* file,
                  int line) {
  std::string message = format("{}:{}: check failed: {}", file, line, condition);
  if (!details.empty()) message += format(" ({})", details);
  message += '\n';
  std::fputs(message.c_str(), stderr);
  std::abort();
}

}  // namespace lockstep
