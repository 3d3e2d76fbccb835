# One step of the set-up: a progress line on the terminal, the step's output in build/logs/NAME.log.
#
#   step NAME "Installing Debian packages (43)" command...
#
# prints "[2/6] Installing Debian packages (43) ... done in 31 s". Until then it shows the progress of the step
# and the time left: on a terminal in this line, elsewhere in a new line every ten seconds. When
# the command fails, the end of its log is shown and the program exits.

step_number=0
steps_planned=0
step_child=

if [[ -t 1 ]]; then
  on_terminal=true
  bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' clear_line=$'\r\e[K'
else
  on_terminal=false
  bold='' red='' green='' plain='' clear_line=''
fi

plan_steps() { steps_planned=$1; }

# die MESSAGE [REMEDY]: what went wrong, and what to do about it.
die() {
  printf '%sdev: %s%s\n' "$red" "$1" "$plain" >&2
  [[ $# -lt 2 ]] || printf '     %s\n' "$2" >&2
  exit 1
}

usage_error() {
  printf 'dev: %s; ./dev help lists what there is\n' "$1" >&2
  exit 2
}

# Two ./dev in one checkout would install and link over each other: the second one waits.
lock_checkout() {
  mkdir -p build/logs 2>/dev/null && touch build/.lock 2>/dev/null ||
    die "$PWD/build is not writable by $(id -un)" "run ./dev as the owner of this checkout, or fix it: sudo chown -R $(id -un) build"
  exec 9>build/.lock
  flock --nonblock 9 && return
  echo "another ./dev works in this checkout; waiting up to an hour for it to end"
  flock --timeout 3600 9 || die "another ./dev still works in this checkout" \
    "find it with: fuser build/.lock"
}

unlock_checkout() { exec 9>&-; }

# A step with nothing to do.
already() {
  step_number=$((step_number + 1))
  printf '[%d/%d] %s ... %s\n' "$step_number" "$steps_planned" "$1" "${2:-in place}"
}

# The end of an interrupted set-up is the end of its installers and compilers too: they run in a
# process group of their own (set -m), which Ctrl-C does not reach.
stop_child() {
  [[ -z $step_child ]] || kill -TERM -- "-$step_child" 2>/dev/null || true
}
trap 'stop_child' EXIT
trap 'echo; exit 130' INT
trap 'echo; exit 143' TERM

step() {
  local name=$1 title=$2 log=build/logs/$1.log started=$SECONDS status=0
  shift 2
  step_number=$((step_number + 1))
  local head="[$step_number/$steps_planned] $title ..."
  ! $on_terminal || printf '%s ' "$head"
  set -m
  "$@" >"$log" 2>&1 </dev/null 9>&- &
  step_child=$!
  set +m
  watch_child "$name" "$head" "$log" "$started"
  wait "$step_child" || status=$?
  step_child=
  if [[ $status -eq 0 ]]; then
    printf '%s%s %sdone%s in %d s\n' "$clear_line" "$head" "$green" "$plain" $((SECONDS - started))
  else
    printf '%s%s %sfailed%s after %d s\n' "$clear_line" "$head" "$red" "$plain" $((SECONDS - started))
    show_log "$log"
    explain "$name" "$log"
    exit 1
  fi
}

# Shows the progress until the child ends: twice a second on a terminal, every ten seconds elsewhere.
watch_child() {
  local name=$1 head=$2 log=$3 started=$4 next=$((SECONDS + 2))
  while kill -0 "$step_child" 2>/dev/null; do
    sleep 0.1
    [[ $SECONDS -ge $next ]] || continue
    if $on_terminal; then
      printf '%s%s %s' "$clear_line" "$head" "$(progress "$name" "$log" $((SECONDS - started)))"
      sleep 0.4
    else
      next=$((SECONDS + 10))
      printf '%s %s\n' "$head" "$(progress "$name" "$log" $((SECONDS - started)))"
    fi
  done
}

# "34 %, 80 s, about 2 min left", or only the seconds while nothing else is known.
progress() {
  local percent seconds=$3
  percent=$(percent_of "$1" "$2")
  if [[ -z $percent || $percent -lt 3 ]]; then
    printf '%d s' "$seconds"
  else
    printf '%d %%, %d s, %s left' "$percent" "$seconds" \
      "$(about $((seconds * (100 - percent) / percent)))"
  fi
}

about() { if [[ $1 -lt 90 ]]; then echo "about $1 s"; else echo "about $((($1 + 30) / 60)) min"; fi; }

# From the step's log; nothing if the log does not show it.
percent_of() {
  case $1 in
    compile) ninja_percent "$2" ;;
    packages) apt_percent "$2" ;;
    python*) pip_percent "$2" ;;
  esac
}

# From the last "[17/230]" that ninja wrote.
ninja_percent() {
  tail --bytes=4000 "$1" | grep --only-matching '^\[[0-9]*/[0-9]*\]' | tail --lines=1 |
    { IFS='[/]' read -r _ finished total && echo $((100 * finished / total)); } || true
}

# Each package is fetched, unpacked and set up.
apt_percent() {
  local count
  count=$(sed --quiet 's/.* \([0-9]*\) newly installed.*/\1/p' "$1" | tail --lines=1)
  [[ ${count:-0} -gt 0 ]] || return 0
  local acts
  acts=$(grep --count --extended-regexp '^(Get:|Unpacking |Setting up )' "$1") || true
  echo $((acts >= 3 * count ? 99 : 100 * acts / (3 * count)))
}

# Each package is collected, which takes about as long as installing all of them.
pip_percent() {
  local count collected
  count=$(cat tools/requirements*.txt | grep --count ==)
  [[ $(basename "$1") != python.log ]] || count=$(grep --count == tools/requirements.txt)
  collected=$(grep --count '^Collecting ' "$1") || true
  echo $((collected >= count ? 60 : 60 * collected / count))
}

# The first failure if the log names it, else the last lines of the log.
show_log() {
  echo
  if grep --quiet '^FAILED: ' "$1"; then
    sed --quiet '/^FAILED: /,$p' "$1" | grep --invert-match '^ccache \|^: && ' | head --lines=40
  else
    grep --invert-match '^Requirement already satisfied' "$1" | tail --lines=20
  fi | cut --characters=-200 | sed 's/^/    /'
  echo
  echo "    the whole output is in $1"
}

# explain NAME LOG: the likely cause and its remedy, read from the log.
explain() {
  local again="then run ./dev again"
  if grep --quiet --extended-regexp 'No space left on device|Disk quota exceeded' "$2"; then
    die "the disk is full" "make room where $PWD lies, $again"
  elif grep --quiet --extended-regexp --ignore-case "$network_trouble" "$2"; then
    die "could not reach the ${network_registry[$1]:-package} registry" \
      "check proxy and network, $again"
  elif grep --quiet 'No matching distribution found for torch' "$2"; then
    die "pip finds no CPU build of torch, of the version in tools/requirements.txt" \
      "tell pip the CPU index that pytorch.org names: PIP_EXTRA_INDEX_URL=... ./dev build; or take
     another build, such as CUDA's of several GB: LOCKSTEP_TORCH=torch==VERSION ./dev build"
  elif grep --quiet 'No matching distribution found' "$2"; then
    die "the PyPI registry does not have a package of tools/requirements.txt" \
      "see above which one; if you use a mirror, check that it is up to date"
  elif grep --quiet --extended-regexp 'Killed signal|out of memory|std::bad_alloc' "$2"; then
    die "the compiler ran out of memory" "run LOCKSTEP_JOBS=1 ./dev build"
  else
    die "step '$1' failed; the lines above say why"
  fi
}

declare -A network_registry=([packages]=Debian [python]=PyPI [python-tests]=PyPI [data]=PyPI
  [node]=npm)
network_trouble='could not resolve|temporary failure (in name resolution|resolving)|failed to fetch'
network_trouble+='|unable to (connect|locate package)|cannot connect to proxy|ProxyError|Max retries'
network_trouble+='|Connection (refused|timed out|reset)|Network is unreachable|NewConnectionError'
network_trouble+='|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ReadTimeout|ConnectTimeout|CERTIFICATE_VERIFY_FAILED'
