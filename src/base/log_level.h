#pragma once

namespace lockstep {

enum class LogLevel { debug, info, warning, error };

}  // namespace lockstep
