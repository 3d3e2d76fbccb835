# cmake and ninja into build/, through ccache so that a second checkout compiles nothing again.

# Both make ccache hit across checkouts: paths below the checkout are hashed relative to it.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
# Without this it does not cache what uses a precompiled header.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# ccache takes the headers from the compiler's dependency list, without running the preprocessor.
export CCACHE_DEPEND=true

# ON compiles up to 16 sources of a folder at once: half the time from nothing. OFF compiles each source
# alone, which is faster if one file changes at a time. An existing build keeps its setting.
batches() {
  local existing
  existing=$(sed --quiet 's/^LOCKSTEP_BATCHES:BOOL=//p' build/CMakeCache.txt 2>/dev/null) || true
  echo "${LOCKSTEP_BATCHES:-${existing:-ON}}"
}

configure() {
  local settings=(-G Ninja -D CMAKE_C_COMPILER_LAUNCHER=ccache
    -D "CMAKE_CXX_COMPILER_LAUNCHER=$PWD/tools/dev/ccache_batch"
    -D "LOCKSTEP_PYTHON=$PWD/build/venv/bin/python" -D "LOCKSTEP_BATCHES=$(batches)")
  if is_configured build "${settings[@]}"; then
    already "Configuring"
  else
    step configure "Configuring" configure_into build "${settings[@]}"
  fi
}

# Ninja itself runs cmake again when a CMake file changes; we do when the settings do.
is_configured() {
  local stamp=$1/.configured-with
  [[ -f $1/build.ninja && -f $stamp && $(<"$stamp") == "${*:2}" ]]
}

configure_into() { cmake -S . -B "$1" "${@:2}" && echo "${*:2}" >"$1/.configured-with"; }

# compile [TARGET...]; without one, all targets.
compile() {
  NINJA_STATUS='[%f/%t] ' step compile "Compiling" ninja -C build -j "$(compile_jobs)" "$@"
}

# One compiler a core, but a file that includes libtorch takes 1.5 GB: as many as memory holds.
compile_jobs() {
  [[ -z ${LOCKSTEP_JOBS:-} ]] || { echo "$LOCKSTEP_JOBS" && return; }
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(sed --quiet 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  local fit=$((memory_kib / 1500000))
  echo $((fit < 1 ? 1 : fit < cores ? fit : cores))
}
