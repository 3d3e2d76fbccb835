#include "platform/agent/fetch/copy_folder.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "platform/agent/fetch/earlier_copies.h"
#include "platform/agent/fetch/host_error.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using model::UploadEntry;

constexpr std::size_t kNamesInCall = 256;

Error damaged(const UploadEntry& entry, std::string_view reason) {
  return {Code::corrupt,
          format("{}: {}; if this comes again, remove uploads/files/{}/{} from the daemon's folder "
                 "and submit the run again with --upload",
                 entry.path, reason, entry.sha256.substr(0, 2), entry.sha256)};
}

// No entry is below a link or a file (model::check), so no folder here is a link.
Result<Fd> make_file(const fs::path& path, bool executable) {
  TRY(of_host(make_folders(path.parent_path())));
  return of_host(
      open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, executable ? 0700 : 0600));
}

Result<void> copy_file(const fs::path& from, const fs::path& to, bool executable) {
  {
    const Fd made = TRY(make_file(to, executable));
  }
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (!failed && ::chmod(to.c_str(), executable ? 0700 : 0600) == 0) return {};
  return Error{Code::internal,
               os_error("writing " + to.string(), failed ? failed.value() : errno).message};
}

Result<void> make_link(const fs::path& path, const std::string& target) {
  TRY(of_host(make_folders(path.parent_path())));
  if (::symlink(target.c_str(), path.c_str()) == 0) return {};
  return host_error("making the link " + path.string(), errno);
}

// The files of the manifest, each content once, in the order in which they are asked for.
class Contents {
 public:
  Contents(const std::vector<const UploadEntry*>& files, fs::path folder)
      : files_(files), folder_(std::move(folder)) {}

  bool are_complete() const { return next_ == files_.size(); }

  api::UploadPartsRequest request() const {
    api::UploadPartsRequest request;
    const std::size_t end = std::min(files_.size(), next_ + kNamesInCall);
    for (std::size_t i = next_; i < end; ++i)
      request.parts.push_back({files_[i]->sha256, i == next_ ? written_ : 0});
    return request;
  }

  Result<void> add(const api::UploadPart& part) {
    if (are_complete())
      return Error{Code::corrupt, "the daemon sent a part that was not asked for"};
    const UploadEntry& entry = *files_[next_];
    const auto bytes = net::from_base64(part.bytes);
    if (!bytes || part.sha256 != entry.sha256 || part.offset != written_ ||
        (bytes->empty() && written_ < entry.size.count()))
      return damaged(entry, "the daemon sent another part than it was asked for");
    if (!file_) file_ = TRY(make_file(folder_ / entry.path, entry.executable));
    const std::string_view content(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    if (auto written = write_all(file_.get(), content); !written)
      return Error{Code::internal, format("{}: {}", entry.path, written.error().message)};
    digest_.add(content);
    written_ += std::ssize(content);
    return written_ < entry.size.count() ? Result<void>() : finish(entry);
  }

 private:
  Result<void> finish(const UploadEntry& entry) {
    if (written_ != entry.size.count() || digest_.hex() != entry.sha256)
      return damaged(entry, "its SHA-256 is another one than when it was sent");
    file_.reset();
    digest_ = net::Sha256();
    written_ = 0;
    ++next_;
    return {};
  }

  const std::vector<const UploadEntry*>& files_;
  const fs::path folder_;
  std::size_t next_ = 0;
  Fd file_;  // of files_[next_], if a part of it has come
  std::int64_t written_ = 0;
  net::Sha256 digest_;
};

}  // namespace

Result<Bytes> copy_folder(UploadSource& source, const fs::path& folder,
                          const std::function<bool()>& is_stopped,
                          const std::vector<fs::path>& earlier) {
  const model::UploadManifest manifest = TRY(source.manifest());
  TRY(model::check(manifest));
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  TRY(of_host(make_folders(folder)));

  std::map<std::string_view, const UploadEntry*> first;  // of each content
  std::vector<const UploadEntry*> files;                 // those to be fetched
  for (const UploadEntry& entry : manifest.files)
    if (!entry.link && first.emplace(entry.sha256, &entry).second &&
        !take_from_earlier(earlier, entry, folder / entry.path))
      files.push_back(&entry);

  for (Contents contents(files, folder); !contents.are_complete();) {
    if (is_stopped()) return Error{Code::cancelled, "it was stopped"};
    const api::UploadParts answer = TRY(source.parts(contents.request()));
    if (answer.parts.empty()) return Error{Code::corrupt, "the daemon sent no part"};
    for (const api::UploadPart& part : answer.parts) TRY(contents.add(part));
  }
  for (const UploadEntry& entry : manifest.files) {
    if (entry.link)
      TRY(make_link(folder / entry.path, *entry.link));
    else if (const UploadEntry* same = first.at(entry.sha256); same != &entry)
      TRY(copy_file(folder / same->path, folder / entry.path, entry.executable));
  }
  return model::total_size(manifest);
}

}  // namespace lockstep::agent
