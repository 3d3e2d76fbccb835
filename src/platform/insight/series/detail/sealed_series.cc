// Appending and removing.
#include "platform/insight/series/detail/sealed_series.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::insight::series {
namespace {

constexpr std::size_t kReasonsMax = 100;
constexpr std::size_t kProblemsMax = 100;
constexpr std::size_t kNameMax = 256;

// Empty if the series is valid.
std::string fault_of(const SeriesKey& key) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (key.metric.empty() || key.metric.size() > kNameMax || !is_utf8(key.metric) ||
      std::ranges::any_of(key.metric, is_control))
    return format("the name of a metric has 1 to {} bytes of UTF-8 without control characters",
                  kNameMax);
  if (key.index < 0) return format("the index of a rank or node is at least 0, got {}", key.index);
  if (key.part == RunPart::all_ranks) return "the store makes the series of all ranks";
  if (key.part > RunPart::all_ranks)
    return format("the series is of no known part of the run ({})", static_cast<int>(key.part));
  return {};
}

}  // namespace

// --- Runs ---

RunState* SealedSeries::find(const model::RunId& run) {
  const auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : found->second.get();
}

RunState& SealedSeries::find_or_create(const model::RunId& run) {
  auto& state = runs_[run];
  if (!state) state = std::make_shared<RunState>(run);
  return *state;
}

std::shared_ptr<const Segment> SealedSeries::open_segment(RunState& run, StoredSegment& stored) {
  if (stored.damaged) return nullptr;
  const std::string name = text(run.id, stored.name);
  auto segment = cache_.open(name);
  if (segment) return *segment;
  // A file that cannot be opened for another reason may be opened later.
  stored.damaged = segment.error().code == Code::corrupt;
  add_problem(format("{} is set aside: {}", name, segment.error().message));
  return nullptr;
}

// Each segment has the marks of all batches up to its last generation.
Marks& SealedSeries::marks_of(RunState& run) {
  if (run.marks) return *run.marks;
  run.marks.emplace();
  for (auto stored = run.segments.rbegin(); stored != run.segments.rend(); ++stored)
    if (const auto segment = open_segment(run, *stored)) {
      run.marks = segment->marks();
      break;
    }
  return *run.marks;
}

std::unordered_set<std::size_t>& SealedSeries::series_of(RunState& run) {
  if (run.series) return *run.series;
  run.series.emplace();
  const HashOfSeries hash;
  for (StoredSegment& stored : run.segments)
    if (const auto segment = open_segment(run, stored))
      for (std::size_t i = 0; i < segment->series_count(); ++i)
        if (const SeriesKey key = segment->key_of(segment->series(i));
            key.part != RunPart::all_ranks)
          run.series->insert(hash(key));
  for (const OpenPoints* points : {&std::as_const(run.open), run.frozen.get()})
    if (points)
      for (const auto& [key, attempts] : *points) run.series->insert(hash(key));
  return *run.series;
}

void SealedSeries::add_problem(std::string problem) {
  if (std::ranges::find(problems_, problem) != problems_.end()) return;
  if (problems_.size() >= kProblemsMax) problems_.pop_front();
  problems_.push_back(std::move(problem));
}

std::vector<std::string> SealedSeries::problems() {
  const Lock lock(mutex_);
  return {problems_.begin(), problems_.end()};
}

// --- Appending ---

Result<Appended> SealedSeries::append(const PointBatch& batch) {
  const Lock lock(mutex_);
  TRY(wait_for_room());
  RunState& run = find_or_create(batch.attempt.run);
  Marks& marks = marks_of(run);
  const bool marked = !batch.source.empty();
  if (const auto known = marks.find(batch.source);
      marked && known != marks.end() && known->second >= batch.sequence)
    return Appended{.repeated = true};
  Slots slots = slots_for(batch, run);
  Appended appended;
  for (std::size_t i = 0; i < batch.points.size(); ++i) {
    const std::uint32_t series = batch.points[i].series;
    if (series < batch.series.size() && slots.accepted[series]) continue;
    if (++appended.rejected <= kReasonsMax)
      appended.reasons.push_back({i, series < batch.series.size()
                                         ? slots.reasons[series]
                                         : format("the batch has {} series, and none with index {}",
                                                  batch.series.size(), series)});
  }
  appended.stored = batch.points.size() - appended.rejected;
  encode_batch(batch, slots.accepted, record_);
  TRY(log_->append(record_));
  if (marked) marks[batch.source] = batch.sequence;
  add_points(batch, slots, run);
  if (open_bytes_ >= static_cast<std::size_t>(limits_.seal.count()) && sealing_.empty())
    if (auto frozen = freeze(); !frozen) add_problem(frozen.error().message);
  return appended;
}

Result<void> SealedSeries::wait_for_room() {
  const auto most = static_cast<std::size_t>(limits_.memory.count());
  const Deadline deadline = Deadline::after(limits_.wait);
  while (open_bytes_ + frozen_bytes_ >= most) {
    if (seal_error_) return *seal_error_;
    if (sealing_.empty()) {
      TRY(freeze());
    } else if (!changed_.wait_until(mutex_, deadline)) {
      return Error{Code::unavailable,
                   format("{} of points wait for the disk; send the batch again later",
                          text(limits_.memory))};
    }
  }
  return {};
}

SealedSeries::Slots SealedSeries::slots_for(const PointBatch& batch, RunState& run) {
  Slots slots;
  slots.attempts.resize(batch.series.size());
  slots.accepted.resize(batch.series.size(), true);
  slots.reasons.resize(batch.series.size());
  for (std::size_t i = 0; i < batch.series.size(); ++i) {
    const SeriesKey& key = batch.series[i];
    if (const auto open = run.open.find(key); open != run.open.end()) {
      slots.attempts[i] = &open->second;
      continue;
    }
    slots.reasons[i] = fault_of(key);
    if (slots.reasons[i].empty()) {
      auto& known = series_of(run);
      const std::size_t hash = HashOfSeries()(key);
      if (known.size() >= limits_.series && !known.contains(hash))
        slots.reasons[i] = format("a run may have {} series", limits_.series);
      else
        known.insert(hash);
    }
    slots.accepted[i] = slots.reasons[i].empty();
  }
  return slots;
}

namespace {

OpenAttempts& attempts_of(RunState& run, const SeriesKey& key) {
  const auto [open, added] = run.open.try_emplace(key);
  if (added && key.part == RunPart::rank) run.open_ranks[key.metric].push_back(key.index);
  return open->second;
}

}  // namespace

void SealedSeries::add_points(const PointBatch& batch, Slots& slots, RunState& run) {
  if (!std::exchange(run.changed, true)) open_runs_.push_back(runs_.at(run.id));
  std::vector<OpenSeries*> series(batch.series.size());
  std::size_t bytes = 0;
  for (const auto& [index, point] : batch.points) {
    if (index >= series.size() || !slots.accepted[index]) continue;
    if (series[index] == nullptr) {
      if (slots.attempts[index] == nullptr)
        slots.attempts[index] = &attempts_of(run, batch.series[index]);
      const auto [open, added] = slots.attempts[index]->try_emplace(batch.attempt.epoch);
      if (added) bytes += kOpenSeriesBytes;
      series[index] = &open->second;
    }
    series[index]->add(point);
    bytes += sizeof(SeriesPoint);
  }
  run.open_bytes += bytes;
  open_bytes_ += bytes;
}

Result<void> SealedSeries::freeze() {
  const std::int64_t through = log_->generation();
  TRY(log_->rotate());
  sealing_through_ = through;
  for (const Run& run : open_runs_) {
    run->frozen = std::make_shared<const OpenPoints>(std::exchange(run->open, {}));
    run->frozen_ranks = std::exchange(run->open_ranks, {});
    run->frozen_marks = marks_of(*run);
    run->open_bytes = 0;
    run->changed = false;
  }
  sealing_ = std::exchange(open_runs_, {});
  frozen_bytes_ = std::exchange(open_bytes_, 0);
  changed_.notify_all();
  return {};
}

Result<std::int64_t> SealedSeries::stored_sequence(const model::RunId& run,
                                                   const std::string& source) {
  const Lock lock(mutex_);
  RunState* state = find(run);
  if (state == nullptr) return std::int64_t{0};
  const Marks& marks = marks_of(*state);
  const auto found = marks.find(source);
  return found == marks.end() ? 0 : found->second;
}

// --- Removing ---

std::vector<std::string> SealedSeries::names_of(const RunState& run) {
  std::vector<std::string> names;
  for (const StoredSegment& stored : run.segments) names.push_back(text(run.id, stored.name));
  return names;
}

Bytes SealedSeries::bytes_of_run(const RunState& run) {
  Bytes total;
  for (const StoredSegment& stored : run.segments) total += stored.name.size;
  return total;
}

Result<void> SealedSeries::remove_locked(const model::RunId& run) {
  const auto found = runs_.find(run);
  if (found == runs_.end()) return {};
  encode_removal(run, record_);
  TRY(log_->append(record_));
  const Run state = found->second;
  state->removed = true;
  open_bytes_ -= state->open_bytes;
  std::erase(open_runs_, state);
  for (const std::string& name : names_of(*state)) {
    cache_.forget(name);
    garbage_.push_back(name);
  }
  runs_.erase(found);
  changed_.notify_all();
  return {};
}

Result<void> SealedSeries::remove(const model::RunId& run) {
  {
    const Lock lock(mutex_);
    TRY(remove_locked(run));
  }
  remove_garbage();
  return {};
}

Result<std::vector<model::RunId>> SealedSeries::remove_oldest(Bytes keep) {
  std::vector<model::RunId> removed;
  {
    const Lock lock(mutex_);
    Bytes total;
    std::vector<std::pair<std::int64_t, model::RunId>> oldest;  // by their last generation
    for (const auto& [id, run] : runs_) {
      total += bytes_of_run(*run);
      if (!run->changed && !run->frozen && !run->segments.empty())
        oldest.emplace_back(run->segments.back().name.last, id);
    }
    std::ranges::sort(oldest);
    for (const auto& [generation, id] : oldest) {
      if (total <= keep) break;
      total -= bytes_of_run(*runs_.at(id));
      TRY(remove_locked(id));
      removed.push_back(id);
    }
  }
  remove_garbage();
  return removed;
}

Bytes SealedSeries::bytes(const model::RunId& run) {
  const Lock lock(mutex_);
  const RunState* state = find(run);
  return state ? bytes_of_run(*state) : Bytes{};
}

Bytes SealedSeries::bytes() {
  const Lock lock(mutex_);
  Bytes total;
  for (const auto& [id, run] : runs_) total += bytes_of_run(*run);
  return total;
}

}  // namespace lockstep::insight::series
