#include "platform/host_setup/scripts.h"

#include "base/format.h"
#include "text/shell_words.h"

namespace lockstep::host_setup {
namespace {

std::string folder_name(const Package& package) {
  return format("lockstep-{}-{}", package.version, package.sum);
}

// Words of a script: d the new folder, p the prefix.
std::string install_tarball(const Package& package, const HostFacts& facts) {
  const std::string settings =
      format("p={}; d={}; ", shell_words({facts.prefix}),
             shell_words({format("{}/lib/{}", facts.prefix, folder_name(package))}));
  return settings +
         "set -e; umask 022; mkdir -p \"$p/lib\" \"$p/bin\"; "
         "t=$(mktemp -d \"$p/lib/.lockstep-XXXXXX\"); trap \"rm -rf \\\"$t\\\"\" EXIT; "
         "tar -xzf - -C \"$t\" --strip-components 1; chmod 755 \"$t\"; "
         "rm -rf \"$d\"; mv \"$t\" \"$d\"; "
         "ln -sfn \"$d/bin/lockstep\" \"$p/bin/.lockstep-new\"; "
         "mv -f \"$p/bin/.lockstep-new\" \"$p/bin/lockstep\"";
}

std::string install_debian() {
  return "set -e; t=$(mktemp -d); trap \"rm -rf \\\"$t\\\"\" EXIT; chmod 755 \"$t\"; "
         "cat >\"$t/lockstep.deb\"; "
         "DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "
         "--reinstall \"$t/lockstep.deb\" </dev/null >&2";
}

}  // namespace

std::string installed_program(const Package& package, const HostFacts& facts) {
  if (package.kind == PackageKind::debian) return "/usr/bin/lockstep";
  return format("{}/bin/lockstep", facts.prefix);
}

bool is_installed(const Package& package, const HostFacts& facts) {
  return package.kind == PackageKind::tarball && facts.installed == folder_name(package);
}

std::string install_script(const Package& package, const HostFacts& facts) {
  return package.kind == PackageKind::debian ? install_debian() : install_tarball(package, facts);
}

// The address and the url are checked, and have no character that a shell reads.
std::string join_script(const std::string& program, const std::string& url,
                        const std::string& address) {
  const std::string reached = address.empty() ? "" : format(" --address \"{}\"", address);
  return format("\"{0}\" host join \"{1}\"{2} >&2 && exec \"{0}\" host serve --install", program,
                url, reached);
}

std::string service_log_script() {
  return "if [ $(id -u) = 0 ]; then u=; else u=--user; fi; "
         "journalctl $u --unit lockstep-host --no-pager --quiet --output cat --lines 3 "
         "2>/dev/null; "
         "tail -n 3 ${LOCKSTEP_HOME:-$HOME/.local/state/lockstep}/host/service.log 2>/dev/null; "
         "true";
}

std::string remove_script() {
  return "if [ $(id -u) = 0 ]; then p=/usr/local; else p=$HOME/.local; fi; "
         "for l in \"$p/bin/lockstep\" /usr/bin/lockstep; do if [ -x \"$l\" ]; then "
         "\"$l\" host serve --uninstall >&2 || true; break; fi; done; "
         "r=$(pgrep -u $(id -u) -x lockstep | tr \"\\n\" \" \"); "
         "if [ -n \"$r\" ]; then echo running $r; exit 0; fi; found=no; set -e; "
         "for d in \"$p\"/lib/lockstep-[0-9]*; do "
         "if [ -x \"$d/bin/lockstep\" ]; then found=yes; rm -rf \"$d\"; fi; done; "
         "if [ $found = yes ] && [ -L \"$p/bin/lockstep\" ] && [ ! -e \"$p/bin/lockstep\" ]; then "
         "rm -f \"$p/bin/lockstep\"; fi; "
         "if [ $(id -u) = 0 ] && dpkg -s lockstep >/dev/null 2>&1; then found=yes; "
         "DEBIAN_FRONTEND=noninteractive apt-get remove --yes --quiet lockstep </dev/null >&2; fi; "
         "if [ $found = no ]; then echo nothing; fi";
}

}  // namespace lockstep::host_setup
