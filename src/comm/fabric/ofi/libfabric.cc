#include "comm/fabric/ofi/libfabric.h"

#include <array>
#include <csignal>
#include <optional>
#include <string>

#include <dlfcn.h>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr const char* kName = "libfabric.so.1";

// libfabric brings along libinfinipath, which takes over a program's signals as it is loaded: its
// handler for SIGTERM calls exit(1), whatever the program was doing. While this lives, they change;
// afterwards they are what they were.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i)
      ::sigaction(kNumbers[i], nullptr, &actions_[i]);
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i)
      ::sigaction(kNumbers[i], &actions_[i], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

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
  const KeptSignals kept;
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

}  // namespace lockstep
