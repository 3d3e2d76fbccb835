// Machine: the machine of a daemon, for readers on other machines that share the folder.
#pragma once

#include <string>

namespace lockstep::host {

struct Machine {
  std::string host;  // its name
  std::string id;    // /etc/machine-id; empty if there is none
  std::string boot;  // of the running kernel: equal in all its containers, changes with a reboot
};

Machine this_machine();

}  // namespace lockstep::host
