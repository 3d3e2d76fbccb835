#include "train/checkpoint/format/writer/lease_file.h"

#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/os/files.h"

namespace lockstep::train {

Result<Fd> LeaseFile::create(const std::filesystem::path& path, bool& locked) {
  auto fd = TRY(open_file(path, O_RDWR | O_CREAT | O_EXCL, 0644));
  locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  return fd;
}

LeaseFile::LeaseFile(Fd fd, Duration interval) : fd_(std::move(fd)) {
  guard_.add(fd_.get());
  thread_ = std::thread([this, interval] { run(interval); });
}

LeaseFile::~LeaseFile() {
  if (!in_owner_process()) {
    fd_.release();     // closed at the fork
    thread_.detach();  // not in this process
    return;
  }
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool LeaseFile::in_owner_process() const { return !guard_.in_child(); }

void LeaseFile::run(Duration interval) {
  const Lock lock(mutex_);
  while (!stopping_) {
    // A failure skips one heartbeat: the next may succeed.
    (void)::futimens(fd_.get(), nullptr);
    const auto next = Deadline::after(interval);
    while (!stopping_ && changed_.wait_until(mutex_, next)) continue;
  }
}

}  // namespace lockstep::train
