#include "train/checkpoint/format/writer/fence.h"

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/writer/lease_file.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// The lock is held for a rename: a longer wait means that the file system hangs.
constexpr Duration kLockBound = std::chrono::seconds(30);
// When a program that ends releases a folder: another may be about to claim it.
constexpr Duration kReleaseBound = std::chrono::seconds(2);
constexpr Duration kRenewalPoll = std::chrono::milliseconds(500);
// Each retry means that another writer was faster.
constexpr int kTriesMax = 10;

fs::path claim_path(const fs::path& folder) { return folder / "WRITER"; }

Result<Fd> lock_folder(const fs::path& folder) {
  Fd lock = TRY(try_lock(folder / ".lock", kLockBound));
  if (lock) return lock;
  return Error{Code::timeout, format("locking {}: another process has held it for {}",
                                     folder.string(), lockstep::text(kLockBound))};
}

// Nothing if no writer has claimed the folder. A Lockstep version without claims left a file EPOCH,
// and has ended.
Result<std::optional<WriterClaim>> read_claim(const fs::path& folder) {
  const auto path = claim_path(folder);
  auto content = read_file(path, 1 << 16);
  if (!content && content.error().code == Code::not_found) return std::optional<WriterClaim>();
  if (!content) return std::move(content).error();
  auto claim = parse_claim(*content);
  if (claim) return std::optional(*std::move(claim));
  return std::move(claim).error().with_context(
      format("{} is damaged; remove it if no training writes there", path.string()));
}

// Changes whenever the writer renews its claim, and when another file replaces it. The file is
// opened, because a network file system asks its server then.
struct Renewal {
  ::ino_t file = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const Renewal&) const = default;
};

Renewal renewal_of(const fs::path& path) {
  const auto fd = open_file(path, O_RDONLY);
  struct stat status{};
  if (!fd || ::fstat(fd->get(), &status) != 0) return {};
  return {status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

bool lock_shows_liveness(const WriterClaim& claim, const WriterProcess& process) {
  return claim.locked && !claim.boot.empty() && claim.boot == process.boot;
}

bool is_renewed(const fs::path& folder, const WriterClaim& claim, const FenceOptions& options) {
  LS_LOG(warning, "waiting for up to {} to see whether {} still writes to {}",
         lockstep::text(kHeartbeatTimeout), text(claim), folder.string());
  const auto first = renewal_of(claim_path(folder));
  for (Duration waited(0); waited < kHeartbeatTimeout; waited += kRenewalPoll) {
    options.sleep ? options.sleep(kRenewalPoll) : std::this_thread::sleep_for(kRenewalPoll);
    if (renewal_of(claim_path(folder)) != first) return true;
  }
  return false;
}

bool is_alive(const fs::path& folder, const WriterClaim& claim, const FenceOptions& options) {
  if (claim.released) return false;
  if (lock_shows_liveness(claim, options.process)) return is_locked(claim_path(folder));
  return is_renewed(folder, claim, options);
}

std::string successor(const WriterClaim& claim, const Writer& writer) {
  if (!writer.same_run(claim.writer())) return text(claim);
  if (claim.attempt != writer.attempt) return format("attempt {}", claim.attempt);
  return format("process {} on {}", claim.pid, claim.host);
}

Error superseded(const fs::path& folder, const WriterClaim& by, const FenceOptions& options) {
  Error error{Code::denied, format("{} may not write to {}: {} took over at {}",
                                   name_of(options.writer, options.process), folder.string(),
                                   successor(by, options.writer), lockstep::text(by.claimed))};
  if (options.on_rejected) options.on_rejected(report::Fault::superseded, error.message);
  return error;
}

std::string remedy(const WriterClaim& claim, const FenceOptions& options) {
  if (claim.run.empty() || options.writer.same_run(claim.writer()))
    return format("save into a folder of your own, or end process {} on {} first", claim.pid,
                  claim.host);
  return format("give this run a folder of its own with --checkpoint-folder, or stop {}",
                claim.run);
}

Error refused(const fs::path& folder, const WriterClaim& claim, const FenceOptions& options) {
  Error error{Code::already_exists,
              format("{} writes to {}; {}", text(claim), folder.string(), remedy(claim, options))};
  if (options.on_rejected && !options.writer.same_run(claim.writer()))
    options.on_rejected(report::Fault::refused, error.message);
  return error;
}

bool is_same(const std::optional<WriterClaim>& a, const std::optional<WriterClaim>& b) {
  if (!a || !b) return !a && !b;
  return a->id == b->id && a->released == b->released;
}

// Writes the claim as the folder's. Under the folder's lock.
Result<Fd> put_claim(const fs::path& folder, WriterClaim& claim) {
  const auto path = folder / format(".WRITER.{}.tmp", claim.id);
  auto file = TRY(LeaseFile::create(path, claim.locked));
  const auto put = [&]() -> Result<void> {
    TRY(write_all(file.get(), dump_json(to_json(claim)) + "\n"));
    if (::fsync(file.get()) != 0) return os_error("syncing", errno);
    if (::rename(path.c_str(), claim_path(folder).c_str()) != 0) return os_error("renaming", errno);
    return sync_folder(folder);
  };
  if (auto done = put(); !done) {
    ::unlink(path.c_str());
    return std::move(done).error().with_context(format("claiming {}", folder.string()));
  }
  std::error_code ignored;
  fs::remove(folder / "EPOCH", ignored);
  return file;
}

// The reason why this writer may not claim the folder; nothing if it may.
Result<void> check_claimable(const fs::path& folder, const WriterClaim& claim,
                             const FenceOptions& options) {
  switch (precedence_of(claim, options.writer, options.process)) {
    case Precedence::yields:
      return {};
    case Precedence::supersedes:
      return superseded(folder, claim, options);
    case Precedence::sibling:
      if (claim.process == options.process.name) return {};
      break;
    case Precedence::unrelated:
      break;
  }
  if (is_alive(folder, claim, options)) return refused(folder, claim, options);
  return {};
}

}  // namespace

// One claim, for as long as it is held.
class Fence::HeldClaim {
 public:
  HeldClaim(fs::path folder, FenceOptions options, WriterClaim claim, Fd file)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        claim_(std::move(claim)),
        file_(std::move(file), options_.heartbeat_interval) {}
  ~HeldClaim() {
    if (file_.in_owner_process()) release();
  }
  HeldClaim(const HeldClaim&) = delete;
  HeldClaim& operator=(const HeldClaim&) = delete;

  const fs::path& folder() const { return folder_; }
  const WriterClaim& claim() const { return claim_; }

  Result<void> check() const {
    const auto current = TRY(read_claim(folder_));
    if (!current)
      return Error{Code::corrupt,
                   format("{} is gone: was the folder replaced?", claim_path(folder_).string())};
    if (current->id == claim_.id) return {};
    auto options = options_;
    if (std::exchange(rejection_reported_, true)) options.on_rejected = nullptr;
    return superseded(folder_, *current, options);
  }

 private:
  // Records for writers on other machines that this writer has ended. If that fails, the claim's
  // lock and time show it.
  void release() const {
    const auto lock = try_lock(folder_ / ".lock", kReleaseBound);
    if (!lock || !*lock) return;
    const auto current = read_claim(folder_);
    if (!current || !*current || (*current)->id != claim_.id) return;
    auto released = claim_;
    released.released = true;
    if (auto done = write_file(claim_path(folder_), dump_json(to_json(released)) + "\n", 0644);
        !done)
      LS_LOG(warning, "{}", done.error().message);
  }

  const fs::path folder_;
  const FenceOptions options_;
  const WriterClaim claim_;
  LeaseFile file_;
  mutable bool rejection_reported_ = false;  // used by the thread that saves
};

Fence::Fence(std::unique_ptr<HeldClaim> held) : claim_(std::move(held)) {}
Fence::Fence(Fence&&) noexcept = default;
Fence& Fence::operator=(Fence&&) noexcept = default;
Fence::~Fence() = default;

Result<Fence> Fence::claim(const fs::path& folder, const FenceOptions& options) {
  for (int tries = 0; tries < kTriesMax; ++tries) {
    // Without the lock, because this may wait for a heartbeat.
    const auto found = TRY(read_claim(folder));
    if (found) TRY(check_claimable(folder, *found, options));
    const auto lock = TRY(lock_folder(folder));
    if (!is_same(found, TRY(read_claim(folder)))) continue;
    auto mine = claim_of(options.writer, options.process, SystemClock().now());
    auto file = TRY(put_claim(folder, mine));
    return Fence(std::make_unique<HeldClaim>(folder, options, std::move(mine), std::move(file)));
  }
  return Error{Code::unavailable,
               format("claiming {}: other programs claimed it {} times meanwhile; "
                      "end those that should not write there",
                      folder.string(), kTriesMax)};
}

Result<std::optional<Fence>> Fence::claim_unless_sibling(const fs::path& folder,
                                                         const FenceOptions& options) {
  const auto found = TRY(read_claim(folder));
  if (found && precedence_of(*found, options.writer, options.process) == Precedence::sibling &&
      is_alive(folder, *found, options))
    return std::optional<Fence>();
  return std::optional(TRY(claim(folder, options)));
}

const std::string& Fence::claim_id() const { return claim_->claim().id; }
std::int64_t Fence::attempt() const { return claim_->claim().attempt; }
Result<void> Fence::check() const { return claim_->check(); }
Result<Fd> Fence::lock() const { return lock_folder(claim_->folder()); }

std::optional<std::string> other_writer(const fs::path& folder, const FenceOptions& options) {
  const auto found = read_claim(folder);
  if (!found || !*found || (*found)->released) return std::nullopt;
  const auto& claim = **found;
  if (precedence_of(claim, options.writer, options.process) == Precedence::sibling)
    return std::nullopt;
  if (lock_shows_liveness(claim, options.process) && !is_locked(claim_path(folder)))
    return std::nullopt;
  return text(claim);
}

}  // namespace lockstep::train
