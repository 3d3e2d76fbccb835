#include "platform/insight/series/folder_blobs.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"

namespace lockstep::insight {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".tmp";

class MappedFile : public Blob {
 public:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  ~MappedFile() override {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const override { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

class FileWriter : public BlobWriter {
 public:
  FileWriter(fs::path path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}
  ~FileWriter() override {
    if (file_) ::unlink(unfinished().c_str());
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  Result<void> write(std::span<const std::byte> bytes) override {
    auto written =
        write_all(file_.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!written) return std::move(written).error().with_context("writing " + path_.string());
    return {};
  }
  Result<void> commit() override {
    if (::fsync(file_.get()) != 0) return os_error("syncing " + path_.string(), errno);
    if (::rename(unfinished().c_str(), path_.c_str()) != 0)
      return os_error("renaming to " + path_.string(), errno);
    file_.reset();
    return sync_folder(path_.parent_path());
  }

 private:
  fs::path unfinished() const { return path_.string() + std::string(kUnfinished); }

  const fs::path path_;
  Fd file_;
};

// Makes a new folder durable in its parent.
Result<void> make_durable_folders(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return {};
  if (folder.has_parent_path()) TRY(make_durable_folders(folder.parent_path()));
  TRY(make_folders(folder));
  return folder.has_parent_path() ? sync_folder(folder.parent_path()) : Result<void>{};
}

Result<void> add_files(const fs::path& folder, const fs::path& root, std::vector<BlobName>& found) {
  for (const fs::path& path : TRY(list_folder(folder))) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) continue;  // it was removed meanwhile
    if (S_ISDIR(info.st_mode))
      TRY(add_files(path, root, found));
    else if (path.extension() == kUnfinished)
      ::unlink(path.c_str());
    else
      found.push_back({path.lexically_relative(root).string(), Bytes(info.st_size)});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<BlobWriter>> FolderBlobs::create(const std::string& name) {
  const fs::path path = folder_ / name;
  TRY(make_durable_folders(path.parent_path()));
  Fd file = TRY(open_file(path.string() + std::string(kUnfinished), O_WRONLY | O_CREAT | O_TRUNC));
  return std::unique_ptr<BlobWriter>(std::make_unique<FileWriter>(path, std::move(file)));
}

Result<std::shared_ptr<const Blob>> FolderBlobs::open(const std::string& name) {
  const fs::path path = folder_ / name;
  const Fd file = TRY(open_file(path, O_RDONLY));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return os_error("reading " + path.string(), errno);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0)
    return std::shared_ptr<const Blob>(std::make_shared<MappedFile>(std::span<std::byte>()));
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return os_error("mapping " + path.string(), errno);
  return std::shared_ptr<const Blob>(
      std::make_shared<MappedFile>(std::span(static_cast<const std::byte*>(mapped), size)));
}

Result<std::vector<BlobName>> FolderBlobs::list() {
  std::vector<BlobName> found;
  std::error_code ignored;
  if (fs::is_directory(folder_, ignored)) TRY(add_files(folder_, folder_, found));
  std::ranges::sort(found, {}, &BlobName::name);
  return found;
}

Result<void> FolderBlobs::remove(const std::string& name) {
  const fs::path path = folder_ / name;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return os_error("removing " + path.string(), errno);
  // The folder of a run that has no other objects.
  for (fs::path folder = path.parent_path(); folder != folder_; folder = folder.parent_path())
    if (::rmdir(folder.c_str()) != 0) break;
  return {};
}

}  // namespace lockstep::insight
