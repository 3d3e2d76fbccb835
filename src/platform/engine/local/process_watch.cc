#include "platform/engine/local/process_watch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/processes.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Moment = std::chrono::steady_clock::time_point;

constexpr Duration kFirstPatience = seconds(1);
constexpr Duration kPatience = milliseconds(20);
constexpr Duration kHang = seconds(2);   // of the reading of one process
constexpr Duration kStale = seconds(5);  // a look that is older says nothing
constexpr Duration kLastKills = seconds(1);
constexpr Duration kIdle = seconds(10);  // between looks at whether there is something to do
constexpr int kThreadsMost = 8;
constexpr int kStopRounds = 10;  // against what forks while it is stopped

// Names one process, also after its end.
struct ProcessKey {
  pid_t pid = 0;
  std::uint64_t started = 0;
  auto operator<=>(const ProcessKey&) const = default;
};
ProcessKey key_of(const Process& process) { return {process.pid, process.started}; }

struct Known {
  std::uint64_t environment = 0;  // of the program that was read; 0: none yet
  std::string mark{};             // empty: it has none
};

struct Reading {
  ProcessKey process;
  Moment since;
};

bool are_related(const Process& a, const Process& b) {
  return a.parent == b.pid || a.session == b.session;
}

}  // namespace

struct ProcessWatch::Shared {
  explicit Shared(Read read_arg) : read(std::move(read_arg)) {}

  const Read read;  // constant after construction

  Mutex mutex;  // guards what follows
  Condition changed;
  std::int64_t thread LS_GUARDED_BY(mutex) = 0;  // the number of the one that works
  bool threadless LS_GUARDED_BY(mutex) = false;  // there is none: it could not be started
  int waiting LS_GUARDED_BY(mutex) = 0;          // threads that were given up and have not ended
  bool ending LS_GUARDED_BY(mutex) = false;
  bool wanted LS_GUARDED_BY(mutex) = true;  // a look
  std::set<std::string> to_kill LS_GUARDED_BY(mutex);
  std::optional<Reading> reading LS_GUARDED_BY(mutex);
  std::map<ProcessKey, Known> known LS_GUARDED_BY(mutex);
  std::set<ProcessKey> unreadable LS_GUARDED_BY(mutex);
  std::int64_t begun LS_GUARDED_BY(mutex) = 0;  // looks
  std::int64_t done LS_GUARDED_BY(mutex) = 0;
  Moment done_at LS_GUARDED_BY(mutex) = std::chrono::steady_clock::now();
  std::map<std::string, std::int64_t> seen_at LS_GUARDED_BY(mutex);  // by mark: the last such look

  // The process that is being read, if that hangs: another thread is to go on without it.
  std::optional<pid_t> give_up_reading() LS_REQUIRES(mutex);
  std::set<std::string> present() const LS_REQUIRES(mutex);
};

std::optional<pid_t> ProcessWatch::Shared::give_up_reading() {
  if (!reading || std::chrono::steady_clock::now() - reading->since < kHang) return std::nullopt;
  if (waiting >= kThreadsMost) return std::nullopt;
  const ProcessKey process = reading->process;
  unreadable.insert(process);
  reading.reset();
  ++thread;
  ++waiting;
  return process.pid;
}

std::set<std::string> ProcessWatch::Shared::present() const {
  std::set<std::string> marks;
  for (const auto& [mark, look] : seen_at)
    if (look + 1 >= done) marks.insert(mark);
  return marks;
}

// --- In the watch's thread ---

class ProcessWatch::Looker {
 public:
  Looker(Shared& shared, std::int64_t number) : shared_(shared), number_(number) {}

  void work();

 private:
  struct Marked {
    Process process;
    std::string mark;
  };

  bool is_current() LS_REQUIRES(shared_.mutex) { return shared_.thread == number_; }
  bool look();
  bool learn(const Process& process);
  void forget_others() LS_REQUIRES(shared_.mutex);
  std::string mark_of(const Process& process) LS_REQUIRES(shared_.mutex);
  void end_all(const std::string& mark);
  std::vector<Process> family_of(const std::string& mark) const;

  Shared& shared_;
  const std::int64_t number_;
  std::vector<Process> all_;    // at the last look
  std::vector<Marked> marked_;  // of these
};

void ProcessWatch::Looker::work() {
  while (true) {
    std::set<std::string> to_kill;
    {
      Lock lock(shared_.mutex);
      const auto idle = Deadline::after(kIdle);
      while (is_current() && !shared_.ending && !shared_.wanted && shared_.to_kill.empty())
        if (!shared_.changed.wait_until(shared_.mutex, idle)) break;
      if (!is_current()) return;
      if (shared_.ending && shared_.to_kill.empty()) return;
      if (!shared_.wanted && shared_.to_kill.empty()) continue;
      shared_.wanted = false;
      to_kill = shared_.to_kill;
    }
    for (const std::string& mark : to_kill) end_all(mark);
    if (!look()) return;
  }
}

// False: this thread was given up meanwhile, and must touch nothing any more.
bool ProcessWatch::Looker::look() {
  {
    Lock lock(shared_.mutex);
    if (!is_current()) return false;
    ++shared_.begun;
  }
  all_ = all_processes();
  for (const Process& process : all_)
    if (!learn(process)) return false;
  Lock lock(shared_.mutex);
  forget_others();
  marked_.clear();
  for (const Process& process : all_)
    if (auto mark = mark_of(process); !mark.empty()) {
      shared_.seen_at[mark] = std::max(shared_.seen_at[mark], shared_.begun);
      marked_.push_back({process, std::move(mark)});
    }
  shared_.done = shared_.begun;
  shared_.done_at = std::chrono::steady_clock::now();
  const auto done = shared_.done;
  std::erase_if(shared_.seen_at, [done](const auto& entry) { return entry.second + 1 < done; });
  shared_.changed.notify_all();
  return true;
}

// False as for look().
bool ProcessWatch::Looker::learn(const Process& process) {
  const ProcessKey key = key_of(process);
  {
    Lock lock(shared_.mutex);
    Known& known = shared_.known[key];
    if (process.environment == 0 || known.environment == process.environment) return true;
    if (shared_.unreadable.contains(key)) return true;
    shared_.reading = Reading{key, std::chrono::steady_clock::now()};
  }
  auto mark = shared_.read(process.pid);
  Lock lock(shared_.mutex);
  if (!is_current()) {
    --shared_.waiting;
    shared_.unreadable.erase(key);  // it can be read again
    return false;
  }
  shared_.reading.reset();
  Known& known = shared_.known[key];
  known.environment = process.environment;
  if (mark) known.mark = *std::move(mark);
  return true;
}

void ProcessWatch::Looker::forget_others() {
  std::set<ProcessKey> living;
  for (const Process& process : all_) living.insert(key_of(process));
  const auto is_gone = [&](const ProcessKey& key) { return !living.contains(key); };
  std::erase_if(shared_.known, [&](const auto& entry) { return is_gone(entry.first); });
  std::erase_if(shared_.unreadable, is_gone);
}

// What was inferred once stays: those that it was inferred from may end first.
std::string ProcessWatch::Looker::mark_of(const Process& process) {
  std::string& mark = shared_.known[key_of(process)].mark;
  if (!mark.empty() || !shared_.unreadable.contains(key_of(process))) return mark;
  for (const Process& other : all_)
    if (mark.empty() && are_related(process, other)) mark = shared_.known[key_of(other)].mark;
  return mark;
}

// Those with the mark and all below them, ancestors first.
std::vector<Process> ProcessWatch::Looker::family_of(const std::string& mark) const {
  std::vector<std::pair<std::size_t, Process>> found;  // larger families come first
  for (const Marked& marked : marked_) {
    if (marked.mark != mark) continue;
    const std::vector<Process> family = descendants(all_, marked.process.pid);
    found.emplace_back(family.size(), marked.process);
    for (const Process& child : family) found.emplace_back(0, child);
  }
  std::ranges::stable_sort(found, std::greater(), &std::pair<std::size_t, Process>::first);
  std::vector<Process> family;
  for (const auto& [size, process] : found)
    if (std::ranges::find(family, process.pid, &Process::pid) == family.end())
      family.push_back(process);
  return family;
}

// First all are stopped, until a look finds no other: what is stopped starts nothing, and what has
// cleared its environment is found below its ancestors for as long as they are there. The first is
// the one that started the others, so that it reports nothing of this. Then all are killed.
void ProcessWatch::Looker::end_all(const std::string& mark) {
  std::set<ProcessKey> stopped;
  for (int round = 0; round < kStopRounds; ++round) {
    if (!look()) return;
    const std::size_t before = stopped.size();
    for (const Process& process : family_of(mark))
      if (stopped.insert(key_of(process)).second) ::kill(process.pid, SIGSTOP);
    if (stopped.size() == before) break;
  }
  for (const ProcessKey& key : stopped) ::kill(key.pid, SIGKILL);
  Lock lock(shared_.mutex);
  shared_.to_kill.erase(mark);
  shared_.changed.notify_all();
}

// --- In its owner's thread ---

ProcessWatch::ProcessWatch(std::string_view variable)
    : ProcessWatch(
          [name = std::string(variable)](pid_t pid) { return environment_of(pid, name); }) {}

ProcessWatch::ProcessWatch(Read read) : shared_(std::make_shared<Shared>(std::move(read))) {
  start_thread(shared_);
}

ProcessWatch::ProcessWatch(ProcessWatch&&) noexcept = default;
ProcessWatch& ProcessWatch::operator=(ProcessWatch&&) noexcept = default;

// Detached: one that waits for a process that hangs cannot be waited for.
void ProcessWatch::start_thread(const std::shared_ptr<Shared>& shared) {
  std::int64_t number = 0;
  {
    Lock lock(shared->mutex);
    number = shared->thread;
  }
  try {
    std::thread([shared, number] { Looker(*shared, number).work(); }).detach();
  } catch (const std::system_error& e) {
    bool known = false;
    {
      Lock lock(shared->mutex);
      known = std::exchange(shared->threadless, true);
    }
    if (!known)
      LS_LOG(error, "no thread can be started to look at processes: {}; it is tried again",
             e.what());
    return;
  }
  Lock lock(shared->mutex);
  shared->threadless = false;
}

ProcessWatch::~ProcessWatch() {
  if (!shared_) return;
  Lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  const auto deadline = Deadline::after(kLastKills);
  while (!shared_->to_kill.empty() && !deadline.passed())
    shared_->changed.wait_until(shared_->mutex, deadline);
}

Result<std::set<std::string>> ProcessWatch::marks() {
  std::optional<pid_t> given_up;
  bool threadless = false;
  {
    Lock lock(shared_->mutex);
    given_up = shared_->give_up_reading();
    threadless = shared_->threadless;
  }
  if (given_up)
    LS_LOG(warning,
           "process {} does not let its environment be read, as one does that hangs in the kernel; "
           "whose it is, is told by its parent and its session",
           *given_up);
  if (given_up || threadless) start_thread(shared_);
  Lock lock(shared_->mutex);
  shared_->wanted = true;
  shared_->changed.notify_all();
  const std::int64_t before = shared_->done;
  const auto deadline = Deadline::after(before == 0 ? kFirstPatience : kPatience);
  while (shared_->done == before && !deadline.passed())
    shared_->changed.wait_until(shared_->mutex, deadline);
  if (shared_->done > 0 && std::chrono::steady_clock::now() - shared_->done_at < kStale)
    return shared_->present();
  return Error{
      Code::unavailable,
      shared_->reading
          ? format("process {} does not let its environment be read, so nobody knows which "
                   "processes are left; end it, or what holds it up",
                   shared_->reading->process.pid)
          : std::string("the machine is too busy to look at its processes")};
}

void ProcessWatch::expect(const std::string& mark) {
  Lock lock(shared_->mutex);
  std::int64_t& look = shared_->seen_at[mark];
  look = std::max(look, shared_->begun);
}

void ProcessWatch::kill(const std::string& mark) {
  Lock lock(shared_->mutex);
  shared_->to_kill.insert(mark);
  shared_->changed.notify_all();
}

}  // namespace lockstep
