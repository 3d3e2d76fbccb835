#include "apps/import/event_files.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "platform/event_file/event_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadAtOnce = 4 << 20;
constexpr std::size_t kPointsAtOnce = 32'768;
// A smaller record has less than 30,000 points, because each takes at least 9 bytes.
constexpr std::size_t kLargeRecord = 256 << 10;

// "train/" for a file in `train` of the folder.
std::string prefix_of(const fs::path& folder, const fs::path& file) {
  const std::string below = file.parent_path().lexically_relative(folder).generic_string();
  return below == "." || below.empty() ? "" : below + "/";
}

// One file. Points wait until there are enough, and always end with a record; so a batch is the
// same, however much of a growing file there was at an earlier import.
class FileImport : public event_file::EventSink {
 public:
  FileImport(client::Client& client, const model::RunId& run, const fs::path& folder,
             const fs::path& file, ImportCounts& counts)
      : client_(client),
        run_(run),
        file_(file),
        prefix_(prefix_of(folder, file)),
        counts_(counts),
        sender_(client, run, "tensorboard/" + file.lexically_relative(folder).generic_string(),
                counts) {}

  Result<void> import() {
    const Fd file = TRY(open_file(file_, O_RDONLY));
    stored_ = TRY(sender_.stored());
    for (;;) {
      const std::size_t kept = buffer_.size();
      buffer_.resize(kept + kReadAtOnce);
      const ssize_t got = ::read(file.get(), buffer_.data() + kept, kReadAtOnce);
      if (got < 0) return os_error("reading " + file_.string(), errno);
      buffer_.resize(kept + static_cast<std::size_t>(got));
      if (got == 0 || !TRY(take_records())) return sender_.send(offset_);
    }
  }

  void add(const event_file::EventScalar& scalar) override {
    if (is_known_) return;
    name_.assign(prefix_);
    name_ += scalar.tag;
    sender_.add(name_, 0, scalar.step, scalar.time, scalar.value);
  }
  void add(event_file::EventImage image) override {
    if (is_known_) return;
    media_.push_back({.kind = api::MediaKind::image,
                      .name = prefix_ + image.tag,
                      .step = image.step,
                      .time = image.time,
                      .index = image.index,
                      .data = net::to_base64(std::as_bytes(std::span(image.bytes)))});
  }
  void add(event_file::EventHistogram histogram) override {
    if (is_known_) return;
    media_.push_back({.kind = api::MediaKind::histogram,
                      .name = prefix_ + histogram.tag,
                      .step = histogram.step,
                      .time = histogram.time,
                      .edges = std::move(histogram.edges),
                      .counts = std::move(histogram.counts)});
  }

 private:
  // The whole records of the buffer; false if one is damaged, after which nothing can be read.
  Result<bool> take_records() {
    std::size_t done = 0;
    for (;;) {
      const std::string_view rest = std::string_view(buffer_).substr(done);
      const std::size_t announced = event_file::record_size(rest);
      // It may have more points than a batch takes. Then its batches are its own.
      if (announced > kLargeRecord && sender_.waiting() > 0) TRY(sender_.send(offset_));
      is_known_ = offset_ + static_cast<std::int64_t>(announced) <= stored_;
      const auto size = reader_.next(rest, *this);
      if (!size) {
        print_to_stderr(format("lockstep: {}, byte {}: {}; the rest of the file is left out",
                               file_.string(), offset_, size.error().message));
        return false;
      }
      if (*size == 0) break;
      done += *size;
      offset_ += static_cast<std::int64_t>(*size);
      TRY(send_media_of_record());
      if (sender_.waiting() >= kPointsAtOnce) TRY(sender_.send(offset_));
    }
    buffer_.erase(0, done);
    return true;
  }

  Result<void> send_media_of_record() {
    for (const api::MediaRequest& request : media_)
      TRY(send_media(client_, run_, request, counts_));
    media_.clear();
    return {};
  }

  client::Client& client_;
  const model::RunId& run_;
  const fs::path& file_;
  const std::string prefix_;
  ImportCounts& counts_;
  PointSender sender_;
  event_file::EventReader reader_;
  std::vector<api::MediaRequest> media_;
  std::string name_;
  std::string buffer_;
  std::int64_t offset_ = 0;  // of the buffer in the file
  std::int64_t stored_ = 0;  // the daemon has the records that end there or before
  bool is_known_ = false;
};

}  // namespace

Result<std::vector<fs::path>> find_event_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied,
                                           failed);
  if (failed) return Error{Code::not_found, format("{}: {}", folder.string(), failed.message())};
  for (const auto end = fs::recursive_directory_iterator(); entries != end;
       entries.increment(failed)) {
    if (failed)
      return Error{Code::unavailable, format("{}: {}", folder.string(), failed.message())};
    if (event_file::is_event_file_name(entries->path().filename().string()) &&
        entries->is_regular_file(failed))
      found.push_back(entries->path());
  }
  std::ranges::sort(found);
  return found;
}

Result<void> import_event_files(client::Client& client, const model::RunId& run,
                                const fs::path& folder, const std::vector<fs::path>& files,
                                ImportCounts& counts) {
  for (const fs::path& file : files) {
    FileImport one(client, run, folder, file, counts);
    TRY(one.import());
  }
  return {};
}

}  // namespace lockstep::cli
