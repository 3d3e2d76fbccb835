// Credentials: the secrets of a ClusterAccess as they are now. Tokens and certificates change while
// a daemon runs: the kubelet writes a new token into its file, and a plugin's token expires.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "platform/engine/k8s/client/cluster_access.h"

namespace lockstep::engine {

struct Secrets {
  std::string token;
  std::string certificate, key, authority;  // in PEM form
};

// From any thread.
class Credentials {
 public:
  Credentials(ClusterAccess access, const Clock& clock);

  // Files are read again after a minute. A plugin is called again when its credential has expired;
  // other threads wait for it meanwhile, one minute at most.
  Result<Secrets> current() LS_EXCLUDES(mutex_);
  // The server refused them: the next call reads the files and calls the plugin again.
  void forget() LS_EXCLUDES(mutex_);

 private:
  struct Read {
    Secrets secrets;
    Time until;
  };
  Result<Read> read() const;

  const ClusterAccess access_;
  const Clock& clock_;
  Mutex mutex_;  // guards what follows
  std::optional<Read> last_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::engine
