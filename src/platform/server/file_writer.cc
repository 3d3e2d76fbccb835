#include "platform/server/file_writer.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/os/files.h"
#include "platform/host/node_files.h"

namespace lockstep::server {
namespace {

constexpr Duration kIdleWait = std::chrono::seconds(10);  // between checks for work

Bytes size_of(const std::string& content) {
  return Bytes(static_cast<std::int64_t>(content.size()));
}

}  // namespace

FileWriter::FileWriter(Bytes waiting_max)
    : waiting_max_(waiting_max), thread_([this] { work(); }) {}

FileWriter::~FileWriter() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool FileWriter::write(const std::filesystem::path& file, std::string content) {
  const Lock lock(mutex_);
  const auto found = contents_.find(file);
  const Bytes before = found == contents_.end() ? Bytes(0) : size_of(found->second);
  const Bytes size = size_ - before + size_of(content);
  if (size > waiting_max_) return false;
  size_ = size;
  if (found == contents_.end()) queue_.push_back(file);
  contents_[file] = std::move(content);
  changed_.notify_all();
  return true;
}

std::optional<std::string> FileWriter::waiting(const std::filesystem::path& file) {
  const Lock lock(mutex_);
  const auto found = contents_.find(file);
  return found == contents_.end() ? std::nullopt : std::optional(found->second);
}

// --- In the thread ---

void FileWriter::work() {
  while (const auto file = next_file()) write_one(*file);
}

std::optional<std::filesystem::path> FileWriter::next_file() {
  const Lock lock(mutex_);
  while (queue_.empty()) {
    if (ending_) return std::nullopt;
    changed_.wait_until(mutex_, Deadline::after(kIdleWait));
  }
  auto file = std::move(queue_.front());
  queue_.pop_front();
  return file;
}

// A content that replaces this one meanwhile is in the queue again.
void FileWriter::write_one(const std::filesystem::path& file) {
  const std::string content = waiting(file).value_or("");
  const host::OwnersAccess as_owner(file.parent_path());  // of a node: its user may put links there
  auto written = make_folders(file.parent_path());
  if (written) written = write_file(file, content);
  if (!written) LS_LOG(warning, "writing {}: {}", file.string(), written.error().message);
  const Lock lock(mutex_);
  const auto found = contents_.find(file);
  if (found == contents_.end()) return;
  if (found->second != content) {
    queue_.push_back(file);
    return;
  }
  size_ = size_ - size_of(content);
  contents_.erase(found);
}

}  // namespace lockstep::server
