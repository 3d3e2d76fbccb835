#include "platform/host/ssh_keys.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/run_program.h"

namespace lockstep::host {
namespace {

using std::filesystem::path;

constexpr Duration kKeygenLimit = std::chrono::seconds(10);
constexpr std::string_view kKeyType = "ssh-ed25519 ";
constexpr std::size_t kKeyMax = 200;
constexpr std::size_t kPublicFileMax = 16 << 10;

// Removed with what is in it.
class WorkFolder {
 public:
  static Result<WorkFolder> create(const path& parent) {
    TRY(make_folders(parent));
    std::string name = (parent / ".work-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return os_error("making a folder in " + parent.string(), errno);
    return WorkFolder(name);
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  WorkFolder& operator=(WorkFolder&&) = delete;

  path file(std::string_view name) const { return path_ / name; }

 private:
  explicit WorkFolder(path folder) : path_(std::move(folder)) {}
  path path_;
};

// The file that it makes is the result.
Result<std::string> run_keygen(std::vector<std::string> arguments, const path& made) {
  arguments.insert(arguments.begin(), "ssh-keygen");
  const auto ended = run_program(arguments, kKeygenLimit);
  if (!ended && ended.error().code == Code::not_found)
    return Error{Code::not_found,
                 "this machine has no ssh-keygen: install OpenSSH's client (openssh-client)"};
  if (!ended) return std::move(ended).error();
  auto content = read_file(made, kPublicFileMax);
  if (content) return content;
  return Error{Code::internal, format("ssh-keygen failed: {}", ended->output)};
}

// Type and bytes.
std::string without_comment(const std::string& line) {
  const std::size_t bytes = line.find(' ');
  if (bytes == std::string::npos) return line;
  return line.substr(0, line.find_first_of(" \r\n", bytes + 1));
}

path public_file(const path& key) { return key.string() + ".pub"; }

Result<std::string> read_public_key(const path& key) {
  return without_comment(TRY(read_file(public_file(key), kPublicFileMax)));
}

// The public key appears last: if it is there, the key is complete.
Result<void> make_key(const path& file) {
  const WorkFolder work = TRY(WorkFolder::create(file.parent_path()));
  const path made = work.file("key");
  TRY(run_keygen({"-q", "-t", "ed25519", "-N", "", "-C", "", "-f", made.string()},
                 public_file(made)));
  std::error_code failed;
  std::filesystem::create_hard_link(made, file, failed);
  if (failed == std::errc::file_exists) return {};          // another process makes it
  if (failed) std::filesystem::rename(made, file, failed);  // the file system has no links
  if (failed) return os_error("making the key " + file.string(), failed.value());
  std::filesystem::rename(public_file(made), public_file(file), failed);
  if (failed) return os_error("making the key " + file.string(), failed.value());
  return {};
}

}  // namespace

Result<std::string> open_ssh_key(const path& file) {
  if (auto known = read_public_key(file)) return known;
  TRY(make_folders(file.parent_path()));
  TRY(make_key(file));
  if (auto made = read_public_key(file)) return made;
  // A process that made the key was killed before it wrote its public part, or writes it now.
  const auto line = run_program({"ssh-keygen", "-y", "-f", file.string()}, kKeygenLimit);
  if (!line) return std::move(line).error();
  const std::string key = without_comment(line->output);
  if (!check_ssh_public_key(key))
    return Error{Code::corrupt,
                 format("{} is no key of ssh: remove it, so that it is made again", file.string())};
  TRY(write_file(public_file(file), key + "\n"));
  return key;
}

Result<void> check_ssh_public_key(const std::string& key) {
  const bool is_bytes =
      key.starts_with(kKeyType) && key.size() > kKeyType.size() && key.size() <= kKeyMax &&
      key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=",
                            kKeyType.size()) == std::string::npos;
  if (is_bytes) return {};
  return Error{Code::invalid,
               "the key must be one line: ssh-ed25519, a blank, and its bytes in "
               "base64"};
}

Result<std::string> sign_ssh_key(const SshCertificate& certificate) {
  TRY(check_ssh_public_key(certificate.public_key));
  const WorkFolder work = TRY(WorkFolder::create(certificate.authority.parent_path()));
  const path key = work.file("key.pub");
  TRY(write_file(key, certificate.public_key + "\n"));
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(certificate.lifetime).count();
  std::vector<std::string> arguments = {"-q",
                                        "-s",
                                        certificate.authority.string(),
                                        "-I",
                                        certificate.id,
                                        "-n",
                                        certificate.principal,
                                        "-V",
                                        format("always:+{}s", seconds)};
  if (certificate.is_host)
    arguments.emplace_back("-h");
  else
    for (const char* allowed :
         {"clear", "permit-pty", "permit-port-forwarding", "permit-agent-forwarding"})
      arguments.insert(arguments.end(), {"-O", allowed});
  arguments.push_back(key.string());
  return without_comment(TRY(run_keygen(std::move(arguments), work.file("key-cert.pub"))));
}

}  // namespace lockstep::host
