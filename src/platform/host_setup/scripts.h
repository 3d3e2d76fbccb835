// The scripts that install and remove Lockstep on a host: one line each, for /bin/sh.
#pragma once

#include <string>

#include "platform/host_setup/package.h"

namespace lockstep::host_setup {

// The program that the package brings, on a host with these facts.
std::string installed_program(const Package& package, const HostFacts& facts);
// apt-get finds that out for a Debian package.
bool is_installed(const Package& package, const HostFacts& facts);
// Reads the package from its standard input.
std::string install_script(const Package& package, const HostFacts& facts);
// Reads the join token from its standard input; prints how the service runs.
std::string join_script(const std::string& program, const std::string& url,
                        const std::string& address);
// Prints the last lines of the service, whichever way it runs.
std::string service_log_script();
// Ends the service. Prints "nothing" if Lockstep is not installed, "running PID..." if it may not
// be removed now.
std::string remove_script();

}  // namespace lockstep::host_setup
