#include "train/checkpoint/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "train/checkpoint/format/writer/unfinished.h"
#include "train/checkpoint/persist.h"
#include "train/checkpoint/random_state.h"
#include "train/checkpoint/text_collectives.h"

namespace lockstep::train {
namespace {

constexpr auto kClaimLabel = "the claim of the checkpoints";
constexpr std::string_view kNoKeeper = "-";  // in place of a claim
constexpr auto kPersistBound = std::chrono::minutes(30);

FenceOptions fence_options(const CheckpointOptions& options) {
  return {.writer = options.writer, .on_rejected = options.on_rejected};
}

// Rank 0's message: the id of the claim, or empty if the folder is not claimed.
Result<std::string> adopt_claim(std::optional<Fence> claimed, const CheckpointOptions& options,
                                std::optional<Fence>& fence) {
  if (!claimed) return std::string();
  TRY(remove_leftovers(options.folder, *claimed));
  fence = std::move(claimed);
  return fence->claim_id();
}

Result<std::string> claim_at_save(const CheckpointOptions& options, std::optional<Fence>& fence) {
  TRY(make_folders(options.folder));
  return adopt_claim(TRY(Fence::claim(options.folder, fence_options(options))), options, fence);
}

Result<std::string> claim_at_open(const CheckpointOptions& options, std::optional<Fence>& fence) {
  if (options.keep < 1)
    return Error{Code::invalid, format("keeping {} checkpoints: keep at least one", options.keep)};
  if (options.claim_time == ClaimTime::at_open) {
    TRY(make_folders(options.folder));
    return adopt_claim(TRY(Fence::claim_unless_sibling(options.folder, fence_options(options))),
                       options, fence);
  }
  const auto other = other_writer(options.folder, fence_options(options));
  if (other && options.claim_time == ClaimTime::at_save)
    LS_LOG(warning,
           "{} writes to {}: what is saved there changes, and a save from here is refused "
           "until it has ended",
           *other, options.folder.string());
  return std::string();
}

std::filesystem::path real_path(const std::filesystem::path& folder) {
  std::error_code failed;
  auto found = std::filesystem::weakly_canonical(folder, failed);
  return failed ? folder : found;
}

Manifest manifest_of(const TrainingState& state, std::int64_t attempt, int ranks) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.epoch = attempt;
  manifest.ranks = ranks;
  manifest.optimizer = state.optimizer;
  manifest.optimizer_steps = state.optimizer_steps;
  manifest.sampler_seed = state.sampler.seed;
  manifest.sampler_cursor = state.sampler.cursor;
  manifest.notes = state.notes;
  return manifest;
}

// The state's; the CPU if no tensor is on another one.
at::Device device_of(const std::vector<OwnedTensor>& tensors) {
  for (const auto& each : tensors)
    if (!each.tensor.is_cpu()) return each.tensor.device();
  return at::kCPU;
}

bool is_copied_by_thread(const OwnedTensor& tensor) {
  return tensor.stable_between_steps && tensor.tensor.is_cpu();
}

// Counts the writes to the tensor, or to the tensor of which it is a view.
std::int64_t version_of(const OwnedTensor& tensor) {
  return static_cast<std::int64_t>(tensor.tensor._version());
}

}  // namespace

std::string host_of_folder(const std::filesystem::path& folder, const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  const std::string own = value("LOCKSTEP_CHECKPOINT_DIR");
  const bool is_of_host = value("LOCKSTEP_HOST_CHECKPOINTS") == "1" && !own.empty() &&
                          real_path(own) == real_path(folder);
  return is_of_host ? value("LOCKSTEP_HOST_ID") : "";
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(CheckpointOptions options, Comm group) {
  auto job = std::make_shared<Job>(std::move(options), std::move(group));
  job->hosts = TRY(HostFolders::gather(job->options.host, job->group));
  TRY(claim_by(claim_at_open, *job));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

// The keeper of each folder claims it. If one does not, none is claimed: all ranks make the same
// calls.
Result<void> Checkpointer::claim_by(Claiming claiming, Job& job) {
  Result<std::string> claimed = std::string();
  if (job.group.rank() == job.hosts.keeper()) claimed = claiming(job.options, job.fence);
  if (job.hosts.are_shared()) {
    job.claim_id = TRY(broadcast_text(job.group, claimed, kClaimLabel));
    return {};
  }
  // The other ranks tell that of their keeper, which may not be known yet.
  const bool is_keeper = job.group.rank() == job.hosts.keeper();
  if (claimed && claimed->empty() && !is_keeper) claimed = std::string(kNoKeeper);
  const auto claims = TRY(all_gather_text(job.group, claimed, kClaimLabel));
  job.claim_id = claims[static_cast<std::size_t>(job.hosts.keeper())];
  if (std::ranges::find(claims, "") == claims.end()) return {};
  job.claim_id.clear();
  job.fence.reset();
  return {};
}

Checkpointer::~Checkpointer() {
  if (in_flight_.valid()) in_flight_.wait_for(kPersistBound);
}

Result<Duration> Checkpointer::save(const TrainingState& state) {
  const auto begun = std::chrono::steady_clock::now();
  TRY(finish());
  auto& job = *job_;
  if (job.claim_id.empty()) TRY(claim(job));
  job.tensors = state.tensors;
  const auto device = device_of(state.tensors);
  for (auto& row : random_state(device, job.group.rank(), job.group.size()))
    job.tensors.push_back(std::move(row));
  if (!job.plan) job.plan = TRY(make_save_plan(job.tensors, job.group));
  auto begun_well = begin(job, state, device);
  if (begun_well) start_background_copy(state.snapshot_copies.get());
  in_flight_ = in_background(job_, [begun_well = std::move(begun_well)](Job& shared) {
    return persist(shared, begun_well);
  });
  const auto held = std::chrono::steady_clock::now() - begun;
  return std::chrono::duration_cast<Duration>(held) +
         (state.snapshot_copies ? state.snapshot_copies->take_wait_time() : Duration(0));
}

Result<void> Checkpointer::claim(Job& job) {
  if (job.options.claim_time == ClaimTime::never)
    return Error{Code::invalid, format("{} was opened for reading: open it for writing to save",
                                       job.options.folder.string())};
  return claim_by(claim_at_save, job);
}

// The thread releases the job before its outcome is ready. The job may hold functions of Python,
// and a process that exits no longer gives Python's lock to a thread.
std::future<Result<void>> Checkpointer::in_background(std::shared_ptr<Job> job, Work work) {
  std::promise<Result<void>> promise;
  auto outcome = promise.get_future();
  std::thread thread(
      [job = std::move(job), work = std::move(work), promise = std::move(promise)]() mutable {
        std::optional<Result<void>> result;
        std::exception_ptr thrown;
        try {
          result = work(*job);
        } catch (...) {
          thrown = std::current_exception();
        }
        work = nullptr;
        job.reset();
        if (thrown)
          promise.set_exception(thrown);
        else
          promise.set_value(std::move(*result));
      });
  thread.detach();  // a thread that hangs cannot be joined
  return outcome;
}

Result<void> Checkpointer::begin(Job& job, const TrainingState& state, at::Device device) {
  job.manifest = manifest_of(state, job.options.writer.attempt, job.group.size());
  job.manifest.tensors = job.plan->tensors;
  job.versions.clear();
  for (auto& tensor : job.tensors) {
    tensor.stable_between_steps = tensor.stable_between_steps && state.snapshot_copies;
    job.versions.push_back(version_of(tensor));
  }
  TRY(check_held_parts(*job.plan, job.tensors));
  TRY(job.snapshot.allocate(*job.plan, device));
  try {
    job.snapshot.begin(*job.plan, job.tensors);
  } catch (const std::exception& exception) {
    const std::string message = exception.what();
    return Error{Code::unavailable,
                 "copying the state from the device: " + message.substr(0, message.find('\n'))};
  }
  return {};
}

void Checkpointer::start_background_copy(SnapshotCopies* readers) {
  auto ended = std::make_shared<std::promise<void>>();
  if (auto copies = job_->snapshot.device_copies(); readers && copies)
    readers->add(std::move(copies));
  if (readers && std::ranges::any_of(job_->tensors, is_copied_by_thread))
    readers->add(ended->get_future().share());
  job_->copy_done = in_background(job_, [ended = std::move(ended)](Job& job) {
    auto outcome = copy_stable(job);
    ended->set_value();
    return outcome;
  });
}

Result<void> Checkpointer::copy_stable(Job& job) {
  job.snapshot.finish(*job.plan, job.tensors);
  for (std::size_t i = 0; i < job.tensors.size(); ++i)
    if (is_copied_by_thread(job.tensors[i]) && version_of(job.tensors[i]) != job.versions[i])
      return Error{Code::invalid, format("{} was changed while it was copied: change the "
                                         "training's state by the optimizer's step only, or after "
                                         "the checkpointer's finish()",
                                         job.tensors[i].name)};
  return {};
}

Result<void> Checkpointer::finish() {
  if (!in_flight_.valid()) return {};
  if (in_flight_.wait_for(kPersistBound) != std::future_status::ready)
    return Error{Code::timeout, format("saving step {} to {} hangs", job_->manifest.step,
                                       job_->options.folder.string())};
  auto outcome = in_flight_.get();
  job_->tensors.clear();  // by this thread: they may be the last references to Python objects
  return outcome;
}

Result<void> Checkpointer::persist(Job& job, const Result<void>& begun) {
  const PersistTask task{.folder = job.options.folder,
                         .hosts = job.hosts,
                         .claim_id = job.claim_id,
                         .fence = job.fence ? &*job.fence : nullptr,
                         .keep = job.options.keep,
                         .on_saved = job.options.on_saved,
                         .manifest = job.manifest,
                         .snapshot = job.snapshot,
                         .wait_for_copy = [&job] { return job.copy_done.get(); }};
  const auto outcome = train::persist(task, begun, job.group);
  if (job.copy_done.valid()) job.copy_done.wait();  // if writing failed
  return outcome;
}

}  // namespace lockstep::train
