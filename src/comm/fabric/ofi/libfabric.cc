#include "comm/fabric/ofi/libfabric.h"

#include <array>
#include <csignal>
#include <optional>
#include <string>

#include <dlfcn.h>

#include "base/check.h"

namespace lockstep::comm {
namespace {

constexpr const char* kName = "libfabric.so.1";

// libfabric loads libinfinipath, which installs signal handlers when it is loaded. Its handler for
// SIGTERM calls exit(1) at any point of the program. This guard saves the handlers and restores
// them in its destructor.
class SignalHandlerGuard {
 public:
  SignalHandlerGuard() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i)
      ::sigaction(kNumbers[i], nullptr, &actions_[i]);
  }
  ~SignalHandlerGuard() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i)
      ::sigaction(kNumbers[i], &actions_[i], nullptr);
  }
  SignalHandlerGuard(const SignalHandlerGuard&) = delete;
  SignalHandlerGuard& operator=(const SignalHandlerGuard&) = delete;

 private:
  static constexpr std::array kNumbers = {SIGTERM, SIGINT, SIGABRT, SIGILL, SIGBUS, SIGSEGV};
  std::array<struct sigaction, kNumbers.size()> actions_{};
};

struct Loaded {
  Libfabric functions;
  std::optional<std::string> failure;
};

template <class Function>
void find(void* library, const char* name, Function& function, Loaded& loaded) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) loaded.failure = format("it has no {}", name);
}

Loaded load() {
  Loaded loaded;
  const SignalHandlerGuard kept;
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.failure = ::dlerror();
    return loaded;
  }
  auto& functions = loaded.functions;
  find(library, "fi_getinfo", functions.getinfo, loaded);
  find(library, "fi_dupinfo", functions.dupinfo, loaded);
  find(library, "fi_freeinfo", functions.freeinfo, loaded);
  find(library, "fi_fabric", functions.fabric, loaded);
  find(library, "fi_strerror", functions.strerror, loaded);
  find(library, "fi_version", functions.version, loaded);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

Result<void> load_libfabric() {
  if (!loaded().failure) return {};
  return Error{Code::unavailable, format("{} cannot be loaded ({}): install libfabric1, or set "
                                         "LOCKSTEP_FABRIC_PROVIDER=tcp, which needs none",
                                         kName, *loaded().failure)};
}

const Libfabric& libfabric() {
  LS_CHECK(!loaded().failure);
  return loaded().functions;
}

}  // namespace lockstep::comm
