#include "platform/artifacts/artifacts.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kListMax = 10'000;

struct ArtifactFlags {
  std::string run, path;
  std::string download, put;
  bool json = false;
};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<api::ArtifactList> list_of(client::Client& client, const model::RunId& run,
                                  const std::string& path) {
  auto list =
      TRY(client.call(api::kArtifacts, {.path = run, .query = {.path = path, .limit = kListMax}}));
  if (list.more)
    print_to_stderr(format("lockstep: only the first {} of {} are listed", kListMax,
                           path.empty() ? text(run) : path));
  return list;
}

Result<int> list_artifacts(const ArtifactFlags& flags, const model::RunId& run) {
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(list_of(client, run, flags.path));
  if (flags.json) {
    print(dump_json(to_json(list), Indent::two));
  } else if (list.artifacts.empty()) {
    print(format("{} has no artifacts", text(run)));
  } else {
    Table table({"ARTIFACT", "SIZE", "SHA256"});
    for (const api::ArtifactView& one : list.artifacts)
      table.add({one.is_folder ? one.path + "/" : one.path,
                 one.is_folder ? "-" : lockstep::text(Bytes(one.size)),
                 one.is_folder ? "-" : one.sha256.substr(0, 12)});
    print(fit_to_terminal(table));
  }
  return kDone;
}

// --- Download ---

// The file appears when it is complete and has its checksum.
Result<void> download_file(client::Client& client, const model::RunId& run,
                           const api::ArtifactView& artifact, const fs::path& to) {
  TRY(make_folders(to.parent_path()));
  const fs::path unfinished = to.string() + ".unfinished";
  const Fd file = TRY(open_file(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  net::Sha256 digest;
  for (std::int64_t offset = 0;;) {
    const auto part = TRY(client.call(
        api::kArtifactPart, {.path = run, .query = {.path = artifact.path, .offset = offset}}));
    const auto bytes = net::from_base64(part.bytes);
    if (!bytes)
      return Error{Code::corrupt, format("{}: the daemon's answer is wrong", to.string())};
    const std::string_view content(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    TRY(write_all(file.get(), content));
    digest.add(content);
    offset += std::ssize(content);
    if (content.empty() || offset >= part.size) break;
  }
  if (digest.hex() != artifact.sha256) {
    ::unlink(unfinished.c_str());
    return Error{Code::unavailable,
                 format("{} changed while it was read: try again", artifact.path)};
  }
  std::error_code failed;
  fs::rename(unfinished, to, failed);
  if (failed) return os_error("writing " + to.string(), failed.value());
  return {};
}

struct Copied {
  std::int64_t files = 0, bytes = 0;
};

// `above` is the part of the paths that the download leaves out. The daemon may be another one, so
// its paths are checked here, too.
Result<void> download_folder(client::Client& client, const model::RunId& run,
                             const std::string& folder, std::size_t above, const fs::path& to,
                             Copied& copied) {
  for (const api::ArtifactView& one : TRY(list_of(client, run, folder)).artifacts) {
    const std::string path = TRY(artifacts::checked_path(one.path));
    if (path.size() <= above)
      return Error{Code::corrupt, format("{}: the daemon's answer is wrong", path)};
    if (one.is_folder) {
      TRY(download_folder(client, run, path, above, to, copied));
      continue;
    }
    TRY(download_file(client, run, one, to / path.substr(above)));
    ++copied.files;
    copied.bytes += one.size;
  }
  return {};
}

Result<int> download(const ArtifactFlags& flags, const model::RunId& run) {
  client::Client client = TRY(connect_to_daemon());
  Copied copied;
  const std::size_t above = flags.path.size() - base_name(flags.path).size();
  TRY(download_folder(client, run, flags.path, above, flags.download, copied));
  print(format("{} files, {}, in {}", copied.files, lockstep::text(Bytes(copied.bytes)),
               flags.download));
  return kDone;
}

// --- Upload ---

Result<api::ArtifactView> send_file(client::Client& client, const model::RunId& run,
                                    const fs::path& from, const std::string& path) {
  const Fd file = TRY(open_file(from, O_RDONLY));
  const std::string upload = net::random_hex(16);
  std::vector<std::byte> bytes(static_cast<std::size_t>(api::kArtifactPartMax));
  for (std::int64_t offset = 0;;) {
    const ssize_t read = ::pread(file.get(), bytes.data(), bytes.size(), offset);
    if (read < 0) return os_error("reading " + from.string(), errno);
    const auto part = std::span(bytes).first(static_cast<std::size_t>(read));
    const auto stored =
        TRY(client.call(api::kAddArtifactPart, {.path = run,
                                                .request = {.upload = upload,
                                                            .path = path,
                                                            .offset = offset,
                                                            .bytes = net::to_base64(part),
                                                            .last = read < std::ssize(bytes)}}));
    if (stored.artifact) return *stored.artifact;
    if (stored.next != offset + read)
      return Error{Code::unavailable, format("the daemon has another part of {}: try again", path)};
    offset = stored.next;
  }
}

Result<int> put(const ArtifactFlags& flags, const model::RunId& run) {
  const fs::path from = fs::path(flags.put).lexically_normal();
  std::error_code failed;
  const fs::path whole = fs::absolute(from, failed);
  const std::string name =
      whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
  const std::string path = TRY(artifacts::checked_path(flags.path.empty() ? name : flags.path));
  const auto status = fs::status(from, failed);
  if (!fs::exists(status))
    return Error{Code::not_found, format("--put: there is no file {}", flags.put)};
  std::vector<std::pair<fs::path, std::string>> files;
  if (!fs::is_directory(status)) files.emplace_back(from, path);
  if (fs::is_directory(status))
    for (const auto& entry : fs::recursive_directory_iterator(from, failed))
      if (entry.is_regular_file(failed))
        files.emplace_back(entry.path(),
                           TRY(artifacts::checked_path(
                               path + "/" + entry.path().lexically_relative(from).string())));
  std::ranges::sort(files);
  client::Client client = TRY(connect_to_daemon());
  for (const auto& [file, to] : files) {
    const auto sent = TRY(send_file(client, run, file, to));
    print(format("{}/{}: {}", text(run), sent.path, lockstep::text(Bytes(sent.size))));
  }
  if (files.empty()) return Error{Code::invalid, format("--put: {} has no files", flags.put)};
  return kDone;
}

Result<int> act_on_artifacts(const ArtifactFlags& flags) {
  const model::RunId run = TRY(run_argument(flags.run));
  if (!flags.download.empty() && !flags.put.empty())
    return Error{Code::invalid, "--download and --put exclude each other"};
  if (!flags.path.empty()) TRY(artifacts::checked_path(flags.path));
  if (!flags.put.empty()) return put(flags, run);
  if (!flags.download.empty()) return download(flags, run);
  return list_artifacts(flags, run);
}

}  // namespace

// `lockstep artifacts RUN [PATH] [--download DIR | --put FILE]`.
void add_artifacts(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("artifacts", "List, get and send the files that a run has logged");
  auto flags = std::make_shared<ArtifactFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("path", flags->path, "an artifact or a folder of them (default: all)")
      ->type_name("PATH");
  command
      ->add_option("--download", flags->download,
                   "get the artifact, or the folder with all below it, into this folder")
      ->type_name(kFolderValue);
  command
      ->add_option("--put", flags->put,
                   "send this file, or this folder, as PATH (default: its own name)")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  lockstep artifacts demo/42\n"
      "  lockstep artifacts demo/42 plots --download .\n"
      "  lockstep artifacts demo/42 report.html --put out/report.html");
  command->callback([&action, flags] { action = [flags] { return act_on_artifacts(*flags); }; });
}

}  // namespace lockstep::cli
