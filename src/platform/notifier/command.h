// Programs that get notices on their standard input.
#pragma once

#include <atomic>

#include "platform/notifier/notifier.h"

namespace lockstep::notifier {

// The program is one of the folder, and others than root and this user can change neither.
Result<std::filesystem::path> find_command(const std::filesystem::path& folder,
                                           const std::string& name);
Answer run_command(const NotifierSetup& setup, const Delivery& delivery,
                   const std::atomic<bool>& is_stopped);

}  // namespace lockstep::notifier
