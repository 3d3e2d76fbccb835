// Machine: which machine a daemon runs on, for readers on other machines that see the same folder.
#pragma once

#include <string>

namespace lockstep {

struct Machine {
  std::string host;  // its name
  std::string id;    // /etc/machine-id; empty where there is none
  std::string boot;  // of the running kernel: equal in all its containers, another after a reboot
};

Machine this_machine();

}  // namespace lockstep
