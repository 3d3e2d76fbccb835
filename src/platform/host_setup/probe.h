// The facts of a host that decide which package is copied to it, and whether one may be.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host_setup {

struct HostFacts {
  std::string architecture;  // as `uname -m`: x86_64
  std::string distribution;  // "debian 12"; empty: unknown
  bool is_root = false;
  std::string prefix;     // below which Lockstep is installed: /usr/local, or ~/.local
  bool writable = false;  // the prefix, or its nearest parent that exists
  Bytes free{};           // on its disk
  bool has_tar = false;   // and gzip
  std::string installed;  // the folder that PREFIX/bin/lockstep links to; empty: none
};

// Prints the facts as lines "NAME VALUE".
std::string probe_script();
// Code::corrupt if a fact is missing.
Result<HostFacts> parse_probe(std::string_view output);

}  // namespace lockstep::host_setup
