// MediaSender: sends the images and histograms of the ranks to the daemon. Each is a file in a
// folder of the node, a request of the API; it is removed when the daemon has it, so that nothing
// is lost while the daemon is away. A request that is sent twice replaces itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "platform/client/client.h"
#include "platform/core/model/ids.h"

namespace lockstep::agent {

class MediaSender {
 public:
  MediaSender(std::filesystem::path daemon_file, model::NodeName node, std::string token,
              std::filesystem::path folder);
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

  const std::filesystem::path daemon_file_;
  const model::NodeName node_;
  const std::string token_;
  const std::filesystem::path folder_;
  std::optional<client::Client> client_;  // of the thread
  Mutex mutex_;                           // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
