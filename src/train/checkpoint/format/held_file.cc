#include "train/checkpoint/format/held_file.h"

#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/files.h"

namespace lockstep {

Result<Fd> HeldFile::create(const std::filesystem::path& path, bool& locked) {
  auto fd = TRY(open_file(path, O_RDWR | O_CREAT | O_EXCL, 0644));
  locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  return fd;
}

HeldFile::HeldFile(Fd fd, Duration beat) : fd_(std::move(fd)) {
  guard_.add(fd_.get());
  thread_ = std::thread([this, beat] { run(beat); });
}

HeldFile::~HeldFile() {
  if (!is_ours()) {
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

bool HeldFile::is_ours() const { return !guard_.in_child(); }

void HeldFile::run(Duration beat) {
  const Lock lock(mutex_);
  while (!stopping_) {
    // A failure is one beat less: the next may succeed.
    (void)::futimens(fd_.get(), nullptr);
    const auto next = Deadline::after(beat);
    while (!stopping_ && changed_.wait_until(mutex_, next)) continue;
  }
}

}  // namespace lockstep
