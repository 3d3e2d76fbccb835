#include "apps/run/upload/send_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "apps/run/follow.h"
#include "apps/run/upload/list_folder.h"
#include "base/format.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/crypto.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using model::UploadEntry;

constexpr int kRoundsMax = 3;
constexpr std::size_t kLeftOutShown = 5;

// Up to so many bytes; fewer at the end of the file.
Result<std::vector<std::byte>> read_bytes(const Fd& file, const fs::path& path, std::int64_t offset,
                                          std::int64_t most) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(most));
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n = ::pread(file.get(), bytes.data() + size, bytes.size() - size,
                              offset + static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading " + path.string(), errno);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

class FolderSender {
 public:
  FolderSender(client::Client& client, fs::path folder, FolderToUpload found)
      : client_(client), folder_(std::move(folder)), manifest_(std::move(found.manifest)) {}

  // The SHA-256 of each file, and its size as it was read.
  Result<void> read_files() {
    for (UploadEntry& entry : manifest_.files) {
      if (entry.link) continue;
      const fs::path path = folder_ / entry.path;
      const Fd file = TRY(open_file(path, O_RDONLY));
      net::Sha256 digest;
      std::int64_t size = 0;
      for (;;) {
        const auto bytes = TRY(read_bytes(file, path, size, api::kUploadCallMax));
        if (bytes.empty()) break;
        digest.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        size += std::ssize(bytes);
        line_.show(format("reading {}", folder_.string()));
      }
      entry.size = Bytes(size);
      entry.sha256 = digest.hex();
      paths_.emplace(entry.sha256, &entry);
    }
    return {};
  }

  // The id.
  Result<std::string> send() {
    for (int round = 0; round < kRoundsMax; ++round) {
      const api::UploadAnswer answer = TRY(retry_while_away(client_, [&] {
        return client_.call(api::kUpload, {.request = {.manifest = manifest_}});
      }));
      if (answer.missing.empty()) return answer.id;
      TRY(send_files(answer.missing));
    }
    return Error{Code::unavailable,
                 "the daemon does not keep the files that it was sent; its log says why"};
  }

  void wipe_line() { line_.wipe(); }
  std::string summary() const {
    return format("lockstep: sent {} of {} files ({} of {}) from {}; ranks start in a copy of it",
                  sent_files_, manifest_.files.size(), text(sent_),
                  text(model::total_size(manifest_)), folder_.string());
  }

 private:
  Result<void> send_files(const std::vector<std::string>& missing) {
    for (const std::string& sha256 : missing) {
      const auto known = paths_.find(sha256);
      if (known == paths_.end()) return Error{Code::corrupt, "the daemon asks for another file"};
      TRY(send_file(*known->second));
    }
    return flush();
  }

  Result<void> send_file(const UploadEntry& entry) {
    const fs::path path = folder_ / entry.path;
    const Fd file = TRY(open_file(path, O_RDONLY));
    for (std::int64_t offset = 0;;) {
      const auto bytes = TRY(read_bytes(file, path, offset, std::max<std::int64_t>(room_, 1)));
      batch_.parts.push_back({entry.sha256, offset, net::to_base64(bytes)});
      offset += std::ssize(bytes);
      room_ -= std::ssize(bytes);
      sent_ += Bytes(std::ssize(bytes));
      if (room_ <= 0 || batch_.parts.size() >= api::kUploadPartsMax) TRY(flush());
      if (offset >= entry.size.count()) break;
      if (bytes.empty())
        return Error{Code::invalid, format("--upload: {} was changed while it was sent: repeat the "
                                           "command",
                                           path.string())};
    }
    ++sent_files_;
    return {};
  }

  Result<void> flush() {
    if (batch_.parts.empty()) return {};
    TRY(retry_while_away(client_,
                         [&] { return client_.call(api::kUploadParts, {.request = batch_}); }));
    batch_.parts.clear();
    room_ = api::kUploadCallMax;
    line_.show(format("sending {}: {}", folder_.string(), text(sent_)));
    return {};
  }

  client::Client& client_;
  const fs::path folder_;
  model::UploadManifest manifest_;
  std::map<std::string, const UploadEntry*> paths_;  // one file of each content
  api::UploadParts batch_;
  std::int64_t room_ = api::kUploadCallMax;  // in the batch
  Bytes sent_{};
  int sent_files_ = 0;
  WaitingLine line_{NonTerminalOutput::once};
};

void show_left_out(const std::vector<std::string>& left_out) {
  for (std::size_t i = 0; i < std::min(left_out.size(), kLeftOutShown); ++i)
    print_to_stderr(
        format("lockstep: --upload leaves out: {}", escaped_for(STDERR_FILENO, left_out[i])));
  if (left_out.size() > kLeftOutShown)
    print_to_stderr(
        format("lockstep: --upload leaves out {} more", left_out.size() - kLeftOutShown));
}

}  // namespace

Result<std::string> send_folder(client::Client& client, const fs::path& folder) {
  const api::Version version = TRY(client.call(api::kVersion));
  if (!version.upload_limit)
    return Error{Code::invalid, format("--upload: the daemon has version {}, which takes no "
                                       "folders; upgrade it",
                                       version.version)};
  FolderToUpload found = TRY(list_folder_to_upload(folder));
  if (auto fits = model::check_limits(found.manifest, *version.upload_limit); !fits)
    return std::move(fits).error().with_context("--upload");
  show_left_out(found.left_out);
  FolderSender sender(client, folder, std::move(found));
  TRY(sender.read_files());
  std::string id = TRY(sender.send());
  sender.wipe_line();
  print_to_stderr(sender.summary());
  return id;
}

}  // namespace lockstep::cli
