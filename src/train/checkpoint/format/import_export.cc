#include "train/checkpoint/format/import_export.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "text/json.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/tensor_file/data_file.h"
#include "train/checkpoint/format/tensor_file/safetensors.h"
#include "train/checkpoint/format/tensor_file/torch_file.h"
#include "train/checkpoint/format/tensor_file/zip_file.h"
#include "train/checkpoint/format/writer/fence.h"
#include "train/checkpoint/format/writer/unfinished.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParameter = "parameter/";
constexpr std::string_view kBuffer = "buffer/";
// Keys of the metadata, whose values are text.
constexpr std::string_view kBufferNames = "lockstep.buffers";  // a JSON list
constexpr std::string_view kNote = "lockstep.note.";

// Reports the progress at intervals.
class Progress {
 public:
  explicit Progress(const ProgressCallback& watch) : watch_(watch) {}
  void add(std::size_t bytes) {
    done_ += Bytes(static_cast<std::int64_t>(bytes));
    if (watch_) watch_(done_);
  }

 private:
  const ProgressCallback& watch_;
  Bytes done_;
};

// A tensor of the model under its name in the module, and its source.
struct Exported {
  SafetensorsHeader header;
  std::map<std::string, const SavedTensor*> sources;
};

Result<Exported> model_of(const Manifest& manifest) {
  Exported exported;
  Json buffers = Json::array();
  for (const auto& tensor : manifest.tensors) {
    const std::string_view whole = tensor.name;
    const bool buffer = whole.starts_with(kBuffer);
    if (!buffer && !whole.starts_with(kParameter)) continue;
    const std::string name(whole.substr(buffer ? kBuffer.size() : kParameter.size()));
    if (!exported.sources.emplace(name, &tensor).second)
      return Error{Code::invalid, format("it has a parameter and a buffer named {}", name)};
    if (buffer) buffers.push_back(name);
    exported.header.tensors.push_back({name, tensor.type, tensor.shape, 0, 0});
  }
  if (!buffers.empty()) exported.header.metadata[std::string(kBufferNames)] = dump_json(buffers);
  for (const auto& [key, value] : manifest.notes)
    exported.header.metadata[format("{}{}", kNote, key)] = value;
  return exported;
}

using Sink = std::function<Result<void>(std::span<const char>)>;

// In pieces, because a tensor may be larger than the memory.
Result<void> copy_tensor(const SavedCheckpoint& checkpoint, const SavedTensor& tensor,
                         const Sink& sink, Progress& progress) {
  const auto item = bytes_of(tensor.type);
  std::vector<char> piece(static_cast<std::size_t>(kBlockBytes));
  for (std::int64_t begin = 0; begin < tensor.elements();) {
    const auto end = std::min(tensor.elements(), begin + kBlockBytes / item);
    const auto into = std::span(piece).first(static_cast<std::size_t>((end - begin) * item));
    TRY(checkpoint.read({{&tensor, begin, end, into}}));
    TRY(sink(into));
    progress.add(into.size());
    begin = end;
  }
  return {};
}

Result<ImportExportSummary> write_safetensors(const SavedCheckpoint& checkpoint,
                                              const fs::path& file, Progress progress) {
  auto exported = TRY(model_of(checkpoint.manifest()));
  const auto out = TRY(open_file(file, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  TRY(write_all(out.get(), lay_out_safetensors(exported.header)));
  const auto sink = [&](std::span<const char> bytes) {
    return write_all(out.get(), {bytes.data(), bytes.size()});
  };
  ImportExportSummary done;
  for (const auto& tensor : exported.header.tensors) {
    TRY(copy_tensor(checkpoint, *exported.sources[tensor.name], sink, progress));
    done.tensors += 1;
    done.bytes += Bytes(tensor.end - tensor.begin);
  }
  if (::fsync(out.get()) != 0) return os_error(format("syncing {}", file.string()), errno);
  return done;
}

Result<ImportExportSummary> write_torch(const SavedCheckpoint& checkpoint, const fs::path& file,
                                        Progress progress) {
  auto exported = TRY(model_of(checkpoint.manifest()));
  const auto& tensors = exported.header.tensors;
  std::vector<TorchTensor> described;
  for (const auto& tensor : tensors) described.push_back({tensor.name, tensor.type, tensor.shape});
  auto zip = TRY(ZipWriter::create(file));
  TRY(zip.add("model/data.pkl", torch_pickle(described)));
  TRY(zip.add("model/byteorder", "little"));
  const auto sink = [&](std::span<const char> bytes) { return zip.append(bytes); };
  ImportExportSummary done;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& source = *exported.sources[tensors[i].name];
    TRY(zip.begin(format("model/data/{}", i), source.bytes()));
    TRY(copy_tensor(checkpoint, source, sink, progress));
    done.tensors += 1;
    done.bytes += Bytes(source.bytes());
  }
  TRY(zip.add("model/version", "3\n"));
  TRY(std::move(zip).finish());
  return done;
}

// Replaces the file in one step.
template <class Write>
Result<ImportExportSummary> replace(const fs::path& file, Write&& write) {
  auto temporary = file;
  temporary += format(".{}.tmp", ::getpid());
  auto done = write(temporary);
  if (done && ::rename(temporary.c_str(), file.c_str()) != 0)
    done = os_error(format("renaming {} to {}", temporary.string(), file.string()), errno);
  if (!done) ::unlink(temporary.c_str());
  return done;
}

}  // namespace

Result<ImportExportSummary> export_safetensors(const SavedCheckpoint& checkpoint,
                                               const fs::path& file,
                                               const ProgressCallback& watch) {
  return replace(file, [&](const fs::path& temporary) {
    return write_safetensors(checkpoint, temporary, Progress(watch));
  });
}

Result<ImportExportSummary> export_torch(const SavedCheckpoint& checkpoint, const fs::path& file,
                                         const ProgressCallback& watch) {
  return replace(file, [&](const fs::path& temporary) {
    return write_torch(checkpoint, temporary, Progress(watch));
  });
}

namespace {

// A safetensors file that was checked.
struct Opened {
  Fd fd;
  SafetensorsHeader header;
};

Result<std::string> read_exactly(const Fd& fd, std::int64_t size) {
  std::string content(static_cast<std::size_t>(size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const auto got = ::read(fd.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("reading", errno);
    if (got == 0) return Error{Code::corrupt, "it is cut off"};
    filled += static_cast<std::size_t>(got);
  }
  return content;
}

Result<Opened> open_safetensors(const fs::path& path) {
  auto fd = TRY(open_file(path, O_RDONLY));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return os_error("reading", errno);
  const auto prefix = TRY(read_exactly(fd, std::min<std::int64_t>(status.st_size, 8)));
  const auto size = TRY(safetensors_header_size(prefix));
  const auto bytes = status.st_size - kSafetensorsPrefix - size;
  if (bytes < 0) return Error{Code::corrupt, "it is cut off"};
  auto header = TRY(parse_safetensors(TRY(read_exactly(fd, size)), bytes));
  return Opened{std::move(fd), std::move(header)};
}

Result<std::set<std::string>> buffer_names(const SafetensorsHeader& header) {
  std::set<std::string> buffers;
  const auto listed = header.metadata.find(std::string(kBufferNames));
  if (listed == header.metadata.end()) return buffers;
  const auto json = TRY(parse_json(listed->second));
  if (!json.is_array()) return Error{Code::corrupt, format("{} is no list", kBufferNames)};
  for (const auto& name : json)
    if (name.is_string()) buffers.insert(name.get<std::string>());
  return buffers;
}

Result<Manifest> manifest_of(const SafetensorsHeader& header, std::int64_t attempt) {
  const auto buffers = TRY(buffer_names(header));
  Manifest manifest;
  manifest.epoch = attempt;
  manifest.optimizer = kNoOptimizer;
  for (const auto& [key, value] : header.metadata)
    if (key.starts_with(kNote)) manifest.notes[key.substr(kNote.size())] = value;
  for (const auto& tensor : header.tensors)
    manifest.tensors.push_back(
        {format("{}{}", buffers.contains(tensor.name) ? kBuffer : kParameter, tensor.name),
         tensor.type,
         tensor.shape,
         {}});
  return manifest;
}

// The file's bytes in file order, each tensor at the alignment of a slice.
Result<void> copy_tensors(const Opened& from, DataWriter& to, Manifest& manifest,
                          Progress progress) {
  auto order = from.header.tensors;
  std::ranges::sort(order, {}, [](const SafeTensor& t) { return std::pair(t.begin, t.end); });
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < from.header.tensors.size(); ++i)
    index[from.header.tensors[i].name] = i;
  for (const auto& tensor : order) {
    if (tensor.begin == tensor.end) continue;
    TRY(to.align());
    manifest.tensors[index[tensor.name]].slices = {
        {0, (tensor.end - tensor.begin) / bytes_of(tensor.type), 0, to.size()}};
    for (auto at = tensor.begin; at < tensor.end;) {
      const auto size = std::min(kBlockBytes, tensor.end - at);
      TRY(to.append(TRY(read_exactly(from.fd, size))));
      progress.add(static_cast<std::size_t>(size));
      at += size;
    }
  }
  return {};
}

Result<ImportExportSummary> write_imported(const Opened& from, const fs::path& folder,
                                           const Fence& fence, Progress progress) {
  auto manifest = TRY(manifest_of(from.header, fence.attempt()));
  const auto unfinished = unfinished_path(folder, manifest.step, fence.claim_id());
  TRY(make_folders(unfinished));
  auto file = TRY(DataWriter::create(unfinished / data_file_name(0)));
  TRY(copy_tensors(from, file, manifest, progress));
  manifest.files.push_back(TRY(std::move(file).finish()));
  TRY(commit_checkpoint(folder, fence, manifest));
  const auto tensors = static_cast<std::int64_t>(manifest.tensors.size());
  return ImportExportSummary{tensors, Bytes(manifest.bytes())};
}

}  // namespace

Result<ImportExportSummary> import_safetensors(const fs::path& file, const fs::path& folder,
                                               const ProgressCallback& watch) {
  auto opened = open_safetensors(file);
  if (!opened) return std::move(opened).error().with_context(file.string());
  if (!TRY(list_checkpoints(folder)).empty())
    return Error{Code::already_exists,
                 format("{} holds checkpoints: import into a folder of its own", folder.string())};
  TRY(make_folders(folder));
  const auto fence = TRY(Fence::claim(folder, {}));
  auto done = write_imported(*opened, folder, fence, Progress(watch));
  if (!done) discard_unfinished(folder, 0, fence.claim_id());
  return done;
}

}  // namespace lockstep::train
