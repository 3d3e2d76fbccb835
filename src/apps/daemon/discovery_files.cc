#include "apps/daemon/discovery_files.h"

#include <chrono>

#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "net/http/url.h"

namespace lockstep::cli {
namespace {

constexpr auto kLookInterval = std::chrono::seconds(1);

host::DaemonFile daemon_file_of(const host::Home& home, const ServeConfig& served, int port,
                                const std::string& fingerprint) {
  const host::Machine here = host::this_machine();
  const auto url_at = [&](const std::string& host) -> std::string {
    if (host.empty()) return "";
    const bool plain = fingerprint.empty();
    const net::Url url{
        .host = host, .port = port, .scheme = plain ? net::Scheme::http : net::Scheme::https};
    return plain ? url.text() : format("{}#sha256:{}", url.text(), fingerprint);
  };
  return {.url = url_at(own_host(served)),
          .pid = ::getpid(),
          .version = LOCKSTEP_VERSION,
          .host = here.host,
          .machine = here.id,
          .boot = here.boot,
          .folder = home.folder.string(),
          .since = std::chrono::floor<std::chrono::seconds>(SystemClock().now()),
          .network_url = url_at(network_host(served))};
}

}  // namespace

Result<DiscoveryFiles> DiscoveryFiles::write(const host::Home& home, const ServeConfig& served,
                                             int port, const std::string& fingerprint) {
  const host::DaemonFile file = daemon_file_of(home, served, port, fingerprint);
  DiscoveryFiles made(home.daemon_file(), {{home.served_file(), serve_config_text(served)},
                                           {home.daemon_file(), host::daemon_file_text(file)}});
  made.url_ = file.url;
  made.network_url_ = file.network_url;
  for (const auto& [path, content] : made.files_)
    TRY(write_file(path, content, made.mode_of(path)));
  if (auto written = host::write_pointer(home, file); !written)
    LS_LOG(warning, "other machines cannot find the daemon: {}", written.error().message);
  LS_LOG(info, "serving {} at {}{}", home.folder.string(), host::without_fingerprint(file.url),
         file.network_url.empty()
             ? ""
             : ", for other machines at " + host::without_fingerprint(file.network_url));
  return made;
}

Result<void> DiscoveryFiles::write_for_nodes(const std::filesystem::path& node_home,
                                             const host::Home& home, const ServeConfig& served,
                                             int port, const std::string& fingerprint) {
  // It has no secret, and agents of other users than the daemon's read it.
  return write_file(host::Home{.folder = node_home}.daemon_file(),
                    text_for_nodes(home, served, port, fingerprint), 0644);
}

std::string DiscoveryFiles::text_for_nodes(const host::Home& home, const ServeConfig& served,
                                           int port, const std::string& fingerprint) {
  host::DaemonFile file = daemon_file_of(home, served, port, fingerprint);
  if (!file.network_url.empty()) file.url = file.network_url;
  return host::daemon_file_text(file);
}

void DiscoveryFiles::restore() {
  if (!next_check_.passed()) return;
  next_check_ = Deadline::after(kLookInterval);
  for (const auto& [path, content] : files_) {
    const auto found = read_file(path);
    if (found && *found == content) continue;
    const auto written = write_file(path, content, mode_of(path));
    if (written)
      LS_LOG(warning, "{} was removed or changed; it is made again", path.string());
    else if (!warned_)
      LS_LOG(warning, "{} was removed or changed: {}", path.string(), written.error().message);
    warned_ = !written;
  }
}

// Agents of other users read the daemon file, which has no secret.
unsigned DiscoveryFiles::mode_of(const std::filesystem::path& path) const {
  return path == daemon_file_ ? 0644 : 0600;
}

void DiscoveryFiles::remove() const { ::unlink(daemon_file_.c_str()); }

}  // namespace lockstep::cli
