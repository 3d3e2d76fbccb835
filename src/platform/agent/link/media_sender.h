// MediaSender: sends the images and histograms of the ranks to the daemon. Each is a file in a
// folder of the node, a request of the API; it is removed when the daemon has it, so that nothing
// is lost while the daemon is away. A request that is sent twice replaces itself.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "platform/client/client.h"
#include "platform/core/model/ids.h"

namespace lockstep::agent {

class MediaSender {
 public:
  // Where the node's media go.
  struct Destination {
    std::unique_ptr<client::Client> client;
    model::NodeName node;
  };
  // Called by the sender's thread, again after each failure. Code::unavailable: not known yet.
  using Find = std::function<Result<Destination>()>;

  MediaSender(Find find, std::filesystem::path folder);
  // Sends what is there, for some seconds at most.
  ~MediaSender();
  MediaSender(const MediaSender&) = delete;
  MediaSender& operator=(const MediaSender&) = delete;

 private:
  void work() LS_EXCLUDES(mutex_);
  bool wait_for_next() LS_EXCLUDES(mutex_);
  // False: the daemon is away, or takes none now.
  bool send_all(const Deadline& deadline);
  Result<void> send(const std::filesystem::path& file, const Deadline& deadline);

  const Find find_;
  const std::filesystem::path folder_;
  Destination destination_;  // of the thread; without a client: not found yet
  Mutex mutex_;              // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
