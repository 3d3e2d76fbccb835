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
#include "base/os/processes.h"

namespace lockstep::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Moment = std::chrono::steady_clock::time_point;

constexpr Duration kFirstScanWait = seconds(1);
constexpr Duration kScanWait = milliseconds(20);
constexpr Duration kReadTimeout = seconds(2);  // for reading one process
constexpr Duration kScanAgeMax = seconds(5);   // an older scan is not used
constexpr Duration kShutdownKillWait = seconds(1);
constexpr Duration kIdle = seconds(10);  // between checks for work
constexpr int kThreadsMax = 8;
constexpr int kStopRounds = 10;  // for processes that fork while they are stopped

// Identifies one process, also after its end.
struct ProcessKey {
  pid_t pid = 0;
  std::uint64_t started = 0;
  auto operator<=>(const ProcessKey&) const = default;
};
ProcessKey key_of(const Process& process) { return {process.pid, process.started}; }

struct KnownProcess {
  std::uint64_t environment = 0;  // of the program that was read; 0: none yet
  std::string mark{};             // empty: none
};

struct PendingRead {
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
  std::int64_t thread LS_GUARDED_BY(mutex) = 0;  // number of the active thread
  bool threadless LS_GUARDED_BY(mutex) = false;  // the thread could not be started
  int stuck_threads LS_GUARDED_BY(mutex) = 0;    // abandoned threads that have not ended
  bool ending LS_GUARDED_BY(mutex) = false;
  bool wanted LS_GUARDED_BY(mutex) = true;  // a scan is requested
  std::set<std::string> to_kill LS_GUARDED_BY(mutex);
  std::optional<PendingRead> reading LS_GUARDED_BY(mutex);
  std::map<ProcessKey, KnownProcess> known LS_GUARDED_BY(mutex);
  std::set<ProcessKey> unreadable LS_GUARDED_BY(mutex);
  std::int64_t begun LS_GUARDED_BY(mutex) = 0;  // scans begun
  std::int64_t done LS_GUARDED_BY(mutex) = 0;
  Moment done_at LS_GUARDED_BY(mutex) = std::chrono::steady_clock::now();
  std::map<std::string, std::int64_t> last_scan_with
      LS_GUARDED_BY(mutex);  // by mark: the last scan with it

  // The process whose read hangs: another thread must continue without it.
  std::optional<pid_t> abandon_stuck_read() LS_REQUIRES(mutex);
  std::set<std::string> present_marks() const LS_REQUIRES(mutex);
};

std::optional<pid_t> ProcessWatch::Shared::abandon_stuck_read() {
  if (!reading || std::chrono::steady_clock::now() - reading->since < kReadTimeout)
    return std::nullopt;
  if (stuck_threads >= kThreadsMax) return std::nullopt;
  const ProcessKey process = reading->process;
  unreadable.insert(process);
  reading.reset();
  ++thread;
  ++stuck_threads;
  return process.pid;
}

std::set<std::string> ProcessWatch::Shared::present_marks() const {
  std::set<std::string> marks;
  for (const auto& [mark, look] : last_scan_with)
    if (look + 1 >= done) marks.insert(mark);
  return marks;
}

// --- In the scanner thread ---

class ProcessWatch::Scanner {
 public:
  Scanner(Shared& shared, std::int64_t number) : shared_(shared), number_(number) {}

  void work();

 private:
  struct Marked {
    Process process;
    std::string mark;
  };

  bool is_current() LS_REQUIRES(shared_.mutex) { return shared_.thread == number_; }
  bool scan();
  bool read_mark(const Process& process);
  void drop_ended() LS_REQUIRES(shared_.mutex);
  std::string mark_of(const Process& process) LS_REQUIRES(shared_.mutex);
  void kill_all(const std::string& mark);
  std::vector<Process> process_tree_of(const std::string& mark) const;

  Shared& shared_;
  const std::int64_t number_;
  std::vector<Process> all_;    // at the last scan
  std::vector<Marked> marked_;  // of these
};

void ProcessWatch::Scanner::work() {
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
    for (const std::string& mark : to_kill) kill_all(mark);
    if (!scan()) return;
  }
}

// False: this thread was abandoned meanwhile and must not touch the shared state.
bool ProcessWatch::Scanner::scan() {
  {
    Lock lock(shared_.mutex);
    if (!is_current()) return false;
    ++shared_.begun;
  }
  all_ = all_processes();
  for (const Process& process : all_)
    if (!read_mark(process)) return false;
  Lock lock(shared_.mutex);
  drop_ended();
  marked_.clear();
  for (const Process& process : all_)
    if (auto mark = mark_of(process); !mark.empty()) {
      shared_.last_scan_with[mark] = std::max(shared_.last_scan_with[mark], shared_.begun);
      marked_.push_back({process, std::move(mark)});
    }
  shared_.done = shared_.begun;
  shared_.done_at = std::chrono::steady_clock::now();
  const auto done = shared_.done;
  std::erase_if(shared_.last_scan_with,
                [done](const auto& entry) { return entry.second + 1 < done; });
  shared_.changed.notify_all();
  return true;
}

// False as for scan().
bool ProcessWatch::Scanner::read_mark(const Process& process) {
  const ProcessKey key = key_of(process);
  {
    Lock lock(shared_.mutex);
    KnownProcess& known = shared_.known[key];
    if (process.environment == 0 || known.environment == process.environment) return true;
    if (shared_.unreadable.contains(key)) return true;
    shared_.reading = PendingRead{key, std::chrono::steady_clock::now()};
  }
  auto mark = shared_.read(process.pid);
  Lock lock(shared_.mutex);
  if (!is_current()) {
    --shared_.stuck_threads;
    shared_.unreadable.erase(key);  // it can be read again
    return false;
  }
  shared_.reading.reset();
  KnownProcess& known = shared_.known[key];
  known.environment = process.environment;
  if (mark) known.mark = *std::move(mark);
  return true;
}

void ProcessWatch::Scanner::drop_ended() {
  std::set<ProcessKey> living;
  for (const Process& process : all_) living.insert(key_of(process));
  const auto is_gone = [&](const ProcessKey& key) { return !living.contains(key); };
  std::erase_if(shared_.known, [&](const auto& entry) { return is_gone(entry.first); });
  std::erase_if(shared_.unreadable, is_gone);
}

// An inferred mark is kept: the processes that it was inferred from may end first.
std::string ProcessWatch::Scanner::mark_of(const Process& process) {
  std::string& mark = shared_.known[key_of(process)].mark;
  if (!mark.empty() || !shared_.unreadable.contains(key_of(process))) return mark;
  for (const Process& other : all_)
    if (mark.empty() && are_related(process, other)) mark = shared_.known[key_of(other)].mark;
  return mark;
}

// The processes with the mark and their descendants, ancestors first.
std::vector<Process> ProcessWatch::Scanner::process_tree_of(const std::string& mark) const {
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

// First all are stopped, until a scan finds no other: a stopped process starts none, and a process
// that has cleared its environment is found below its ancestors while they exist. The first is the
// one that started the others, so that it reports nothing of this. Then all are killed.
void ProcessWatch::Scanner::kill_all(const std::string& mark) {
  std::set<ProcessKey> stopped;
  for (int round = 0; round < kStopRounds; ++round) {
    if (!scan()) return;
    const std::size_t before = stopped.size();
    for (const Process& process : process_tree_of(mark))
      if (stopped.insert(key_of(process)).second) ::kill(process.pid, SIGSTOP);
    if (stopped.size() == before) break;
  }
  for (const ProcessKey& key : stopped) ::kill(key.pid, SIGKILL);
  Lock lock(shared_.mutex);
  shared_.to_kill.erase(mark);
  shared_.changed.notify_all();
}

// --- In the owner's thread ---

ProcessWatch::ProcessWatch(std::string_view variable)
    : ProcessWatch([name = std::string(variable)](pid_t pid) {
        return environment_variable_of(pid, name);
      }) {}

ProcessWatch::ProcessWatch(Read read) : shared_(std::make_shared<Shared>(std::move(read))) {
  start_thread(shared_);
}

ProcessWatch::ProcessWatch(ProcessWatch&&) noexcept = default;
ProcessWatch& ProcessWatch::operator=(ProcessWatch&&) noexcept = default;

// Detached: a thread that waits for a hanging process cannot be joined.
void ProcessWatch::start_thread(const std::shared_ptr<Shared>& shared) {
  std::int64_t number = 0;
  {
    Lock lock(shared->mutex);
    number = shared->thread;
  }
  try {
    std::thread([shared, number] { Scanner(*shared, number).work(); }).detach();
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
  const auto deadline = Deadline::after(kShutdownKillWait);
  while (!shared_->to_kill.empty() && !deadline.passed())
    shared_->changed.wait_until(shared_->mutex, deadline);
}

Result<std::set<std::string>> ProcessWatch::marks() {
  std::optional<pid_t> given_up;
  bool threadless = false;
  {
    Lock lock(shared_->mutex);
    given_up = shared_->abandon_stuck_read();
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
  const auto deadline = Deadline::after(before == 0 ? kFirstScanWait : kScanWait);
  while (shared_->done == before && !deadline.passed())
    shared_->changed.wait_until(shared_->mutex, deadline);
  if (shared_->done > 0 && std::chrono::steady_clock::now() - shared_->done_at < kScanAgeMax)
    return shared_->present_marks();
  return Error{Code::unavailable,
               shared_->reading
                   ? format("the environment of process {} cannot be read, so it is unknown which "
                            "processes are left; end it, or what holds it up",
                            shared_->reading->process.pid)
                   : std::string("the machine is too busy to look at its processes")};
}

void ProcessWatch::expect(const std::string& mark) {
  Lock lock(shared_->mutex);
  std::int64_t& look = shared_->last_scan_with[mark];
  look = std::max(look, shared_->begun);
}

void ProcessWatch::kill(const std::string& mark) {
  Lock lock(shared_->mutex);
  shared_->to_kill.insert(mark);
  shared_->changed.notify_all();
}

}  // namespace lockstep::engine
