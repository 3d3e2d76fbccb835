#include "platform/janitor/janitor.h"

#include <algorithm>
#include <system_error>

#include "base/file_lock.h"
#include "base/log.h"
#include "platform/host/node_files.h"
#include "platform/janitor/chores.h"
#include "platform/janitor/sweep.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr Duration kSlice = std::chrono::milliseconds(5);
// Through all nodes: for what was missed, and for what has grown old meanwhile.
constexpr Duration kRoundInterval = std::chrono::hours(1);
constexpr Duration kRetry = std::chrono::minutes(1);
constexpr std::size_t kQueueMost = 10'000;  // nodes; those beyond are found by the next round
constexpr std::int64_t kPagesAtOnce = 64;

// What may fail, in the words of the complaint.
constexpr auto kClearing = "clearing up after ended nodes";
constexpr auto kExpiring = "removing the lines of old runs";
constexpr auto kSumming = "summing up metrics";
constexpr auto kShrinking = "giving back unused space of the store";

template <class T>
std::optional<Error> error_of(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error());
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

}  // namespace

void Janitor::look_at(const RunId& run) {
  for (const NodeId& node : last_ended_nodes(setup_.state, run))
    if (queue_.size() < kQueueMost) queue_.insert(node);
}

void Janitor::slice() {
  for (Deadline deadline = Deadline::after(kSlice); !deadline.passed();)
    if (do_something() == Found::nothing) return;
}

Janitor::Found Janitor::do_something() {
  for (const auto part : {&Janitor::glean, &Janitor::see_to_queue, &Janitor::go_round,
                          &Janitor::catch_up, &Janitor::shrink})
    if ((this->*part)() == Found::work) return Found::work;
  return Found::nothing;
}

// --- Nodes ---

Janitor::Found Janitor::glean() {
  if (!glean_) return Found::nothing;
  const auto done = glean_->slice();
  if (done && !*done) return Found::nothing;  // one batch a slice, or none while the file is read
  glean_.reset();
  if (done)
    sweep(gleaned_);
  else
    try_later(gleaned_, done.error());
  return Found::work;
}

Janitor::Found Janitor::see_to_queue() {
  if (queue_.empty() && setup_.steady.passed() >= retry_) queue_.swap(failed_);
  if (queue_.empty() || glean_) return Found::nothing;
  see_to(queue_.extract(queue_.begin()).value());
  return Found::work;
}

Janitor::Found Janitor::go_round() {
  if (glean_ || setup_.steady.passed() < next_round_) return Found::nothing;
  if (expiring_) {
    const auto more = setup_.insight.expire_log(*expiring_);
    // What failed waits for the next round.
    if (!went_well(kExpiring, error_of(more)) || !*more) expiring_.reset();
    return Found::work;
  }
  at_ = next_node(setup_.state, at_);
  if (!at_) {
    next_round_ = setup_.steady.passed() + kRoundInterval;
    return Found::work;
  }
  if (has_ended(setup_.state, *at_)) {
    see_to(*at_);
    see_to_age(*at_);
  }
  return Found::work;
}

void Janitor::see_to(const NodeId& node) {
  const NodeFiles files{node_folder(setup_.home, name_of(setup_.state, node))};
  // Where the run's folder was removed by hand, its sockets are still there: they lie elsewhere.
  if (!is_there(files.folder)) return sweep(node);
  if (!is_there(files.launch_file()) || is_locked(files.lock())) return;
  std::error_code none;
  const auto size = fs::file_size(files.spool(), none);
  if (none || size == 0) return sweep(node);
  glean_ = std::make_unique<Glean>(setup_.insight, node, files.spool());
  gleaned_ = node;
}

void Janitor::sweep(const NodeId& node) {
  const auto swept = sweep_left({node_folder(setup_.home, name_of(setup_.state, node))},
                                socket_folders(setup_.token_of(name_of(setup_.state, node))));
  if (!swept) return try_later(node, swept.error());
  if (failed_.empty() && queue_.empty()) (void)went_well(kClearing, std::nullopt);
}

// A machine that sleeps overnight sets its clock, too: that is not much beside the age of old
// lines.
bool Janitor::trusts_clock() {
  constexpr Duration kMuch = std::chrono::days(1);
  const Time zero = clock_zero();
  if (zero - zero_ >= kMuch) trusted_since_ = setup_.steady.passed();
  zero_ = zero;
  return setup_.steady.passed() - trusted_since_ >= std::min(kClockTrusted, setup_.keep_logs);
}

void Janitor::see_to_age(const NodeId& node) {
  const Run& run = setup_.state.runs.at(node.attempt.run);
  const NodeFiles files{node_folder(setup_.home, name_of(setup_.state, node))};
  if (!trusts_clock() || !is_old(run, setup_.clock.now(), setup_.keep_logs)) return;
  expiring_ = run.id;
  if (is_there(files.launch_file())) return;  // still to be swept: the next round finds it old
  if (const auto swept = sweep_logs(files); !swept) try_later(node, swept.error());
}

void Janitor::try_later(const NodeId& node, const Error& error) {
  (void)went_well(kClearing, Error(error).within(text(node)));
  if (failed_.empty()) retry_ = setup_.steady.passed() + kRetry;
  if (failed_.size() < kQueueMost) failed_.insert(node);
}

// --- The store ---

Janitor::Found Janitor::catch_up() {
  const auto more = setup_.insight.catch_up();
  return went_well(kSumming, error_of(more)) && *more ? Found::work : Found::nothing;
}

Janitor::Found Janitor::shrink() {
  const auto unused = setup_.database.unused();
  if (!went_well(kShrinking, error_of(unused)) || *unused <= setup_.unused_most)
    return Found::nothing;
  return went_well(kShrinking, error_of(setup_.database.give_back(kPagesAtOnce))) ? Found::work
                                                                                  : Found::nothing;
}

// --- What goes wrong ---

bool Janitor::went_well(const char* what, const std::optional<Error>& error) {
  if (!error) {
    if (complaints_.over(what)) LS_LOG(info, "{} goes well again", what);
    return true;
  }
  const auto words = format("{}: {}; it is tried again", what, error->message);
  if (complaints_.due(what, words)) LS_LOG(warning, "{}", words);
  return false;
}

}  // namespace lockstep
