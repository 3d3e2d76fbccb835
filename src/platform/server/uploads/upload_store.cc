#include "platform/server/uploads/upload_store.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "platform/host/node_files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIncomingMax = 64;
constexpr std::size_t kLoadedMax = 8;
constexpr std::size_t kWantedMax = 20 * model::kUploadFilesMax;

Error lost_upload(std::string_view what) {
  return {Code::not_found, format("{}: submit the run again with `lockstep run --upload`", what)};
}

Result<std::string> read_part(const fs::path& path, std::int64_t offset, std::int64_t size) {
  const Fd file = TRY(open_file(path, O_RDONLY));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  const ssize_t read = ::pread(file.get(), bytes.data(), bytes.size(), offset);
  if (read < 0) return os_error("reading " + path.string(), errno);
  if (read < size) return Error{Code::corrupt, format("{} is shorter than it was", path.string())};
  return net::to_base64(bytes);
}

}  // namespace

UploadStore::UploadStore(const fs::path& home, const Clock& clock)
    : home_(home), names_{home / "uploads"}, cleanup_(home, names_, clock) {
  std::error_code ignored;
  fs::remove_all(names_.incoming(), ignored);
}

// --- From clients ---

bool UploadStore::has_file(const SentFile& sent, std::int64_t size) const {
  struct stat info{};
  return ::lstat(names_.file(sent.sha256).c_str(), &info) == 0 && info.st_size == size &&
         ::access(names_.sent_by(sent.user, sent.sha256).c_str(), F_OK) == 0;
}

Result<api::UploadAnswer> UploadStore::add_manifest(const std::string& user,
                                                    const model::UploadManifest& manifest,
                                                    Bytes limit) {
  TRY(model::check_limits(manifest, limit));
  TRY(model::check(manifest));
  const std::string content = dump_json(without_nulls(to_json(manifest)));
  api::UploadAnswer answer{.id = net::sha256_hex(content)};
  TRY(make_folders(names_.manifests()));
  TRY(write_file(names_.manifest(answer.id), content));
  cleanup_.keep(manifest);
  if (wanted_.size() > kWantedMax) wanted_.clear();
  std::set<std::string> missing;
  for (const model::UploadEntry& entry : manifest.files)
    if (!entry.link && !has_file({user, entry.sha256}, entry.size.count())) {
      wanted_[{user, entry.sha256}] = entry.size.count();
      missing.insert(entry.sha256);
    }
  answer.missing = {missing.begin(), missing.end()};
  return answer;
}

Result<int> UploadStore::add_parts(const std::string& user,
                                   const std::vector<api::UploadPart>& parts) {
  if (parts.size() > api::kUploadPartsMax)
    return Error{Code::invalid, format("parts: {} at most", api::kUploadPartsMax)};
  int complete = 0;
  for (const api::UploadPart& part : parts)
    if (TRY(add_part(user, part))) ++complete;
  return complete;
}

// True: the file is complete by this part.
Result<bool> UploadStore::add_part(const std::string& user, const api::UploadPart& part) {
  const SentFile sent{user, part.sha256};
  const auto wanted = wanted_.find(sent);
  if (wanted == wanted_.end()) return false;
  const auto bytes = net::from_base64(part.bytes);
  if (!bytes) return Error{Code::invalid, "bytes: a part is not base64"};
  const auto known = incoming_.find(sent);
  if (part.offset != (known == incoming_.end() ? 0 : known->second.size)) return false;
  IncomingFile& file = *TRY(incoming(sent));
  const std::string_view content(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (file.size + std::ssize(content) > wanted->second) {
    drop_incoming(sent);
    return Error{Code::invalid, "a file was changed while it was sent: repeat the command"};
  }
  if (auto written = write_all(file.file.get(), content); !written) {
    drop_incoming(sent);
    return std::move(written).error().with_context("storing an uploaded file");
  }
  file.digest.add(content);
  file.size += std::ssize(content);
  if (file.size < wanted->second) return false;
  TRY(complete(sent));
  return true;
}

// The oldest one makes room.
Result<UploadStore::IncomingFile*> UploadStore::incoming(const SentFile& sent) {
  if (const auto known = incoming_.find(sent); known != incoming_.end()) return &known->second;
  if (incoming_.size() >= kIncomingMax) drop_incoming(SentFile(incoming_order_.front()));
  const fs::path path = names_.incoming_file(sent.user, sent.sha256);
  TRY(make_folders(path.parent_path()));
  Fd file = TRY(open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  incoming_order_.push_back(sent);
  return &incoming_.emplace(sent, IncomingFile{.file = std::move(file)}).first->second;
}

Result<void> UploadStore::complete(const SentFile& sent) {
  const bool is_right = incoming_.at(sent).digest.hex() == sent.sha256;
  const fs::path path = names_.file(sent.sha256);
  const auto moved = [&]() -> Result<void> {
    if (!is_right)
      return Error{Code::invalid, "a file was changed while it was sent: repeat the command"};
    TRY(make_folders(path.parent_path()));
    if (::rename(names_.incoming_file(sent.user, sent.sha256).c_str(), path.c_str()) != 0)
      return os_error("storing " + path.string(), errno);
    const fs::path mark = names_.sent_by(sent.user, sent.sha256);
    TRY(make_folders(mark.parent_path()));
    TRY(open_file(mark, O_WRONLY | O_CREAT));
    return {};
  };
  const auto done = moved();
  drop_incoming(sent);
  if (done) wanted_.erase(sent);
  return done;
}

void UploadStore::drop_incoming(const SentFile& sent) {
  incoming_.erase(sent);
  std::erase(incoming_order_, sent);
  ::unlink(names_.incoming_file(sent.user, sent.sha256).c_str());
}

// --- Manifests ---

Result<const UploadStore::LoadedManifest*> UploadStore::load(const std::string& id,
                                                             const fs::path& file) {
  for (const auto& loaded : loaded_)
    if (loaded->id == id) return loaded.get();
  const auto read = [&]() -> Result<model::UploadManifest> {
    return from_json<model::UploadManifest>(TRY(parse_json(TRY(read_file(file)))),
                                            UnknownFields::ignore);
  };
  auto manifest = read();
  if (!manifest) return std::move(manifest).error().with_context(file.string());
  TRY(model::check(*manifest));
  auto loaded = std::make_unique<LoadedManifest>(LoadedManifest{.id = id, .manifest = *manifest});
  for (const model::UploadEntry& entry : manifest->files)
    if (!entry.link) loaded->sizes[entry.sha256] = entry.size.count();
  loaded_.push_front(std::move(loaded));
  if (loaded_.size() > kLoadedMax) loaded_.pop_back();
  return loaded_.front().get();
}

// The daemon may have died between the submission and this.
Result<const UploadStore::LoadedManifest*> UploadStore::load_of(const model::Run& run) {
  if (!run.spec.upload)
    return Error{Code::not_found, format("{} has no uploaded folder", text(run.id))};
  const fs::path file = host::upload_manifest_file(home_, run.generation, run.id);
  if (::access(file.c_str(), F_OK) != 0) TRY(keep_manifest(run));
  return load(*run.spec.upload, file);
}

Result<void> UploadStore::check_complete(const std::string& user, const std::string& id) {
  const auto lost = [&] {
    return Error{Code::invalid, format("upload: the daemon does not have the folder {}: send it "
                                       "with `lockstep run --upload`",
                                       id)};
  };
  if (!model::is_sha256(id) || ::access(names_.manifest(id).c_str(), F_OK) != 0) return lost();
  for (const auto& [sha256, size] : TRY(load(id, names_.manifest(id)))->sizes)
    if (!has_file({user, sha256}, size)) return lost();
  return {};
}

Result<void> UploadStore::keep_manifest(const model::Run& run) {
  const auto content = read_file(names_.manifest(*run.spec.upload));
  if (!content)
    return lost_upload(
        format("the daemon has lost what the uploaded folder of {} has", text(run.id)));
  const fs::path file = host::upload_manifest_file(home_, run.generation, run.id);
  TRY(make_folders(file.parent_path()));
  return write_file(file, *content);
}

// --- To agents ---

Result<model::UploadManifest> UploadStore::manifest_of(const model::Run& run) {
  return TRY(load_of(run))->manifest;
}

Result<api::UploadParts> UploadStore::parts_of(const model::Run& run,
                                               const api::UploadPartsRequest& request) {
  const Sizes& sizes = TRY(load_of(run))->sizes;
  api::UploadParts answer;
  std::int64_t room = api::kUploadCallMax;
  for (const api::UploadPartName& name : request.parts) {
    if (room <= 0 || answer.parts.size() >= api::kUploadPartsMax) break;
    const auto size = sizes.find(name.sha256);
    if (size == sizes.end() || name.offset < 0 || name.offset > size->second)
      return Error{Code::invalid, format("parts: '{}' from byte {} is no part of the folder of {}",
                                         name.sha256, name.offset, text(run.id))};
    const std::int64_t most = std::min(room, size->second - name.offset);
    auto bytes = read_part(names_.file(name.sha256), name.offset, most);
    if (!bytes && bytes.error().code == Code::not_found)
      return lost_upload(format("the daemon has lost the file {}", name.sha256));
    answer.parts.push_back({name.sha256, name.offset, TRY(std::move(bytes))});
    room -= most;
  }
  return answer;
}

}  // namespace lockstep::server
