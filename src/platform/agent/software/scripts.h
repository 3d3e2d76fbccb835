// The shell scripts of preparation.h.
#pragma once

#include <string_view>

namespace lockstep::agent {

// `sh -c`, with the folder.
inline constexpr std::string_view kVenvScript = R"sh(
[ -d "$1" ] || missing "venv: there is no folder $1; create it with \`python3 -m venv $1\`"
[ -e "$1/bin/activate" ] ||
  missing "venv: $1 is no venv: it has no bin/activate; create one with \`python3 -m venv $1\`"
[ -x "$1/bin/python" ] ||
  missing "venv: $1/bin/python is no program of this host; create the venv with a Python that the host has"
unset PYTHONHOME
export VIRTUAL_ENV="$1" PATH="$1/bin:$PATH"
print_environment
)sh";

// `bash -c`, with the name or folder. Finds the folder as conda does, without conda where it can:
// the environments of CONDA_ENVS_DIRS, of the installations in PATH and in the usual places, and
// those that conda, mamba and micromamba have noted in ~/.conda/environments.txt.
inline constexpr std::string_view kCondaScript = R"sh(
name=$1
list_installations() {
  local tool path
  for tool in conda mamba micromamba; do
    path=$(command -v "$tool") && [ -x "$path" ] || continue
    path=$(readlink -f "$path")
    printf '%s\n' "${path%/*/*}"
  done
  printf '%s\n' "$MAMBA_ROOT_PREFIX"
  for path in "$HOME" /opt; do
    printf '%s\n' "$path"/{miniforge3,miniconda3,mambaforge,anaconda3,micromamba,conda}
  done
  printf '%s\n' "$HOME/.local/share/mamba"
}
list_candidates() {
  local folder tool
  case $name in
    */*) printf '%s\n' "$name"; return ;;
    base) list_installations; return ;;
  esac
  printf '%s\n' "${CONDA_ENVS_DIRS:-$CONDA_ENVS_PATH}" | tr ':' '\n' | while IFS= read -r folder; do
    [ -z "$folder" ] || printf '%s\n' "$folder/$name"
  done
  list_installations | while IFS= read -r folder; do printf '%s\n' "$folder/envs/$name"; done
  printf '%s\n' "$HOME/.conda/envs/$name"
  [ ! -r "$HOME/.conda/environments.txt" ] ||
    awk -F/ -v name="$name" '$NF == name' "$HOME/.conda/environments.txt"
}
find_by_tool() {
  local tool
  for tool in conda mamba micromamba; do
    command -v "$tool" >/dev/null || continue
    "$tool" env list 2>/dev/null | awk -v name="$name" '$1 == name { print $NF }'
  done
}
first_environment() {
  local folder
  while IFS= read -r folder; do
    [ -n "$folder" ] && [ -d "$folder/conda-meta" ] && printf '%s' "$folder" && return
  done
}
prefix=$(list_candidates | first_environment)
[ -n "$prefix" ] || case $name in */*) ;; *) prefix=$(find_by_tool | first_environment) ;; esac
if [ -z "$prefix" ]; then
  case $name in
    */*) missing "conda: $name is no conda environment: it has no conda-meta; create it with \`conda create --prefix $name\`" ;;
    *) missing "conda: this host has no environment '$name'; create it with \`conda create --name $name\`, or write its folder" ;;
  esac
fi
unset VIRTUAL_ENV
export CONDA_PREFIX="$prefix" CONDA_DEFAULT_ENV="$name" CONDA_SHLVL=1 PATH="$prefix/bin:$PATH"
for script in "$prefix"/etc/conda/activate.d/*.sh; do
  [ ! -r "$script" ] || . "$script"
done
begin_environment
[ ! -r "$prefix/conda-meta/state" ] ||
  printf 'LOCKSTEP_CONDA_STATE=%s\0' "$(cat "$prefix/conda-meta/state")"
env -0
end
)sh";

// `bash -lc`, with the modules. The login shell's profile defines `module`, and may set what the
// run has set: those variables come back, and the run's PATH before the profile's.
inline constexpr std::string_view kModuleScript = R"sh(
for kept in ${!LOCKSTEP_KEEP_@}; do
  variable=${kept#LOCKSTEP_KEEP_}
  if [ "$variable" = PATH ]; then export PATH="${!kept}:$PATH"; else export "$variable=${!kept}"; fi
  unset "$kept"
done
unset kept variable
type module >/dev/null 2>&1 ||
  missing "module: a login shell of this host has no command \`module\`; install Environment Modules or Lmod there"
begin_output
module load "$@" || missing "module: \`module load $*\` failed"
print_environment
)sh";

// `sh -c`, with the container's name, the image, a folder to create or nothing, and the command
// that starts the container. First it removes containers whose agent and conmon were killed
// together: nothing else ends them. The container's process has its variables only once it runs the
// shell of the image, which may be after `podman run` returns.
inline constexpr std::string_view kPodmanScript = R"sh(
name=$1 image=$2 folder=$3
shift 3
is_alive() { [ -r "/proc/$1/status" ] && ! grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status"; }
command -v podman >/dev/null 2>&1 ||
  missing "image: there is no podman on this host; install it there"
begin_output
podman image exists "$image"
case $? in
  0) ;;
  1) missing "image: Podman of user $(id -un) has no image $image on this host; \`podman pull $image\` there" ;;
  *) exit 1 ;;
esac
podman ps --all --filter label=lockstep.node --format '{{.Pid}} {{.Names}} {{.State}}' 2>/dev/null |
  while read -r pid old state; do
    case $state in
      Up* | running*) is_alive "$pid" || podman rm --force "$old" >/dev/null 2>&1 ;;
      Exited* | exited* | stopped*) podman rm --force "$old" >/dev/null 2>&1 ;;
    esac
  done
[ -z "$folder" ] || mkdir -p "$folder" || exit 1
said=$("$@" 2>&1 >/dev/null)
code=$?
printf '%s\n' "$said"
if [ "$code" -ne 0 ]; then
  case $code:$said in
    127:* | *'/bin/sh'*'not found'* | *'/bin/sh'*'no such file'*)
      missing "image: $image has no /bin/sh, which holds it open" ;;
    *CDI*) missing "image: Podman does not know the GPUs of this host; describe them there with \`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml\`" ;;
    *statfs*'no such file'*) missing "image: this host lacks a folder that the image is to have" ;;
  esac
  exit 1
fi
pid=$(podman inspect --type container --format '{{.State.Pid}}' "$name") || exit 1
tries=0
until tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q '^LOCKSTEP_HOLD='; do
  tries=$((tries + 1))
  [ "$pid" -gt 0 ] && [ "$tries" -le 100 ] && is_alive "$pid" ||
    { echo "the container of $image has ended at once"; exit 1; }
  sleep 0.05
done
begin_environment
printf 'LOCKSTEP_CONTAINER=%s\0' "$pid"
cat "/proc/$pid/environ" || exit 1
end
)sh";

// `sh -c`, with the image.
inline constexpr std::string_view kApptainerScript = R"sh(
command -v apptainer >/dev/null 2>&1 ||
  missing "image: there is no apptainer on this host; install it there"
[ -e "$1" ] || missing "image: there is no $1 on this host; build or copy it there"
print_environment
)sh";

// Before each of them.
inline constexpr std::string_view kScriptFunctions = R"sh(
begin_output() { printf '\0lockstep-output\0'; }
begin_environment() { printf '\0lockstep-environment\0'; }
end() { printf 'lockstep-end\0'; }
print_environment() { begin_environment; env -0; end; }
missing() { printf '\0lockstep-missing\0%s\0' "$*"; end; exit 3; }
)sh";

}  // namespace lockstep::agent
