#include "platform/host_setup/probe.h"

#include <charconv>
#include <map>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::host_setup {
namespace {

std::map<std::string, std::string, std::less<>> facts_in(std::string_view output) {
  std::map<std::string, std::string, std::less<>> facts;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    const std::size_t blank = std::min(line.find(' '), line.size());
    facts.emplace(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
  }
  return facts;
}

}  // namespace

std::string probe_script() {
  return "echo architecture $(uname -m); "
         "[ ! -r /etc/os-release ] || . /etc/os-release; echo distribution $ID $VERSION_ID; "
         "if [ $(id -u) = 0 ]; then p=/usr/local; else p=$HOME/.local; fi; "
         "echo root $(id -u); echo prefix $p; "
         "e=$p; while [ ! -d \"$e\" ]; do e=$(dirname \"$e\"); done; "
         "if [ -w \"$e\" ]; then echo writable yes; else echo writable no; fi; "
         "set -- $(df -Pk \"$e\" | tail -n 1); echo free $4; "
         "if command -v tar >/dev/null && command -v gzip >/dev/null; then echo tar yes; "
         "else echo tar no; fi; "
         "if [ -x \"$p/bin/lockstep\" ]; then l=$(readlink -f \"$p/bin/lockstep\"); "
         "echo installed $(basename $(dirname $(dirname \"$l\"))); fi";
}

Result<HostFacts> parse_probe(std::string_view output) {
  const auto facts = facts_in(output);
  for (const char* name : {"architecture", "root", "prefix", "writable", "free", "tar"})
    if (!facts.contains(name))
      return Error{Code::corrupt,
                   format("it does not say its {}; it says: {}", name, escape_controls(output))};
  std::int64_t kib = 0;
  const std::string& free = facts.find("free")->second;
  std::from_chars(free.data(), free.data() + free.size(), kib);
  const auto optional = [&](const char* name) {
    const auto fact = facts.find(name);
    return fact == facts.end() ? std::string() : fact->second;
  };
  return HostFacts{.architecture = facts.find("architecture")->second,
                   .distribution = optional("distribution"),
                   .is_root = facts.find("root")->second == "0",
                   .prefix = facts.find("prefix")->second,
                   .writable = facts.find("writable")->second == "yes",
                   .free = Bytes(kib * 1024),
                   .has_tar = facts.find("tar")->second == "yes",
                   .installed = optional("installed")};
}

}  // namespace lockstep::host_setup
